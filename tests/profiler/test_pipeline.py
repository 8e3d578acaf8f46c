import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exporting import kernels
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.profiler import pipeline
from hawkeye_mcp.profiler.mosaic import DataDependent

BLOCK = 128 * 128 * 4


def matmul(x, y):
    """Grid (2, 3, 2): lhs by i and k, rhs by k and j, out by i and j."""

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...])

    return pl.pallas_call(
        kernel,
        grid=(2, 3, 2),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((256, 384), jnp.float32),
    )(x, y)


def gather(indices, x):
    """Block i of the result is block indices[i] of x."""

    def kernel(indices_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((128, 128), lambda i, indices: (indices[i], 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i, indices: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((512, 128), jnp.float32),
    )(indices, x)


MATMUL = (matmul, [((256, 256), "float32"), ((256, 384), "float32")])
GATHER = (gather, [((4,), "int32"), ((1024, 128), "float32")])


def test_blocks_arrive_for_the_step_that_needs_them_and_leave_when_they_change():
    program, (call,) = kernels(*MATMUL)
    with program.context:
        found = pipeline.steps(call)
    assert found.read_bytes.tolist() == [2 * BLOCK] * 12  # k runs innermost: both operands change at every step
    assert found.written_bytes.tolist() == [0, BLOCK] * 6
    assert found.total_bytes == sum(call_bytes(program, call))


def call_bytes(program, call):
    with program.context:
        return call.window_bytes()


def test_a_step_shares_its_time_with_the_next_reads_and_the_last_writes():
    program, (call,) = kernels(*MATMUL)
    with program.context:
        moved, transfers = pipeline.steps(call).during()
    assert moved.tolist() == [2 * BLOCK, 2 * BLOCK, *[3 * BLOCK, 2 * BLOCK] * 4, 3 * BLOCK, 0]
    assert transfers.tolist() == [2, 2, *[3, 2] * 4, 3, 0]


def test_the_summary_counts_every_step_once_and_what_no_step_hides():
    program, (call,) = kernels(*MATMUL)
    with program.context:
        found = pipeline.summary(call, 1)
        halves = pipeline.summary(call, 2)
        total = sum(call.window_bytes())
    assert found["transfers"] == [[0, 0, 1.0], [2 * BLOCK, 2, 6.0], [3 * BLOCK, 3, 5.0]]
    assert found["edge_bytes"] == 3 * BLOCK
    assert sum(b * steps for b, _, steps in found["transfers"]) + found["edge_bytes"] == total
    assert [steps for _, _, steps in halves["transfers"]] == [0.5, 3.0, 2.5]
    assert [b for b, _, _ in halves["transfers"]] == [0, 4 * BLOCK, 6 * BLOCK]


def test_known_indices_say_which_blocks_stay():
    program, (call,) = kernels(*GATHER)
    with program.context:
        found = pipeline.steps(call, [np.array([5, 5, 5, 2])])
        assert pipeline.summary(call, 1) is None
        with pytest.raises(DataDependent, match="not known"):
            pipeline.steps(call)
    assert found.read_bytes.tolist() == [BLOCK, 0, 0, BLOCK]
    assert found.reads.tolist() == [1, 0, 0, 1]
    assert found.written_bytes.tolist() == [BLOCK] * 4


def test_blocks_that_reach_over_the_edge_move_what_is_there():
    def function(x):
        return pl.pallas_call(
            lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]),
            grid=(2,),
            in_specs=[pl.BlockSpec((128, 128), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct((160, 128), jnp.float32),
        )(x)

    program, (call,) = kernels(function, [((160, 128), "float32")])
    with program.context:
        found = pipeline.steps(call)
    assert found.read_bytes.tolist() == [BLOCK, BLOCK // 4]
    assert found.written_bytes.tolist() == [BLOCK, BLOCK // 4]

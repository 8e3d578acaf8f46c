"""Whole kernels: grids, windows, prefetched scalars, transfers, shared memory, and what a TPU leaves undefined."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exporting import kernels
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.mosaic_eval.errors import Fault
from hawkeye_mcp.mosaic_eval.kernel import Kernel

F32 = jnp.float32
random = np.random.default_rng(1)


def evaluate(function, *inputs):
    """Results of the one kernel of a function of these inputs."""
    program, (call,) = kernels(function, [(x.shape, str(x.dtype)) for x in inputs])
    return Kernel(call, program.context, exact=True)(*inputs)


def same(actual, expected):
    np.testing.assert_array_equal(actual, expected)


def test_a_partial_block_is_undefined_past_the_edge_and_not_written_there():
    def body(x_ref, o_ref, s_ref):
        o_ref[...] = x_ref[...] * 2
        s_ref[...] = jnp.sum(x_ref[...], axis=0, keepdims=True)

    def function(x):
        return pl.pallas_call(
            body, grid=(3,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
            out_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0)), pl.BlockSpec((None, 1, 128), lambda i: (i, 0, 0))],
            out_shape=[jax.ShapeDtypeStruct((20, 128), F32), jax.ShapeDtypeStruct((3, 1, 128), F32)],
        )(x)  # fmt: skip

    x = random.integers(-9, 9, (20, 128)).astype(np.float32)
    doubled, sums = evaluate(function, x)
    same(doubled, x * 2)
    same(sums[:2, 0], x[:16].reshape(2, 8, 128).sum(1))
    assert np.isnan(sums[2]).all()


def test_an_output_block_is_kept_while_its_index_stays_and_lost_when_it_comes_back():
    def function(x, reduced):
        def body(x_ref, o_ref):
            o_ref[...] = jnp.where(pl.program_id(reduced) == 0, 0.0, o_ref[...]) + x_ref[...]

        return pl.pallas_call(
            body, grid=(2, 2), in_specs=[pl.BlockSpec((8, 128), lambda i, j: (2 * i + j, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, j: ((i, j)[1 - reduced], 0)),
            out_shape=jax.ShapeDtypeStruct((16, 128), F32),
        )(x)  # fmt: skip

    x = random.integers(-9, 9, (32, 128)).astype(np.float32)
    (kept,) = evaluate(lambda x: function(x, 1), x)
    same(kept, x.reshape(2, 2, 8, 128).sum(1).reshape(16, 128))
    (lost,) = evaluate(lambda x: function(x, 0), x)  # an interpreter that reads blocks back calls this right
    assert np.isnan(lost).all()


def test_scratch_lasts_over_the_grid_and_starts_undefined():
    def body(x_ref, o_ref, acc_ref):
        o_ref[...] = acc_ref[...]
        acc_ref[...] = x_ref[...]

    def function(x):
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(
            body, grid=(3,), in_specs=[block], out_specs=block, out_shape=jax.ShapeDtypeStruct((24, 128), F32),
            scratch_shapes=[pltpu.VMEM((8, 128), F32)],
        )(x)  # fmt: skip

    x = random.normal(size=(24, 128)).astype(np.float32)
    (out,) = evaluate(function, x)
    assert np.isnan(out[:8]).all()
    same(out[8:], x[:16])


def test_prefetched_scalars_choose_blocks_and_a_computed_grid_ends_there():
    def body(index_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + index_ref[pl.program_id(0)].astype(F32)

    def function(index, n, x):
        return pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct((32, 128), F32),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1, grid=(n,), in_specs=[pl.BlockSpec((8, 128), lambda i, index: (index[i], 0))],
                out_specs=pl.BlockSpec((8, 128), lambda i, index: (i, 0)),
            ),
        )(index, x)  # fmt: skip

    x = random.integers(-9, 9, (32, 128)).astype(np.float32)
    index = np.array([2, 0, 3, 1], np.int32)
    program, (call,) = kernels(function, [((4,), "int32"), ((), "int32"), ((32, 128), "float32")])
    (out,) = Kernel(call, program.context, exact=True)(np.int32(3), index, x)  # the bounds of the grid come first
    expected = x.reshape(4, 8, 128)[index] + index[:, None, None]
    same(out[:24], expected[:3].reshape(24, 128))
    assert np.isnan(out[24:]).all()


def _copying(*, waits=True, early=False):
    def body(x_hbm, o_ref, there, arrived):
        copy = pltpu.make_async_copy(x_hbm.at[pl.ds(8, 8)], there, arrived)
        copy.start()
        if waits and not early:
            copy.wait()
        o_ref[...] = there[...]
        if waits and early:
            copy.wait()

    def function(x):
        return pl.pallas_call(
            body, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_shape=jax.ShapeDtypeStruct((8, 128), F32),
            scratch_shapes=[pltpu.VMEM((8, 128), F32), pltpu.SemaphoreType.DMA],
        )(x)  # fmt: skip

    return function


def test_a_transfer_is_there_when_it_was_waited_for_and_not_before():
    x = random.normal(size=(16, 128)).astype(np.float32)
    (out,) = evaluate(_copying(), x)
    same(out, x[8:])
    (early,) = evaluate(_copying(early=True), x)
    assert np.isnan(early).all()
    with pytest.raises(Fault, match="1 transfer.* never waited for"):
        evaluate(_copying(waits=False), x)


def test_a_wait_that_nothing_ends_is_a_fault():
    def body(x_ref, o_ref, ready):
        pl.semaphore_signal(ready, 1)
        pl.semaphore_wait(ready, 2)
        o_ref[...] = x_ref[...]

    def function(x):
        return pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct((8, 128), F32), scratch_shapes=[pltpu.SemaphoreType.REGULAR]
        )(x)

    with pytest.raises(Fault, match="a wait for 2 at a semaphore that reaches 1"):
        evaluate(function, np.ones((8, 128), np.float32))


def test_a_result_in_an_operands_memory_starts_as_the_operand_and_leaves_it_as_it_was():
    def body(x_hbm, o_hbm, there, arrived):
        fetch = pltpu.make_async_copy(o_hbm.at[pl.ds(0, 8)], there, arrived)
        fetch.start()
        fetch.wait()
        there[...] = there[...] + 1
        write = pltpu.make_async_copy(there, o_hbm.at[pl.ds(0, 8)], arrived)
        write.start()
        write.wait()

    def function(x):
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            body, in_specs=[anywhere], out_specs=anywhere, out_shape=jax.ShapeDtypeStruct((16, 128), F32),
            input_output_aliases={0: 0}, scratch_shapes=[pltpu.VMEM((8, 128), F32), pltpu.SemaphoreType.DMA],
        )(x)  # fmt: skip

    x = random.normal(size=(16, 128)).astype(np.float32)
    given = x.copy()
    (out,) = evaluate(function, given)
    same(out, np.concatenate([x[:8] + 1, x[8:]]))
    same(given, x)


def test_a_window_that_starts_before_the_array_and_unsigned_operands():
    def body(x_ref, o_ref):
        o_ref[...] = (x_ref[...] >> 1) + jnp.uint32(2)

    def function(x):
        window = pl.BlockSpec((pl.Element(8, (8, 0)), pl.Element(128)), lambda i: (i * 8, 0))
        return pl.pallas_call(
            body, grid=(2,), in_specs=[window], out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct((16, 128), jnp.uint32),
        )(x)  # fmt: skip

    x = random.integers(0, 2**32, (16, 128), dtype=np.uint32)
    (out,) = evaluate(function, x)
    assert out.dtype == np.uint32
    same(out[8:], (x[:8] >> 1) + np.uint32(2))  # windows start eight rows before the array


def test_a_block_outside_of_its_array_is_a_fault():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def function(x):
        return pl.pallas_call(
            body, grid=(2,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i + 1, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((16, 128), F32),
        )(x)  # fmt: skip

    with pytest.raises(Fault, match=r"block \[2, 0\] of \[8, 128\], outside of a \[16, 128\] array \(kernel"):
        evaluate(function, np.ones((16, 128), np.float32))

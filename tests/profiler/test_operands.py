"""What a kernel is made of, out of its module."""

import jax
import jax.numpy as jnp
import pytest
from exporting import kernels, shapes_of  # noqa: F401
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mistakes import source

from hawkeye_mcp import workloads
from hawkeye_mcp.profiler.operands import anatomy


def _anatomy(function, inputs):
    program, (call,) = kernels(function, inputs)
    with program.context:
        return anatomy(call, [0] * call.prefetched + call.window_bytes() if not call.prefetched else None)


def _of_mistake(name):
    workload, text = source(name)
    scope: dict = {}
    exec(compile(text, name, "exec"), scope)
    loaded = workloads.load(workload)
    return _anatomy(scope["workload"], loaded.shapes(loaded.inputs, "full"))


def test_operands_of_a_matmul():
    found = _of_mistake("an operand read again and again")  # 128 x 256 blocks, the whole of K
    x, weight, bias, out = found.operands
    assert (x.label, x.direction, x.block, x.block_bytes, x.copies, x.axes) == (
        "operand 0 bf16[4096,8192]", "read", [128, 8192], 128 * 8192 * 2, 2, [0],
    )  # fmt: skip
    assert (x.moved_bytes, weight.moved_bytes) == (x.array_bytes, 32 * weight.array_bytes)
    assert (weight.axes, bias.axes) == ([1], [1])
    assert (out.label, out.direction, out.axes) == ("result 0 bf16[4096,8192]", "written", [0, 1])
    assert [(s.label, s.bytes) for s in found.scratch] == [("scratch 0 f32[128,256]", 128 * 256 * 4)]
    assert (found.parallel_axes, found.moves_by_hand, found.vmem_limit_bytes) == ([0, 1], False, None)
    assert [(m.lhs, m.rhs, m.flops, m.passes) for m in found.matmuls] == [("bf16", "bf16", 2.0 * 128 * 256 * 8192, 1)]


@pytest.mark.parametrize(
    ("mistake", "shows"),
    [
        ("the highest precision", lambda a: a.matmuls[0].passes == 6),
        ("one buffer", lambda a: [o.single_buffered for o in a.operands] == [False, True, False, False]),
        ("one buffer", lambda a: [o.copies for o in a.operands] == [2, 1, 2, 2]),
        ("blocks over the edge", lambda a: [round(o.overhang, 3) for o in a.operands] == [1.25, 1.0, 1.0, 1.25]),
        ("no parallel axis", lambda a: a.parallel_axes == []),
        ("copies by hand, one after another", lambda a: a.moves_by_hand and a.operands[0].space == "any"),
        ("products on the vector unit", lambda a: a.matmuls == []),
    ],
)
def test_what_a_mistake_shows(mistake, shows):
    assert shows(_of_mistake(mistake))


def test_work_of_a_step_counts_every_turn_of_a_loop():
    def kernel(x_ref, out_ref):
        def turn(i, total):
            return jnp.tanh(total * 2.0)

        out_ref[...] = jax.lax.fori_loop(0, 10, turn, x_ref[...])

    step = _anatomy(
        lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x),
        [((8, 128), "float32")],
    ).step
    assert (step.vector_elements, step.transcendental_elements, step.flops) == (10 * 1024, 10 * 1024, 0)


def test_work_behind_a_loop_of_unknown_length_is_unknown():
    def kernel(x_ref, out_ref):
        out_ref[...] = jax.lax.while_loop(lambda v: v[0, 0] < 100.0, lambda v: v * 2.0, x_ref[...])

    found = _anatomy(
        lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x),
        [((8, 128), "float32")],
    )
    assert found.step is None


def test_scalars_and_blocks_that_depend_on_them():
    def call(order, x):
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(16,),
            in_specs=[pl.BlockSpec((64, 512), lambda i, order: (order[i], 0))],
            out_specs=pl.BlockSpec((64, 512), lambda i, order: (i, 0)),
        )

        def kernel(order_ref, x_ref, out_ref):
            out_ref[...] = x_ref[...]

        return pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((1024, 512), jnp.float32))(
            order, x
        )

    order, x, out = _anatomy(call, [((16,), "int32"), ((1024, 512), "float32")]).operands
    assert (order.prefetched, order.space, order.label) == (True, "smem", "operand 0 i32[16]")
    assert (x.label, x.axes, x.copies, x.moved_bytes) == ("operand 1 f32[1024,512]", None, 2, None)
    assert out.axes == [0]


def test_a_thin_block_fills_little_of_its_tiles():
    def call(x):
        def kernel(x_ref, out_ref):
            out_ref[...] = x_ref[...]

        spec = pl.BlockSpec((512, 32), lambda i: (i, 0))
        return pl.pallas_call(
            kernel, grid=(4,), in_specs=[spec], out_specs=spec, out_shape=jax.ShapeDtypeStruct((2048, 32), jnp.float32)
        )(x)

    (x, _) = _anatomy(call, [((2048, 32), "float32")]).operands
    assert (x.tile_padding, x.block_bytes) == (4.0, 512 * 128 * 4)

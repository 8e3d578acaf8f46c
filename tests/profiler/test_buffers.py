"""What takes on-chip memory, checked against what libtpu allocates."""

import jax
import jax.numpy as jnp
import pytest
from compiling import optimised
from exporting import kernels
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.profiler.anatomy import Anatomy
from hawkeye_mcp.profiler.buffers import buffers, traffic
from hawkeye_mcp.profiler.operands import anatomy, tiled_bytes

KIB = 1 << 10


def _add(*refs):
    *operands, out = refs[:3]
    out[...] = sum(ref[...].astype(jnp.float32) for ref in operands).astype(out.dtype)


def _rows(rows, width, dtype="float32", second=None, **spec):
    """A kernel that goes over 1024 rows in blocks, with a second operand that stays in place."""

    def call(x, y):
        specs = [pl.BlockSpec((rows, width), lambda i: (i, 0), **spec)]
        operands = [x]
        if second:
            specs.append(pl.BlockSpec(second, lambda i: (0, 0)))
            operands.append(y)
        return pl.pallas_call(
            _add,
            grid=(x.shape[0] // rows,),
            in_specs=specs,
            out_specs=pl.BlockSpec((rows, width), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct(x.shape, dtype),
        )(*operands)

    return call


def _matmul(a, b):
    def kernel(a_ref, b_ref, out_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            out_ref[...] = acc_ref[...].astype(out_ref.dtype)

    return pl.pallas_call(
        kernel,
        grid=(4, 4, 4),
        in_specs=[
            pl.BlockSpec((256, 256), lambda i, j, k: (i, k)),
            pl.BlockSpec((256, 256), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((256, 256), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((1024, 1024), a.dtype),
        scratch_shapes=[pltpu.VMEM((256, 256), jnp.float32)],
    )(a, b)


F32, ROW, BF16 = ((1024, 512), "float32"), ((1, 512), "float32"), ((1024, 1024), "bfloat16")
# Each with the sizes of its buffers; no other file knows what libtpu allocates.
CASES = {
    "two copies of what moves, one of what stays": (
        _rows(64, 512, second=(64, 512)), [F32, ((64, 512), "float32")], [256 * KIB, 256 * KIB, 128 * KIB]),
    "a row takes a tile of one row": (_rows(64, 512, second=(1, 512)), [F32, ROW], [256 * KIB, 256 * KIB, 2 * KIB]),
    "one buffer where one is asked for": (
        _rows(64, 512, pipeline_mode=pl.Buffered(1)), [F32, ROW], [256 * KIB, 128 * KIB]),
    "one copy of all in one step": (_rows(1024, 512), [F32, ROW], [2048 * KIB, 2048 * KIB]),
    "scratch beside the windows": (_matmul, [BF16, BF16], [256 * KIB, 256 * KIB, 256 * KIB, 256 * KIB]),
}  # fmt: skip


@pytest.mark.anyio
async def test_buffers_sum_to_what_libtpu_allocates():
    inputs = [array for _, arrays, _ in CASES.values() for array in arrays]

    def together(*arrays):
        left = iter(arrays)
        return [function(next(left), next(left)) for function, _, _ in CASES.values()]

    compiled = {op["point"]: op for op in await optimised(together, inputs) if op["mosaic"]}
    program, calls = kernels(together, inputs)
    with program.context:
        found = [anatomy(call, call.window_bytes()) for call in calls]
    assert len(compiled) == len(found) == len(CASES)
    for number, (one, (_, _, expected)) in enumerate(zip(found, CASES.values(), strict=True)):
        op = compiled[number]
        assert not any(op["on_chip"])
        assert [buffer.bytes for buffer in buffers(one, op["vmem_bytes"], op["on_chip"])] == expected
        assert op["vmem_bytes"] == sum(expected)


@pytest.mark.parametrize(
    ("shape", "bits", "expected"),
    [  # totals of libtpu for scratch of these shapes
        ((12, 200), 32, 16 * 256 * 4),
        ((12, 200), 16, 16 * 256 * 2),
        ((24, 512), 16, 24 * 512 * 2),
        ((2, 3, 130), 32, 2 * 4 * 256 * 4),
        ((2, 3, 130), 16, 2 * 4 * 256 * 2),
        ((1, 512), 16, 2 * 512 * 2),
        ((64, 1), 32, 64 * 128 * 4),
        ((512, 512), 8, 512 * 512),
        ((512,), 32, 512 * 4),
    ],
)
def test_arrays_are_padded_to_tiles(shape, bits, expected):
    assert tiled_bytes(shape, bits) == expected


OPERAND = {
    "label": "operand 0 f32[8,128]", "direction": "read", "item_bits": 32, "array_bytes": 4096, "space": "vmem",
    "block": [8, 128], "block_bytes": 4096, "tile_padding": 1.0, "overhang": 1.0, "copies": 2, "axes": [0],
    "moved_bytes": 12288,
}  # fmt: skip


def test_what_no_buffer_explains_is_the_compilers_and_nothing_is_where_it_takes_less():
    known = Anatomy.model_validate({"operands": [OPERAND]})
    assert [(b.kind, b.bytes) for b in buffers(known, 10_000, None)] == [("window", 8192), ("internal", 1808)]
    assert [(b.kind, b.bytes) for b in buffers(known, 8192, None)] == [("window", 8192)]
    assert [(b.kind, b.bytes) for b in buffers(known, 0, [True])] == []
    assert [(b.kind, b.bytes) for b in buffers(known, None, None)] == [("window", 8192)]


def test_scalars_are_in_smem_and_cross_hbm_once():
    scalars = OPERAND | {"prefetched": True, "space": "smem", "moved_bytes": 0, "copies": 1}
    known = Anatomy.model_validate({"operands": [scalars, OPERAND | {"moved_bytes": None}, OPERAND]})
    assert [b.space for b in buffers(known, None, None)] == ["vmem", "vmem", "smem"]
    assert [(t.bytes, t.factor) for t in traffic(known, None)] == [(12288, 3.0)]

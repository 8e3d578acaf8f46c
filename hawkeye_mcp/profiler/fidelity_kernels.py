"""Kernels on which sampling is held against libtpu's profile of the whole run: one for each way to use a grid.

Grids are long enough that sampling matters and short enough that the whole profile takes seconds. Imports jax: for
workers only.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import export
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.chips import CHIPS, DEFAULT_TPU

HBM = pl.BlockSpec(memory_space=pl.ANY)
Array = Any
Shape = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Subject:
    """A function of arrays with these shapes and dtypes, and the chip that it is profiled for."""

    function: Callable[..., Array]
    inputs: Sequence[Shape]
    tpu: str = DEFAULT_TPU

    def artifact(self) -> bytes:
        """What tracing it for its chip yields."""
        chip = CHIPS[self.tpu]
        target = AbstractDevice(device_kind=chip.device_kind, num_cores=chip.cores, platform="tpu")
        shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.inputs]
        with use_abstract_mesh(AbstractMesh((), (), abstract_device=target)):
            return bytes(export.export(jax.jit(self.function), platforms=["tpu"])(*shapes).serialize())


def matmul(x: Array, w: Array, blocks: tuple[int, int, int]) -> Array:
    """Blocked matmul with an accumulator; blocks: rows, columns, contraction."""
    (m, k), n = x.shape, w.shape[1]
    bm, bn, bk = blocks

    def body(x_ref: Array, w_ref: Array, out_ref: Array, acc_ref: Array) -> None:
        def clear() -> None:
            acc_ref[...] = jnp.zeros_like(acc_ref)

        pl.when(pl.program_id(2) == 0)(clear)

        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        def store() -> None:
            out_ref[...] = acc_ref[...].astype(out_ref.dtype)

        pl.when(pl.program_id(2) == pl.num_programs(2) - 1)(store)

    return pl.pallas_call(
        body,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, w)


def row_wise(x: Array, rows: int, of_rows: Callable[[Array], Array]) -> Array:
    """Something for each row, `rows` of them in a grid step."""

    def body(x_ref: Array, out_ref: Array) -> None:
        out_ref[...] = of_rows(x_ref[...].astype(jnp.float32)).astype(out_ref.dtype)

    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(body, grid=(x.shape[0] // rows,), in_specs=[block], out_specs=block, out_shape=x)(x)


def normalised(x: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def elementwise(x: Array, blocks: tuple[int, int]) -> Array:
    def body(x_ref: Array, out_ref: Array) -> None:
        out_ref[...] = x_ref[...] * 2 + 1

    grid = tuple(n // block for n, block in zip(x.shape, blocks, strict=True))
    block = pl.BlockSpec(blocks, lambda i, j: (i, j))
    return pl.pallas_call(body, grid=grid, in_specs=[block], out_specs=block, out_shape=x)(x)


def attention(query: Array, key: Array, value: Array, block: int, *, causal: bool = False) -> Array:
    """Online softmax over blocks of keys; causal: blocks above the diagonal are skipped."""
    heads, length, depth = query.shape

    def body(
        query_ref: Array, key_ref: Array, value_ref: Array, out_ref: Array, max_ref: Array, sum_ref: Array, acc: Array
    ) -> None:
        def clear() -> None:
            max_ref[...] = jnp.full_like(max_ref, -1e30)
            sum_ref[...] = jnp.zeros_like(sum_ref)
            acc[...] = jnp.zeros_like(acc)

        pl.when(pl.program_id(2) == 0)(clear)

        def attend() -> None:
            scores = jax.lax.dot_general(
                query_ref[0], key_ref[0], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
            )
            before = max_ref[...]
            now = jnp.maximum(before, jnp.max(scores, axis=-1, keepdims=True))
            weights, shrink = jnp.exp(scores - now), jnp.exp(before - now)
            sum_ref[...] = sum_ref[...] * shrink + jnp.sum(weights, axis=-1, keepdims=True)
            product = jnp.dot(weights.astype(value_ref.dtype), value_ref[0], preferred_element_type=jnp.float32)
            acc[...] = acc[...] * shrink + product
            max_ref[...] = now

        if causal:
            pl.when(pl.program_id(2) <= pl.program_id(1))(attend)
        else:
            attend()

        def store() -> None:
            out_ref[0] = (acc[...] / sum_ref[...]).astype(out_ref.dtype)

        pl.when(pl.program_id(2) == pl.num_programs(2) - 1)(store)

    rows = pl.BlockSpec((1, block, depth), lambda h, i, j: (h, i, 0))
    columns = pl.BlockSpec((1, block, depth), lambda h, i, j: (h, j, 0))
    return pl.pallas_call(
        body,
        grid=(heads, length // block, length // block),
        in_specs=[rows, columns, columns],
        out_specs=rows,
        out_shape=query,
        scratch_shapes=[*[pltpu.VMEM((block, 1), jnp.float32)] * 2, pltpu.VMEM((block, depth), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(query, key, value)


def grouped_matmul(x: Array, w: Array, blocks: tuple[int, int]) -> Array:
    """A matmul for each of several groups of equally many rows; blocks: rows, columns."""
    (groups, m, k), n = x.shape, w.shape[2]
    bm, bn = blocks

    def body(x_ref: Array, w_ref: Array, out_ref: Array) -> None:
        out_ref[0] = jnp.dot(x_ref[0], w_ref[0], preferred_element_type=jnp.float32).astype(out_ref.dtype)

    return pl.pallas_call(
        body,
        grid=(groups, n // bn, m // bm),
        in_specs=[
            pl.BlockSpec((1, bm, k), lambda g, j, i: (g, i, 0)),
            pl.BlockSpec((1, k, bn), lambda g, j, i: (g, 0, j)),
        ],
        out_specs=pl.BlockSpec((1, bm, bn), lambda g, j, i: (g, i, j)),
        out_shape=jax.ShapeDtypeStruct((groups, m, n), x.dtype),
    )(x, w)


def manual_copies(x: Array, rows: int) -> Array:
    """No grid: a loop that fetches the next rows into one of two buffers while it works on the other."""
    turns = x.shape[0] // rows

    def body(x_ref: Array, out_ref: Array, inside: Array, outside: Array, arrived: Array, left: Array) -> None:
        def fetch(turn: Array, slot: Array) -> Any:
            at = pl.ds(pl.multiple_of(turn * rows, rows), rows)
            return pltpu.make_async_copy(x_ref.at[at], inside.at[slot], arrived.at[slot])

        def store(turn: Array, slot: Array) -> Any:
            at = pl.ds(pl.multiple_of(turn * rows, rows), rows)
            return pltpu.make_async_copy(outside.at[slot], out_ref.at[at], left.at[slot])

        fetch(0, 0).start()

        def turn_of(turn: Array, carry: Array) -> Array:
            slot = jax.lax.rem(turn, 2)

            def fetch_next() -> None:
                fetch(turn + 1, 1 - slot).start()

            pl.when(turn + 1 < turns)(fetch_next)

            fetch(turn, slot).wait()

            def free() -> None:
                store(turn - 2, slot).wait()

            pl.when(turn >= 2)(free)

            outside[slot] = inside[slot] * 2
            store(turn, slot).start()
            return carry

        jax.lax.fori_loop(0, turns, turn_of, 0)
        for turn in (turns - 2, turns - 1):
            store(turn, turn % 2).wait()

    buffers = pltpu.VMEM((2, rows, x.shape[1]), x.dtype)
    return pl.pallas_call(
        body,
        in_specs=[HBM],
        out_specs=HBM,
        out_shape=x,
        scratch_shapes=[buffers, buffers, *[pltpu.SemaphoreType.DMA((2,))] * 2],
    )(x)


def inner_pipeline(x: Array, rows: int) -> Array:
    """No grid: an inner pipeline over blocks of rows."""

    def body(x_ref: Array, out_ref: Array) -> None:
        def step(x: Array, out: Array) -> None:
            out[...] = jnp.exp(x[...])

        block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
        pltpu.emit_pipeline(step, grid=(x.shape[0] // rows,), in_specs=[block], out_specs=[block])(x_ref, out_ref)

    return pl.pallas_call(body, in_specs=[HBM], out_specs=HBM, out_shape=x)(x)


def pipelined_matmul(x: Array, w: Array, blocks: tuple[int, int, int]) -> Array:
    """No grid: a matmul whose blocks an inner pipeline brings."""
    (m, k), n = x.shape, w.shape[1]
    bm, bn, bk = blocks

    def body(x_ref: Array, w_ref: Array, out_ref: Array, acc_ref: Array) -> None:
        def step(x_block: Array, w_block: Array, out_block: Array) -> None:
            at = pl.program_id(2)

            def clear() -> None:
                acc_ref[...] = jnp.zeros_like(acc_ref)

            pl.when(at == 0)(clear)

            acc_ref[...] += jnp.dot(x_block[...], w_block[...], preferred_element_type=jnp.float32)

            def store_block() -> None:
                out_block[...] = acc_ref[...].astype(out_block.dtype)

            pl.when(at == k // bk - 1)(store_block)

        pltpu.emit_pipeline(
            step,
            grid=(m // bm, n // bn, k // bk),
            in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
            out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
        )(x_ref, w_ref, out_ref)

    return pl.pallas_call(
        body,
        in_specs=[HBM, HBM],
        out_specs=HBM,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, w)


def inner_loop(x: Array, rows: int, turns: int) -> Array:
    """A grid whose every step loops over its block."""

    def body(x_ref: Array, out_ref: Array) -> None:
        def turn(_: Array, value: Array) -> Array:
            return value * jnp.tanh(value)

        out_ref[...] = jax.lax.fori_loop(0, turns, turn, x_ref[...])

    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(body, grid=(x.shape[0] // rows,), in_specs=[block], out_specs=block, out_shape=x)(x)


def two_kernels(x: Array, w: Array) -> Array:
    return row_wise(matmul(x, w, (256, 256, 256)), 16, normalised)


def _square(n: int) -> list[Shape]:
    return [((n, n), "bfloat16")] * 2


_NORM = functools.partial(row_wise, of_rows=normalised)

SUBJECTS: dict[str, Subject] = {
    "matmul_1024": Subject(
        functools.partial(matmul, blocks=(1024, 1024, 512)), [((4096, 2048), "bfloat16"), ((2048, 4096), "bfloat16")]
    ),
    "matmul_512": Subject(functools.partial(matmul, blocks=(512, 512, 512)), _square(3072)),
    "matmul_256": Subject(functools.partial(matmul, blocks=(256, 256, 256)), _square(2560)),
    "matmul_128": Subject(functools.partial(matmul, blocks=(128, 128, 128)), _square(1280)),
    "matmul_two_cores": Subject(functools.partial(matmul, blocks=(256, 512, 512)), _square(2048), "v5p"),
    "norm": Subject(functools.partial(_NORM, rows=8), [((16384, 2048), "bfloat16")]),
    "norm_7x": Subject(functools.partial(_NORM, rows=16), [((16384, 2048), "bfloat16")], "7x"),
    "softmax": Subject(functools.partial(row_wise, rows=32, of_rows=jax.nn.softmax), [((16384, 1024), "float32")]),
    "elementwise": Subject(functools.partial(elementwise, blocks=(64, 512)), [((8192, 4096), "float32")], "v6e"),
    "attention": Subject(functools.partial(attention, block=256), [((8, 2048, 128), "bfloat16")] * 3),
    "causal_attention": Subject(
        functools.partial(attention, block=256, causal=True), [((16, 1024, 128), "bfloat16")] * 3
    ),
    "grouped_matmul": Subject(
        functools.partial(grouped_matmul, blocks=(128, 256)),
        [((16, 1024, 512), "bfloat16"), ((16, 512, 1024), "bfloat16")],
    ),
    "manual_copies": Subject(functools.partial(manual_copies, rows=16), [((32768, 1024), "float32")]),
    "inner_pipeline": Subject(functools.partial(inner_pipeline, rows=16), [((32768, 1024), "float32")]),
    "pipelined_matmul": Subject(functools.partial(pipelined_matmul, blocks=(256, 256, 256)), _square(1536)),
    "inner_loop": Subject(functools.partial(inner_loop, rows=32, turns=24), [((16384, 512), "float32")]),
    "two_kernels": Subject(two_kernels, _square(2048)),
}

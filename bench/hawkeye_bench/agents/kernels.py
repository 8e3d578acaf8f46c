"""Pallas kernels as text: a tiled matmul with its tail fused or apart, and a row-wise kernel.

Every kernel reads its sizes from its arguments, so one text serves the check size and the full size.
"""

import textwrap
from dataclasses import dataclass

from hawkeye_bench.agents.reference import Recipe

# What a kernel may use of a chip's VMEM: 128 MiB on all but 7x (64 MiB), less room for the compiler's own.
VMEM_BUDGET_BYTES = {"v5e": 100 << 20, "v5p": 100 << 20, "v6e": 100 << 20, "7x": 48 << 20}


@dataclass(frozen=True)
class Blocks:
    """Wanted block sizes; the kernel takes the largest legal ones that are not larger.

    m, n, k: rows, columns and depth of the matmul. rows: rows of the row-wise kernel. fused: the tail runs in
    the matmul kernel; with a tail over whole rows the fused kernel keeps all columns and `n` is unused.
    """

    m: int
    n: int
    k: int
    rows: int
    fused: bool

    def scaled(self, m: float = 1, n: float = 1, k: float = 1, rows: float = 1) -> "Blocks":
        """With some sizes multiplied: scaled(m=2, n=0.5)."""
        return Blocks(
            m=int(self.m * m),
            n=int(self.n * n),
            k=int(self.k * k),
            rows=int(self.rows * rows),
            fused=self.fused,
        )

    def describe(self, recipe: Recipe) -> str:
        if recipe.lhs is None:
            return f"{self.rows} rows per block"
        whole_rows = self.fused and recipe.needs_rows
        blocks = f"blocks m={self.m} n={'all' if whole_rows else self.n} k={self.k}"
        return blocks if not recipe.tail else f"{blocks}, tail {'fused' if self.fused else 'in a second kernel'}"


def vmem_bytes(recipe: Recipe, blocks: Blocks, shape: tuple[int, int, int]) -> int:
    """An estimate of the VMEM that the design needs at full size.

    shape: (rows, columns, depth) of the output and the contraction. Windows are double-buffered and taken as
    2 bytes per element; the accumulator is float32.
    """
    rows, columns, depth = shape
    full = sum(kind == "full" for _, kind in recipe.operands)
    row_kernel = 2 * 2 * min(blocks.rows, rows) * columns * (2 + full)
    if recipe.lhs is None:
        return row_kernel
    m, k = min(blocks.m, rows), min(blocks.k, depth)
    n = columns if blocks.fused and recipe.needs_rows else min(blocks.n, columns)
    extra = full if blocks.fused else 0
    matmul = 2 * 2 * (m * k + k * n + m * n * (1 + extra)) + 4 * m * n
    # The compiler may hold the product of one step beside the accumulator.
    matmul += 4 * m * n
    return matmul if blocks.fused or not recipe.tail else max(matmul, row_kernel)


def write(recipe: Recipe, blocks: Blocks, vmem_limit_bytes: int) -> str:
    """The text of one kernel file."""
    parts = [_HEADER, _constants(recipe, blocks, vmem_limit_bytes)]
    if recipe.prelude:
        parts.append(recipe.prelude)
    parts.append(_FIT)
    if recipe.tail:
        arguments = ", ".join([recipe.main, *(name for name, _ in recipe.operands)])
        parts.append(f"def tail({arguments}):\n{textwrap.indent(recipe.tail, '    ')}")
    if recipe.lhs is None:
        parts += [_row_kernel(recipe), _row_workload(recipe)]
    else:
        apart = bool(recipe.tail) and not blocks.fused
        parts.append(_matmul_kernel(recipe, fused=blocks.fused and bool(recipe.tail)))
        if apart:
            parts.append(_row_kernel(recipe))
        parts.append(_matmul_workload(recipe, apart))
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


_HEADER = '''
"""Written by the builtin optimiser of hawkeye-bench, which is not a language model."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
'''

_FIT = '''
def fit(size, want, align):
    """The largest block not above `want` that divides `size` and is a multiple of `align`; else the whole
    axis.
    """
    for block in range(min(want, size) // align * align, 0, -align):
        if size % block == 0:
            return block
    return size
'''


def _constants(recipe: Recipe, blocks: Blocks, vmem_limit_bytes: int) -> str:
    lines = [f"VMEM_LIMIT_BYTES = {vmem_limit_bytes}"]
    if recipe.lhs is not None:
        lines.append(f"BLOCK_M, BLOCK_N, BLOCK_K = {blocks.m}, {blocks.n}, {blocks.k}")
    if recipe.lhs is None or (recipe.tail and not blocks.fused):
        lines.append(f"BLOCK_ROWS = {blocks.rows}")
    return "\n".join(lines)


def _names(recipe: Recipe) -> str:
    return "".join(f", {name}" for name, _ in recipe.operands)


def _refs(recipe: Recipe) -> str:
    return "".join(f", {name}_ref" for name, _ in recipe.operands)


def _tail_loop(recipe: Recipe, source: str, chunk: str) -> str:
    """A loop over a few rows at a time, so that the tail's values stay in registers and the code stays
    short.
    """
    loads = "".join(
        f", {name}_ref[...].astype(jnp.float32)" if kind == "row" else f", {name}_ref[at, :].astype(jnp.float32)"
        for name, kind in recipe.operands
    )
    return f"""
chunk = {chunk}

def finish(i, carry):
    at = pl.ds(pl.multiple_of(i * chunk, chunk), chunk)
    out_ref[at, :] = tail({source}[at, :].astype(jnp.float32){loads}).astype(out_ref.dtype)
    return carry

jax.lax.fori_loop(0, out_ref.shape[0] // chunk, finish, 0)
"""


def _chunk(recipe: Recipe) -> str:
    # About 64 vector registers' worth of float32 per value, and never below the 16 rows of a packed bfloat16
    # tile.
    return "fit(out_ref.shape[0], max(16, 65536 // out_ref.shape[1]), 16)"


def _row_kernel(recipe: Recipe) -> str:
    loop = textwrap.indent(_tail_loop(recipe, f"{recipe.main}_ref", _chunk(recipe)).strip("\n"), "    ")
    specs = ["by_rows" if kind == "full" else "one_row" for _, kind in recipe.operands]
    main = recipe.main
    operands = ", ".join(
        f"{name}.reshape(1, n)" if kind == "row" else f"{name}.reshape(m, n)" for name, kind in recipe.operands
    )
    return f"""
def row_kernel({main}_ref{_refs(recipe)}, out_ref):
{loop}


def apply_rows({main}{_names(recipe)}):
    m, n = {main}.shape
    rows = fit(m, BLOCK_ROWS, 16)
    by_rows = pl.BlockSpec((rows, n), lambda i: (i, 0))
    one_row = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        row_kernel,
        grid=(m // rows,),
        in_specs=[{", ".join(["by_rows", *specs])}],
        out_specs=by_rows,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.{recipe.out_dtype}),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",), vmem_limit_bytes=VMEM_LIMIT_BYTES
        ),
    )({", ".join(filter(None, [main, operands]))})
"""


def _row_workload(recipe: Recipe) -> str:
    main = recipe.main
    return f"""
def workload({", ".join(recipe.parameters)}):
    flat = {main}.reshape(-1, {main}.shape[-1])
    return apply_rows(flat{_names(recipe)}).reshape({main}.shape)
"""


def _matmul_kernel(recipe: Recipe, fused: bool) -> str:
    if fused:
        store = _tail_loop(recipe, "acc_ref", _chunk(recipe)).strip("\n")
        operands, refs = _names(recipe), _refs(recipe)
    else:
        store, operands, refs = "out_ref[...] = acc_ref[...].astype(out_ref.dtype)", "", ""
    specs = ", ".join(
        ["left", "right", *("tile" if kind == "full" else "one_row" for _, kind in recipe.operands)]
        if fused
        else ["left", "right"]
    )
    calls = "".join(
        f", {name}.reshape(1, n)" if kind == "row" else f", {name}.reshape(m, n)"
        for name, kind in (recipe.operands if fused else ())
    )
    whole_rows = fused and recipe.needs_rows
    block_n = "n" if whole_rows else "fit(n, BLOCK_N, 128)"
    # A product that is not the result is kept in the inputs' dtype between the two kernels, as the reference
    # does.
    dtype = f"jnp.{recipe.out_dtype}" if fused or not recipe.tail else "x.dtype"
    return f"""
def matmul_kernel(x_ref, y_ref{refs}, out_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
{textwrap.indent(store, "        ")}


def matmul(x, y{operands}):
    (m, depth), n = x.shape, y.shape[1]
    bm, bn, bk = fit(m, BLOCK_M, 16), {block_n}, fit(depth, BLOCK_K, 128)
    left = pl.BlockSpec((bm, bk), lambda i, j, k: (i, k))
    right = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    tile = pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))
    one_row = pl.BlockSpec((1, bn), lambda i, j, k: (0, j))
    return pl.pallas_call(
        matmul_kernel,
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[{specs}],
        out_specs=tile,
        out_shape=jax.ShapeDtypeStruct((m, n), {dtype}),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=VMEM_LIMIT_BYTES
        ),
    )(x, y{calls})
"""


def _matmul_workload(recipe: Recipe, apart: bool) -> str:
    lhs, rhs = recipe.lhs, recipe.rhs
    names = _names(recipe)
    product = f"matmul({lhs}.reshape(-1, {lhs}.shape[-1]), {rhs}{'' if apart else names})"
    result = f"apply_rows({product}{names})" if apart else product
    return f"""
def workload({", ".join(recipe.parameters)}):
    return {result}.reshape(*{lhs}.shape[:-1], {rhs}.shape[1])
"""

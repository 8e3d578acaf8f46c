"""Root mean square of rows whose number and length the blocks do not divide: the grid covers them, one step masks."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_N = 256, 2048


def _body(x_ref, out_ref, sum_ref, *, count):
    step, last = pl.program_id(1), pl.num_programs(1) - 1

    @pl.when(step == 0)
    def _():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    @pl.when(step < last)
    def _():
        x = x_ref[...]
        sum_ref[...] += jnp.sum(x * x, axis=1, keepdims=True)

    @pl.when(step == last)
    def _():
        column = last * BLOCK_N + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        x = jnp.where(column < count, x_ref[...], 0.0)
        out_ref[...] = jnp.sqrt((sum_ref[...] + jnp.sum(x * x, axis=1, keepdims=True)) / count)


def kernel(x):
    """x: (m, n) f32 -> (m, 1) f32. Rows past the edge are computed and not stored; columns past it are masked."""
    m, n = x.shape
    return pl.pallas_call(
        functools.partial(_body, count=n),
        grid=(pl.cdiv(m, BLOCK_M), pl.cdiv(n, BLOCK_N)),
        in_specs=[pl.BlockSpec((BLOCK_M, BLOCK_N), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((BLOCK_M, 1), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((m, 1), jnp.float32),
        scratch_shapes=[pltpu.VMEM((BLOCK_M, 1), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)

"""Running sums in two kernels, as on a machine whose blocks run in any order: totals of blocks, then sums row by row."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_T = 1024


def _totals_body(x_ref, total_ref):
    total_ref[0] = jnp.sum(x_ref[0].astype(jnp.float32), axis=0, keepdims=True)


def _sums_body(x_ref, totals_ref, out_ref):
    block = jax.lax.broadcasted_iota(jnp.int32, totals_ref.shape, 0)
    before = jnp.sum(jnp.where(block < pl.program_id(1), totals_ref[...], 0.0), axis=0)
    out_ref[0] = x_ref[0].astype(jnp.float32)

    def add(t, total):
        total = total + out_ref[0, pl.ds(t, 1), :]
        out_ref[0, pl.ds(t, 1), :] = total
        return total

    jax.lax.fori_loop(0, BLOCK_T, add, before)


def kernel(x):
    """x: (g, t, d) bf16 -> (g, t, d) f32, summed over t. BLOCK_T divides t."""
    g, t, d = x.shape
    blocks = t // BLOCK_T
    rows = pl.BlockSpec((1, BLOCK_T, d), lambda a, i: (a, i, 0))
    semantics = pltpu.CompilerParams(dimension_semantics=("parallel", "parallel"))
    totals = pl.pallas_call(
        _totals_body,
        grid=(g, blocks),
        in_specs=[rows],
        out_specs=pl.BlockSpec((1, 1, d), lambda a, i: (a * blocks + i, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((g * blocks, 1, d), jnp.float32),
        compiler_params=semantics,
    )(x)
    return pl.pallas_call(
        _sums_body,
        grid=(g, blocks),
        in_specs=[rows, pl.BlockSpec((blocks, 1, d), lambda a, i: (a, 0, 0))],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct((g, t, d), jnp.float32),
        compiler_params=semantics,
    )(x, totals)

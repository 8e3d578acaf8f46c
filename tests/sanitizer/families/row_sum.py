"""Sums of rows whose length is no multiple of the block, accumulated in the output block.

inputs: float32[256,300]
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROWS, COLUMNS = 64, 128


def _kernel(x_ref, o_ref, *, columns):
    k = pl.program_id(1)

    @pl.when(k == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    column = jax.lax.broadcasted_iota(jnp.int32, (ROWS, COLUMNS), 1) + k * COLUMNS
    values = jnp.where(column < columns, x_ref[...], 0.0)
    o_ref[...] += jnp.sum(values, axis=1, keepdims=True)


def workload(x):
    rows, columns = x.shape

    def kernel(x_ref, o_ref):
        _kernel(x_ref, o_ref, columns=columns)

    return pl.pallas_call(
        kernel,
        grid=(rows // ROWS, pl.cdiv(columns, COLUMNS)),
        in_specs=[pl.BlockSpec((ROWS, COLUMNS), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((ROWS, 1), lambda i, k: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((rows, 1), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)

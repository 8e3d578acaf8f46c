"""relu(x @ y + bias) as two kernels: the f32 product is written to HBM and read back."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_N = 1024, 1024
PARALLEL = pltpu.CompilerParams(dimension_semantics=("parallel", "parallel"))


def _product_body(x_ref, y_ref, out_ref):
    out_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def _epilogue_body(product_ref, bias_ref, out_ref):
    out_ref[...] = jnp.maximum(product_ref[...] + bias_ref[...], 0.0).astype(out_ref.dtype)


def kernel(x, y, bias):
    """x: (m, k) bf16, y: (k, n) bf16, bias: (1, n) f32 -> (m, n) bf16. The blocks divide m and n."""
    m, k = x.shape
    n = y.shape[1]
    grid = (n // BLOCK_N, m // BLOCK_M)
    tile = pl.BlockSpec((BLOCK_M, BLOCK_N), lambda j, i: (i, j))
    product = pl.pallas_call(
        _product_body,
        grid=grid,
        in_specs=[
            pl.BlockSpec((BLOCK_M, k), lambda j, i: (i, 0)),
            pl.BlockSpec((k, BLOCK_N), lambda j, i: (0, j)),
        ],
        out_specs=tile,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        compiler_params=PARALLEL,
    )(x, y)
    return pl.pallas_call(
        _epilogue_body,
        grid=grid,
        in_specs=[tile, pl.BlockSpec((1, BLOCK_N), lambda j, i: (0, j))],
        out_specs=tile,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.bfloat16),
        compiler_params=PARALLEL,
    )(product, bias)

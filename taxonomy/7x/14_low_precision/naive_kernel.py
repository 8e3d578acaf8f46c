"""A product of float8_e4m3fn arrays with scales, dequantized first: the MXU multiplies bfloat16."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_N = 1024, 512


def _body(x_ref, x_scale_ref, y_ref, y_scale_ref, out_ref):
    x = (x_ref[...].astype(jnp.float32) * x_scale_ref[...]).astype(jnp.bfloat16)
    y = (y_ref[...].astype(jnp.float32) * y_scale_ref[...]).astype(jnp.bfloat16)
    out_ref[...] = jnp.dot(x, y, preferred_element_type=jnp.float32).astype(out_ref.dtype)


def kernel(x, x_scale, y, y_scale):
    """x: (m, k) float8_e4m3fn, x_scale: (m, 1) f32, y: (k, n) float8_e4m3fn, y_scale: (1, n) f32 -> (m, n) bf16.

    The blocks divide m and n.
    """
    m, k = x.shape
    n = y.shape[1]
    return pl.pallas_call(
        _body,
        grid=(m // BLOCK_M, n // BLOCK_N),
        in_specs=[
            pl.BlockSpec((BLOCK_M, k), lambda i, j: (i, 0)),
            pl.BlockSpec((BLOCK_M, 1), lambda i, j: (i, 0)),
            pl.BlockSpec((k, BLOCK_N), lambda i, j: (0, j)),
            pl.BlockSpec((1, BLOCK_N), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK_M, BLOCK_N), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.bfloat16),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x, x_scale, y, y_scale)

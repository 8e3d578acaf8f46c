"""A product of int8 arrays with scales, multiplied as they are: the scales come after the product."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_N = 512, 512


def _body(x_ref, x_scale_ref, y_ref, y_scale_ref, out_ref):
    product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.int32)
    product = product.astype(jnp.float32)
    out_ref[...] = (product * x_scale_ref[...] * y_scale_ref[...]).astype(out_ref.dtype)


def kernel(x, x_scale, y, y_scale):
    """x: (m, k) int8, x_scale: (m, 1) f32, y: (k, n) int8, y_scale: (1, n) f32 -> (m, n) bf16.

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

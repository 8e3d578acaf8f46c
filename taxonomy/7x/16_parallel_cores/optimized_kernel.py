"""x @ y over blocks of rows, on an axis declared "parallel": the cores of a device share its steps."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M = 256


def _body(x_ref, y_ref, out_ref):
    product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    out_ref[...] = product.astype(out_ref.dtype)


def kernel(x, y):
    """x: (m, k) bf16, y: (k, n) bf16 -> (m, n) bf16. BLOCK_M divides m."""
    m, k = x.shape
    n = y.shape[1]
    return pl.pallas_call(
        _body,
        grid=(m // BLOCK_M,),
        in_specs=[pl.BlockSpec((BLOCK_M, k), lambda i: (i, 0)), pl.BlockSpec((k, n), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((BLOCK_M, n), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x, y)

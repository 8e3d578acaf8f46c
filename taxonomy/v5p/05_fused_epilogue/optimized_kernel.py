"""relu(x @ y + bias) in one kernel: bias, activation and down-cast on the f32 block that the dot left in VMEM."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_N = 512, 1024


def _body(x_ref, y_ref, bias_ref, out_ref):
    product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    out_ref[...] = jnp.maximum(product + bias_ref[...], 0.0).astype(out_ref.dtype)


def kernel(x, y, bias):
    """x: (m, k) bf16, y: (k, n) bf16, bias: (1, n) f32 -> (m, n) bf16. The blocks divide m and n."""
    m, k = x.shape
    n = y.shape[1]
    return pl.pallas_call(
        _body,
        grid=(n // BLOCK_N, m // BLOCK_M),
        in_specs=[
            pl.BlockSpec((BLOCK_M, k), lambda j, i: (i, 0)),
            pl.BlockSpec((k, BLOCK_N), lambda j, i: (0, j)),
            pl.BlockSpec((1, BLOCK_N), lambda j, i: (0, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK_M, BLOCK_N), lambda j, i: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.bfloat16),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x, y, bias)

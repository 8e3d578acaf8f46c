"""x @ y with the contraction spelled as multiply and sum: it compiles, and the vector unit does it all."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_K, BLOCK_N = 32, 128, 512


def _body(x_ref, y_ref, out_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        out_ref[...] = jnp.zeros_like(out_ref)

    x = x_ref[...].astype(jnp.float32)
    y = y_ref[...].astype(jnp.float32)
    out_ref[...] += jnp.sum(x[:, :, None] * y[None, :, :], axis=1)


def kernel(x, y):
    """x: (m, k) bf16, y: (k, n) bf16 -> (m, n) f32. The blocks divide m, k and n."""
    m, k = x.shape
    n = y.shape[1]
    return pl.pallas_call(
        _body,
        grid=(m // BLOCK_M, n // BLOCK_N, k // BLOCK_K),
        in_specs=[
            pl.BlockSpec((BLOCK_M, BLOCK_K), lambda i, j, s: (i, s)),
            pl.BlockSpec((BLOCK_K, BLOCK_N), lambda i, j, s: (s, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK_M, BLOCK_N), lambda i, j, s: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, y)

"""x @ y with the contraction in blocks: each block's partial product goes to HBM, a second kernel adds them up."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_K, BLOCK_N = 512, 1024, 1024
SUM_M = 64


def _product_body(x_ref, y_ref, partial_ref):
    partial_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def _sum_body(partials_ref, out_ref):
    n = out_ref.shape[1]
    total = partials_ref[:, :n]
    for start in range(n, partials_ref.shape[1], n):
        total += partials_ref[:, start : start + n]
    out_ref[...] = total.astype(out_ref.dtype)


def kernel(x, y):
    """x: (m, k) bf16, y: (k, n) bf16 -> (m, n) bf16. The blocks divide m, k and n."""
    m, k = x.shape
    n = y.shape[1]
    blocks, columns = k // BLOCK_K, n // BLOCK_N
    partials = pl.pallas_call(
        _product_body,
        grid=(m // BLOCK_M, columns, blocks),
        in_specs=[
            pl.BlockSpec((BLOCK_M, BLOCK_K), lambda i, j, s: (i, s)),
            pl.BlockSpec((BLOCK_K, BLOCK_N), lambda i, j, s: (s, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK_M, BLOCK_N), lambda i, j, s: (i, s * columns + j)),
        out_shape=jax.ShapeDtypeStruct((m, blocks * n), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "parallel")),
    )(x, y)
    return pl.pallas_call(
        _sum_body,
        grid=(m // SUM_M,),
        in_specs=[pl.BlockSpec((SUM_M, blocks * n), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((SUM_M, n), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.bfloat16),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(partials)

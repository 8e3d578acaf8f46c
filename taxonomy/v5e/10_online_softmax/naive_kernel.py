"""softmax(q @ k^T / sqrt(d)) @ v in two kernels: the scores are written to HBM in f32 and read back."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_Q, BLOCK_K = 512, 1024
SOFTMAX_ROWS = 128


def _scores_body(q_ref, k_ref, scores_ref):
    product = jax.lax.dot_general(q_ref[0], k_ref[0], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    scores_ref[0] = product * q_ref.shape[2] ** -0.5


def _sum_body(scores_ref, v_ref, out_ref):
    scores = scores_ref[0]
    weights = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
    product = jnp.dot(weights.astype(v_ref.dtype), v_ref[0], preferred_element_type=jnp.float32)
    out_ref[0] = (product / jnp.sum(weights, axis=1, keepdims=True)).astype(out_ref.dtype)


def kernel(q, k, v):
    """q: (g, n, d) bf16, k and v: (g, m, d) bf16 -> (g, n, d) bf16. The blocks divide n and m."""
    g, n, d = q.shape
    m = k.shape[1]
    scores = pl.pallas_call(
        _scores_body,
        grid=(g, n // BLOCK_Q, m // BLOCK_K),
        in_specs=[
            pl.BlockSpec((1, BLOCK_Q, d), lambda a, i, j: (a, i, 0)),
            pl.BlockSpec((1, BLOCK_K, d), lambda a, i, j: (a, j, 0)),
        ],
        out_specs=pl.BlockSpec((1, BLOCK_Q, BLOCK_K), lambda a, i, j: (a, i, j)),
        out_shape=jax.ShapeDtypeStruct((g, n, m), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "parallel")),
    )(q, k)
    return pl.pallas_call(
        _sum_body,
        grid=(g, n // SOFTMAX_ROWS),
        in_specs=[
            pl.BlockSpec((1, SOFTMAX_ROWS, m), lambda a, i: (a, i, 0)),
            pl.BlockSpec((1, m, d), lambda a, i: (a, 0, 0)),
        ],
        out_specs=pl.BlockSpec((1, SOFTMAX_ROWS, d), lambda a, i: (a, i, 0)),
        out_shape=jax.ShapeDtypeStruct((g, n, d), q.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(scores, v)

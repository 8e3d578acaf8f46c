"""softmax(q @ k^T / sqrt(d)) @ v in one kernel: the scores exist for one block at a time, in VMEM only."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_Q, BLOCK_K = 512, 1024
LANES = 128  # the running maximum and sum of a row stand in all of them, so that using them needs no lane broadcast


def _body(q_ref, k_ref, v_ref, out_ref, max_ref, sum_ref, acc_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        max_ref[...] = jnp.full_like(max_ref, -jnp.inf)
        sum_ref[...] = jnp.zeros_like(sum_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    product = jax.lax.dot_general(q_ref[0], k_ref[0], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    scores = product * q_ref.shape[2] ** -0.5
    before = max_ref[...]
    now = jnp.maximum(before, jnp.max(scores, axis=1, keepdims=True))
    weights = jnp.exp(scores - jnp.tile(now, (1, BLOCK_K // LANES)))
    shrink = jnp.exp(before - now)
    max_ref[...] = now
    sum_ref[...] = sum_ref[...] * shrink + jnp.sum(weights, axis=1, keepdims=True)
    acc_ref[...] = acc_ref[...] * shrink + jnp.dot(
        weights.astype(v_ref.dtype), v_ref[0], preferred_element_type=jnp.float32
    )

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        out_ref[0] = (acc_ref[...] / sum_ref[...]).astype(out_ref.dtype)


def kernel(q, k, v):
    """q: (g, n, d) bf16, k and v: (g, m, d) bf16 -> (g, n, d) bf16. The blocks divide n and m; d is LANES."""
    g, n, d = q.shape
    m = k.shape[1]
    rows = pl.BlockSpec((1, BLOCK_Q, d), lambda a, i, j: (a, i, 0))
    columns = pl.BlockSpec((1, BLOCK_K, d), lambda a, i, j: (a, j, 0))
    return pl.pallas_call(
        _body,
        grid=(g, n // BLOCK_Q, m // BLOCK_K),
        in_specs=[rows, columns, columns],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct((g, n, d), q.dtype),
        scratch_shapes=[
            pltpu.VMEM((BLOCK_Q, LANES), jnp.float32),
            pltpu.VMEM((BLOCK_Q, LANES), jnp.float32),
            pltpu.VMEM((BLOCK_Q, d), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(q, k, v)

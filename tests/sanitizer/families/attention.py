"""Attention with an online softmax; the keys' length is no multiple of the block.

inputs: float32[2,128,64] float32[2,200,64] float32[2,200,64]
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

Q, K = 64, 64


def _kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, length):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -1e30)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    column = k * K + jax.lax.broadcasted_iota(jnp.int32, (Q, K), 1)
    row = k * K + jax.lax.broadcasted_iota(jnp.int32, (K, 1), 0)
    s = jnp.dot(q_ref[0], k_ref[0].T, preferred_element_type=jnp.float32)
    s = jnp.where(column < length, s, -1e30)
    values = jnp.where(row < length, v_ref[0], 0.0)
    m = jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
    p = jnp.exp(s - m)
    scale = jnp.exp(m_ref[...] - m)
    l_ref[...] = l_ref[...] * scale + jnp.sum(p, axis=1, keepdims=True)
    acc_ref[...] = acc_ref[...] * scale + jnp.dot(p, values, preferred_element_type=jnp.float32)
    m_ref[...] = m

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o_ref[0] = acc_ref[...] / l_ref[...]


def workload(q, k, v):
    heads, queries, width = q.shape
    length = k.shape[1]

    def kernel(*refs):
        _kernel(*refs, length=length)

    return pl.pallas_call(
        kernel,
        grid=(heads, queries // Q, pl.cdiv(length, K)),
        in_specs=[
            pl.BlockSpec((1, Q, width), lambda h, i, k: (h, i, 0)),
            pl.BlockSpec((1, K, width), lambda h, i, k: (h, k, 0)),
            pl.BlockSpec((1, K, width), lambda h, i, k: (h, k, 0)),
        ],
        out_specs=pl.BlockSpec((1, Q, width), lambda h, i, k: (h, i, 0)),
        out_shape=jax.ShapeDtypeStruct(q.shape, jnp.float32),
        scratch_shapes=[
            pltpu.VMEM((Q, 1), jnp.float32),
            pltpu.VMEM((Q, 1), jnp.float32),
            pltpu.VMEM((Q, width), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(q, k, v)

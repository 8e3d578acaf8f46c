import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(query_ref, key_ref, value_ref, out_ref, max_ref, sum_ref, acc_ref, *, scale):
    q_tile, kv_tile = pl.program_id(1), pl.program_id(2)
    rows, columns = query_ref.shape[1], key_ref.shape[1]

    @pl.when(kv_tile == 0)
    def _():
        max_ref[...] = jnp.full_like(max_ref, -1e30)
        sum_ref[...] = jnp.zeros_like(sum_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(kv_tile * columns < (q_tile + 1) * rows)
    def _():
        scores = jax.lax.dot_general(
            query_ref[0], key_ref[0], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        row = q_tile * rows + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 0)
        column = kv_tile * columns + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1)
        scores = jnp.where(column <= row, scores * scale, -1e30)
        before = max_ref[...]
        now = jnp.maximum(before, jnp.max(scores, axis=-1, keepdims=True))
        weights = jnp.exp(scores - now)
        shrink = jnp.exp(before - now)
        sum_ref[...] = sum_ref[...] * shrink + jnp.sum(weights, axis=-1, keepdims=True)
        value = value_ref[0]
        product = jnp.dot(weights.astype(value.dtype), value, preferred_element_type=jnp.float32)
        acc_ref[...] = acc_ref[...] * shrink + product
        max_ref[...] = now

    @pl.when(kv_tile == pl.num_programs(2) - 1)
    def _():
        out_ref[0] = (acc_ref[...] / sum_ref[...]).astype(out_ref.dtype)


def workload(query, key, value):
    batch, heads, length, depth = query.shape
    flat = (batch * heads, length, depth)
    bq = bk = min(512, length)
    # Above the diagonal the last useful block stays where it is, so that nothing is fetched for it.
    kv_spec = pl.BlockSpec((1, bk, depth), lambda h, i, j: (h, jnp.minimum(j, ((i + 1) * bq - 1) // bk), 0))
    q_spec = pl.BlockSpec((1, bq, depth), lambda h, i, j: (h, i, 0))
    out = pl.pallas_call(
        functools.partial(_kernel, scale=depth**-0.5),
        grid=(flat[0], length // bq, length // bk),
        in_specs=[q_spec, kv_spec, kv_spec],
        out_specs=q_spec,
        out_shape=jax.ShapeDtypeStruct(flat, query.dtype),
        scratch_shapes=[
            pltpu.VMEM((bq, 1), jnp.float32),
            pltpu.VMEM((bq, 1), jnp.float32),
            pltpu.VMEM((bq, depth), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(query.reshape(flat), key.reshape(flat), value.reshape(flat))
    return out.reshape(query.shape)

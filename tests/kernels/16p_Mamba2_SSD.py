import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

CHUNK = 256


def _dot(a, b, contract):
    return jax.lax.dot_general(a, b, (contract, ((), ())), preferred_element_type=jnp.float32)


def _kernel(q_ref, k_ref, v_ref, column_ref, row_ref, out_ref, state_ref, norm_ref):
    """One chunk of one head; state (D, D) and norm (1, D) carry what earlier chunks leave to it, decayed to its start.

    column and row hold the chunk's own running log decay, as (CHUNK, 1) and (1, CHUNK).
    """

    @pl.when(pl.program_id(1) == 0)
    def _():
        state_ref[...] = jnp.zeros_like(state_ref)
        norm_ref[...] = jnp.zeros_like(norm_ref)

    q, k, v = q_ref[0], k_ref[0], v_ref[0]
    column, row = column_ref[0], row_ref[0]
    shape = (CHUNK, CHUNK)
    earlier = jax.lax.broadcasted_iota(jnp.int32, shape, 0) >= jax.lax.broadcasted_iota(jnp.int32, shape, 1)
    scores = _dot(q, k, ((1,), (1,))) * jnp.exp(jnp.where(earlier, column - row, -jnp.inf))
    since_start = jnp.exp(column)
    wide = q.astype(jnp.float32)
    carried = _dot(q, state_ref[...].astype(q.dtype), ((1,), (0,))) * since_start
    total = jnp.sum(scores, axis=1, keepdims=True)
    total = total + jnp.sum(wide * norm_ref[...], axis=1, keepdims=True) * since_start
    out = _dot(scores.astype(v.dtype), v, ((1,), (0,))) + carried
    out_ref[0] = (out / jnp.maximum(jnp.abs(total), 1)).astype(out_ref.dtype)

    whole = column[CHUNK - 1 :, :]
    to_end = k.astype(jnp.float32) * jnp.exp(whole - column)
    state_ref[...] = state_ref[...] * jnp.exp(whole) + _dot(to_end.astype(k.dtype), v, ((0,), (0,)))
    norm_ref[...] = norm_ref[...] * jnp.exp(whole) + jnp.sum(to_end, axis=0, keepdims=True)


def workload(query, key, value, a_log):
    batch, heads, length, depth = query.shape
    chunks = length // CHUNK
    flat = [array.reshape(batch * heads, length, depth) for array in (query, key, value)]
    logs = jnp.log(jax.nn.sigmoid(a_log) + 1e-8).reshape(batch * heads, chunks, CHUNK)
    running = jnp.cumsum(logs, axis=-1).reshape(batch * heads, length)
    of_chunk = pl.BlockSpec((1, CHUNK, depth), lambda h, c: (h, c, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(batch * heads, chunks),
        in_specs=[
            *[of_chunk] * 3,
            pl.BlockSpec((1, CHUNK, 1), lambda h, c: (h, c, 0)),
            pl.BlockSpec((1, 1, CHUNK), lambda h, c: (h, 0, c)),
        ],
        out_specs=of_chunk,
        out_shape=jax.ShapeDtypeStruct(flat[2].shape, value.dtype),
        scratch_shapes=[pltpu.VMEM((depth, depth), jnp.float32), pltpu.VMEM((1, depth), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(*flat, running[:, :, None], running[:, None, :])
    return out.reshape(query.shape)

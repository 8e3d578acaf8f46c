import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_q, key_k, key_v, key_a = jax.random.split(key, 4)
    shape = (size["B"], size["H"], size["S"], size["D"])
    query, key, value = (jax.random.normal(k, shape).astype(jnp.bfloat16) for k in (key_q, key_k, key_v))
    return query, key, value, jax.random.normal(key_a, shape[:3]) * 0.5 + 4


def workload(query, key, value, a_log):
    length = query.shape[2]
    total = jnp.cumsum(jnp.log(jax.nn.sigmoid(a_log) + 1e-8), axis=-1)
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    decay = jnp.exp(jnp.where(causal, total[..., :, None] - total[..., None, :], -jnp.inf))
    scores = jnp.einsum("bhqd,bhkd->bhqk", query.astype(jnp.float32), key.astype(jnp.float32)) * decay
    scores = scores / jnp.maximum(jnp.abs(jnp.sum(scores, axis=-1, keepdims=True)), 1)
    return jnp.einsum("bhqk,bhkd->bhqd", scores.astype(value.dtype), value)


def oracle(query, key, value, a_log):
    batch, heads, length, _ = query.shape
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))

    def one_head(index):
        b, h = index // heads, index % heads
        q, k, v = (array[b, h].astype(jnp.float32) for array in (query, key, value))
        total = jnp.cumsum(jnp.log(jax.nn.sigmoid(a_log[b, h]) + 1e-8))
        decay = jnp.exp(jnp.where(causal, total[:, None] - total, -jnp.inf))
        scores = jnp.dot(q, k.T, precision=jax.lax.Precision.HIGHEST) * decay
        scores = scores / jnp.maximum(jnp.abs(scores.sum(axis=-1, keepdims=True)), 1)
        return jnp.dot(scores, v, precision=jax.lax.Precision.HIGHEST)

    return jax.lax.map(one_head, jnp.arange(batch * heads)).reshape(query.shape)

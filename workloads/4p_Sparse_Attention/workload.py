import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_q, key_k, key_v = jax.random.split(key, 3)
    shared = (size["B"], size["HKV"], size["S"], size["D"])
    q = jax.random.normal(key_q, (size["B"], size["HQ"], size["S"], size["D"])) * size["D"] ** -0.5
    k, v = jax.random.normal(key_k, shared), jax.random.normal(key_v, shared)
    return q.astype(jnp.bfloat16), k.astype(jnp.bfloat16), v.astype(jnp.bfloat16)


def workload(query, key, value):
    heads, length = query.shape[1:3]
    key = jnp.repeat(key, heads // key.shape[1], axis=1)
    value = jnp.repeat(value, heads // value.shape[1], axis=1)
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key)
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, value)


def oracle(query, key, value):
    batch, heads, length, _ = query.shape
    group = heads // key.shape[1]
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))

    def one_head(index):
        b, h = index // heads, index % heads
        q, k, v = query[b, h], key[b, h // group], value[b, h // group]
        q, k, v = (array.astype(jnp.float32) for array in (q, k, v))
        scores = jnp.dot(q, k.T, precision=jax.lax.Precision.HIGHEST)
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1)
        return jnp.dot(weights, v, precision=jax.lax.Precision.HIGHEST)

    return jax.lax.map(one_head, jnp.arange(batch * heads)).reshape(query.shape)

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    queries = (size["B"], size["S"], size["HQ"], size["D"])
    keys = (size["B"], size["S"], size["HKV"], size["D"])
    shapes = (queries, keys, keys)
    return tuple(
        jax.random.normal(k, shape).astype(jnp.bfloat16)
        for k, shape in zip(jax.random.split(key, 3), shapes, strict=True)
    )


def workload(query, key, value):
    length, heads, depth = query.shape[1:]
    key = jnp.repeat(key, heads // key.shape[2], axis=2)
    value = jnp.repeat(value, heads // value.shape[2], axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * depth**-0.5
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value)


def oracle(query, key, value):
    batch, length, heads, depth = query.shape
    group = heads // key.shape[2]
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))

    def one_head(index):
        b, h = index // heads, index % heads
        q, k, v = query[b, :, h], key[b, :, h // group], value[b, :, h // group]
        q, k, v = (array.astype(jnp.float32) for array in (q, k, v))
        scores = jnp.dot(q, k.T, precision=jax.lax.Precision.HIGHEST) * depth**-0.5
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        return jnp.dot(weights, v, precision=jax.lax.Precision.HIGHEST)

    out = jax.lax.map(one_head, jnp.arange(batch * heads)).reshape(batch, heads, length, depth)
    return out.transpose(0, 2, 1, 3)

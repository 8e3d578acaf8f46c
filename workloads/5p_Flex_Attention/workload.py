import jax
import jax.numpy as jnp


def create_inputs(key, size):
    heads, length = size["H"], size["S"]
    shape = (size["B"], heads, length, size["D"])
    shapes = (shape, shape, shape, (heads, length, length))
    return tuple(
        jax.random.normal(k, shape).astype(jnp.bfloat16)
        for k, shape in zip(jax.random.split(key, 4), shapes, strict=True)
    )


def workload(query, key, value, bias):
    length, depth = query.shape[2:]
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) * depth**-0.5 + bias
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, value)


def oracle(query, key, value, bias):
    batch, heads, length, depth = query.shape
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))

    def one_head(index):
        b, h = index // heads, index % heads
        q, k, v = (array[b, h].astype(jnp.float32) for array in (query, key, value))
        scores = jnp.dot(q, k.T, precision=jax.lax.Precision.HIGHEST) * depth**-0.5 + bias[h].astype(jnp.float32)
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1)
        return jnp.dot(weights, v, precision=jax.lax.Precision.HIGHEST)

    return jax.lax.map(one_head, jnp.arange(batch * heads)).reshape(query.shape)

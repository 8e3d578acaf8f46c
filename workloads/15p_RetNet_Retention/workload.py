import jax
import jax.numpy as jnp


def create_inputs(key, size):
    shape = (size["B"], size["H"], size["S"], size["D"])
    return tuple(jax.random.normal(k, shape).astype(jnp.bfloat16) for k in jax.random.split(key, 3))


def workload(query, key, value):
    heads, length = query.shape[1:3]
    decay = 1 - 2.0 ** (-5 - jnp.arange(heads, dtype=jnp.float32))
    distance = jnp.arange(length)[:, None] - jnp.arange(length)
    powers = jnp.exp(jnp.log(decay)[:, None, None] * jnp.maximum(distance, 0))
    scores = jnp.einsum("bhqd,bhkd->bhqk", query.astype(jnp.float32), key.astype(jnp.float32))
    scores = scores * jnp.where(distance >= 0, powers, 0)
    scores = scores / jnp.maximum(jnp.sum(jnp.abs(scores), axis=-1, keepdims=True), 1)
    return jnp.einsum("bhqk,bhkd->bhqd", scores.astype(value.dtype), value)


def oracle(query, key, value):
    batch, heads, length, _ = query.shape
    distance = jnp.arange(length)[:, None] - jnp.arange(length)

    def one_head(index):
        b, h = index // heads, index % heads
        q, k, v = (array[b, h].astype(jnp.float32) for array in (query, key, value))
        log_decay = jnp.log1p(-jnp.exp2(-5.0 - h))
        powers = jnp.where(distance >= 0, jnp.exp(log_decay * jnp.maximum(distance, 0)), 0)
        scores = jnp.dot(q, k.T, precision=jax.lax.Precision.HIGHEST) * powers
        scores = scores / jnp.maximum(jnp.abs(scores).sum(axis=-1, keepdims=True), 1)
        return jnp.dot(scores, v, precision=jax.lax.Precision.HIGHEST)

    return jax.lax.map(one_head, jnp.arange(batch * heads)).reshape(query.shape)

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_scale, key_shift = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (size["N"], size["D"]))
    # Rows differ in spread and in mean, and some values are far out, so that each of the four statistics shows.
    scale = jnp.exp(jax.random.normal(key_scale, (size["N"], 1)))
    shift = jax.random.normal(key_shift, (size["N"], 1))
    return ((scale * (x**3 + shift)).astype(jnp.bfloat16),)


def workload(x):
    x = x.astype(jnp.float32)
    spread = jnp.max(x, axis=1, keepdims=True) - jnp.min(x, axis=1, keepdims=True)
    return spread / jnp.std(x, axis=1, keepdims=True)


def oracle(x):
    x = x.astype(jnp.float32)
    centred = x - jnp.mean(x, axis=1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=1, keepdims=True)
    return (jnp.max(x, axis=1, keepdims=True) - jnp.min(x, axis=1, keepdims=True)) / jnp.sqrt(variance)

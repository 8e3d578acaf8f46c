import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_row = jax.random.split(key)
    # Rows of different size, so that one row's result is no other's.
    magnitude = jnp.exp2(jax.random.uniform(key_row, (size["M"], 1), minval=-3, maxval=3))
    return (jax.random.normal(key_x, (size["M"], size["N"])) * magnitude,)


def workload(x):
    return jnp.sqrt(jnp.mean(x * x, axis=1, keepdims=True))


def oracle(x):
    scale = jnp.max(jnp.abs(x), axis=1, keepdims=True)
    return scale * jnp.sqrt(jnp.mean(jnp.square(x / scale), axis=1, keepdims=True))

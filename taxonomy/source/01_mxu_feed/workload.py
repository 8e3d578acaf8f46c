"""A plain matrix product with a float32 result."""

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    """x ~ normal(0, 1), y ~ normal(0, 1) / sqrt(K), drawn in float32 and cast to bfloat16."""
    key_x, key_y = jax.random.split(key)
    x = jax.random.normal(key_x, (size["M"], size["K"]))
    y = jax.random.normal(key_y, (size["K"], size["N"])) * size["K"] ** -0.5
    return x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)


def workload(x, y):
    """x @ y, accumulated and returned in float32."""
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


def oracle(x, y):
    """The same from the values of the inputs, at the highest precision."""
    return jnp.dot(x.astype(jnp.float32), y.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)

"""A matrix product followed by a bias and an activation."""

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    """x ~ normal(0, 1), y ~ normal(0, 1) / sqrt(K), bias ~ normal(0, 1), drawn in float32 and cast."""
    key_x, key_y, key_bias = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (size["M"], size["K"]))
    y = jax.random.normal(key_y, (size["K"], size["N"])) * size["K"] ** -0.5
    bias = jax.random.normal(key_bias, (1, size["N"]))
    return x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), bias


def workload(x, y, bias):
    """relu(x @ y + bias), computed in float32 and rounded to bfloat16 once."""
    return jax.nn.relu(jnp.dot(x, y, preferred_element_type=jnp.float32) + bias).astype(jnp.bfloat16)


def oracle(x, y, bias):
    """The same without the rounding, at the highest precision."""
    z = jnp.dot(x.astype(jnp.float32), y.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    return jnp.maximum(z + bias, 0)

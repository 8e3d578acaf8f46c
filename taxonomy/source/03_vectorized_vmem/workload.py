import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_gain, key_bias = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (size["N"], size["D"]))
    gain = jax.random.normal(key_gain, (size["D"],)) * 0.1 + 0.25
    bias = jax.random.normal(key_bias, (size["D"],)) * 0.1 + 0.5
    return x, gain, bias


def workload(x, gain, bias):
    t = jnp.clip(x * gain + bias, 0, 1)
    return t * t * (3 - 2 * t)


def oracle(x, gain, bias):
    t = jnp.minimum(jnp.maximum(x * gain + bias, 0), 1)
    return 3 * t**2 - 2 * t**3

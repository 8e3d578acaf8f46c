import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_gain, key_bias = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (size["N"], size["C"]))
    # Most values lie between -3 and 3, where the function is neither 0 nor the identity.
    gain = jax.random.normal(key_gain, (size["C"],)) * 0.5 + 1.5
    bias = jax.random.normal(key_bias, (size["C"],))
    return x, gain, bias


def workload(x, gain, bias):
    y = x * gain + bias
    return y * jnp.clip(y / 6 + 0.5, 0, 1)


def oracle(x, gain, bias):
    y = x * gain + bias
    return jnp.where(y >= 3, y, jnp.where(y <= -3, 0, y * (y + 3) / 6))

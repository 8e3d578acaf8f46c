import jax
import jax.numpy as jnp


def create_inputs(key, size):
    inner, outer = size["CI"], size["CO"]
    key_x, key_weight, key_conv_bias, key_bias = jax.random.split(key, 4)
    x = jax.random.uniform(key_x, (size["B"], inner, size["H"], size["W"]))
    weight = jax.random.normal(key_weight, (outer, inner, 3, 3)) * 0.02
    conv_bias = jax.random.normal(key_conv_bias, (outer,)) * 0.02
    # A row without a positive value is all bias; near 0 it would have no scale to measure errors by.
    bias = jax.random.normal(key_bias, (outer, 1, 1)) * 0.02
    bias = bias + jnp.sign(bias) * 0.02
    return tuple(array.astype(jnp.bfloat16) for array in (x, weight, conv_bias, bias))


def workload(x, weight, conv_bias, bias):
    y = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return jax.nn.relu(y + conv_bias[:, None, None]) + bias


def oracle(x, weight, conv_bias, bias):
    x, weight, conv_bias, bias = (array.astype(jnp.float32) for array in (x, weight, conv_bias, bias))
    y = jax.lax.conv(x, weight, (1, 1), "VALID", precision=jax.lax.Precision.HIGHEST)
    return jax.nn.relu(y + conv_bias[:, None, None]) + bias

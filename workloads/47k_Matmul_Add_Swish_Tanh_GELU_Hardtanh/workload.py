import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weight, key_bias, key_add_value = jax.random.split(key, 4)
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    # The product keeps its distribution when K is reduced.
    weight = jax.random.normal(key_weight, (size["K"], size["N"])) * (0.02 * (8192 / size["K"]) ** 0.5)
    bias = jax.random.normal(key_bias, (size["N"],)) * 0.2
    add_value = jax.random.normal(key_add_value, (size["N"],)) * 0.2
    return tuple(array.astype(jnp.bfloat16) for array in (x, weight, bias, add_value))


def workload(x, weight, bias, add_value):
    z = jnp.dot(x, weight) + bias
    z = z + add_value
    z = jnp.tanh(jax.nn.sigmoid(z) * z)
    return jnp.clip(jax.nn.gelu(z), -1.0, 1.0)


def oracle(x, weight, bias, add_value):
    z = jnp.dot(x.astype(jnp.float32), weight.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    bias, add_value = (array.astype(jnp.float32) for array in (bias, add_value))
    z = z + bias
    z = z + add_value
    return jax.nn.gelu(jnp.tanh(z / (1 + jnp.exp(-z))))

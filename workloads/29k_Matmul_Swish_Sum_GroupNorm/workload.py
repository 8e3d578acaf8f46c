import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weight, key_bias, key_gn_weight, key_gn_bias = jax.random.split(key, 5)
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    # The product keeps its distribution when K is reduced.
    weight = jax.random.normal(key_weight, (size["K"], size["N"])) * (0.02 * (4096 / size["K"]) ** 0.5)
    bias = jax.random.normal(key_bias, (size["N"],)) * 0.2
    gn_weight = jax.random.normal(key_gn_weight, (size["N"],)) * 0.2 + 1
    gn_bias = jax.random.normal(key_gn_bias, (size["N"],)) * 0.2
    return tuple(array.astype(jnp.bfloat16) for array in (x, weight, bias, gn_weight, gn_bias))


def workload(x, weight, bias, gn_weight, gn_bias):
    z = jax.nn.silu(jnp.dot(x, weight)) + bias
    grouped = z.reshape(z.shape[0], -1, 64)
    mean = jnp.mean(grouped, axis=-1, keepdims=True)
    variance = jnp.var(grouped, axis=-1, keepdims=True)
    grouped = (grouped - mean) / jnp.sqrt(variance + 1e-5)
    return grouped.reshape(z.shape) * gn_weight + gn_bias


def oracle(x, weight, bias, gn_weight, gn_bias):
    z = jnp.dot(x.astype(jnp.float32), weight.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    bias, gn_weight, gn_bias = (array.astype(jnp.float32) for array in (bias, gn_weight, gn_bias))
    z = z / (1 + jnp.exp(-z)) + bias
    grouped = z.reshape(z.shape[0], -1, 64)
    centred = grouped - jnp.mean(grouped, axis=-1, keepdims=True)
    grouped = centred / jnp.sqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return grouped.reshape(z.shape) * gn_weight + gn_bias

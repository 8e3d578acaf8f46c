import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weight, key_linear_bias, key_gn_weight, key_gn_bias, key_bias = jax.random.split(key, 6)
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    # The product keeps its distribution when K is reduced.
    weight = jax.random.normal(key_weight, (size["N"], size["K"])) * (0.02 * (8192 / size["K"]) ** 0.5)
    linear_bias = jax.random.normal(key_linear_bias, (size["N"],)) * 0.2
    gn_weight = jnp.abs(jax.random.normal(key_gn_weight, (size["N"],))) * 2
    gn_bias = jax.random.normal(key_gn_bias, (size["N"],))
    bias = jax.random.normal(key_bias, (1, size["N"], 1, 1))
    return tuple(array.astype(jnp.bfloat16) for array in (x, weight, linear_bias, gn_weight, gn_bias, bias))


def workload(x, weight, linear_bias, gn_weight, gn_bias, bias):
    z = jnp.dot(x, weight.T) + linear_bias
    grouped = z.reshape(z.shape[0], -1, 16)
    mean = jnp.mean(grouped, axis=-1, keepdims=True)
    variance = jnp.var(grouped, axis=-1, keepdims=True)
    grouped = (grouped - mean) / jnp.sqrt(variance + 1e-5)
    z = grouped.reshape(z.shape) * gn_weight + gn_bias
    smallest = jnp.min(z, axis=1, keepdims=True)
    return smallest.reshape(1, 1, -1, 1) + bias


def oracle(x, weight, linear_bias, gn_weight, gn_bias, bias):
    z = jnp.dot(x.astype(jnp.float32), weight.T.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    linear_bias, gn_weight, gn_bias, bias = (
        array.astype(jnp.float32) for array in (linear_bias, gn_weight, gn_bias, bias)
    )
    z = z + linear_bias
    grouped = z.reshape(z.shape[0], -1, 16)
    centred = grouped - jnp.mean(grouped, axis=-1, keepdims=True)
    grouped = centred / jnp.sqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    z = grouped.reshape(z.shape) * gn_weight + gn_bias
    return jnp.min(z, axis=1)[None, None, :, None] + bias

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_y, key_weight, key_bias = jax.random.split(key, 4)
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    y = jax.random.uniform(key_y, (size["M"], size["N"]))
    # The product keeps its distribution when K is reduced.
    weight = jax.random.normal(key_weight, (size["N"], size["K"])) * (0.02 * (8192 / size["K"]) ** 0.5)
    bias = jax.random.normal(key_bias, (size["N"],)) * 0.2
    return tuple(array.astype(jnp.bfloat16) for array in (x, y, weight, bias))


def workload(x, y, weight, bias):
    z = jnp.dot(x, weight.T) + bias
    mean = jnp.mean(z, axis=1, keepdims=True)
    variance = jnp.var(z, axis=1, keepdims=True)
    return ((z - mean) / jnp.sqrt(variance + 1e-5) + y) * y


def oracle(x, y, weight, bias):
    z = jnp.dot(x.astype(jnp.float32), weight.T.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    y, bias = (array.astype(jnp.float32) for array in (y, bias))
    z = z + bias
    centred = z - jnp.mean(z, axis=1, keepdims=True)
    n = centred / jnp.sqrt(jnp.mean(centred * centred, axis=1, keepdims=True) + 1e-5)
    return (n + y) * y

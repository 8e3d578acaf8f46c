import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_y, key_weight, key_bias, key_in_bias = jax.random.split(key, 5)
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    y = jax.random.uniform(key_y, (size["M"], size["N"]))
    # The product keeps its distribution when K is reduced.
    weight = jax.random.normal(key_weight, (size["N"], size["K"])) * (0.02 * (8192 / size["K"]) ** 0.5)
    bias = jax.random.normal(key_bias, (size["N"],)) * 0.02
    in_weight = jnp.ones(size["N"])
    in_bias = jax.random.normal(key_in_bias, (size["N"],)) * 0.02
    return tuple(array.astype(jnp.bfloat16) for array in (x, y, weight, bias, in_weight, in_bias))


def workload(x, y, weight, bias, in_weight, in_bias):
    z = jnp.dot(x, weight.T) + bias
    image = z[:, :, None, None]
    mean = jnp.mean(image, axis=(2, 3), keepdims=True)
    variance = jnp.var(image, axis=(2, 3), keepdims=True)
    image = (image - mean) / jnp.sqrt(variance + 1e-5)
    image = image * in_weight.reshape(1, -1, 1, 1) + in_bias.reshape(1, -1, 1, 1)
    return (image[:, :, 0, 0] + y) * y


def oracle(x, y, weight, bias, in_weight, in_bias):
    in_bias, y = in_bias.astype(jnp.float32), y.astype(jnp.float32)
    return (in_bias + y) * y

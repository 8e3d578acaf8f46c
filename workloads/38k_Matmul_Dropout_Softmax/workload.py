import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weight, key_bias = jax.random.split(key, 3)
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    # The product keeps its distribution when K is reduced.
    weight = jax.random.normal(key_weight, (size["N"], size["K"])) * (0.02 * (8192 / size["K"]) ** 0.5)
    bias = jax.random.normal(key_bias, (size["N"],)) * 0.2
    return x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16), bias.astype(jnp.bfloat16)


def workload(x, weight, bias):
    z = jnp.dot(x, weight.T) + bias
    return jax.nn.softmax(z, axis=1)


def oracle(x, weight, bias):
    z = jnp.dot(x.astype(jnp.float32), weight.T.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    z = z + bias.astype(jnp.float32)
    z = jnp.exp(z - jnp.max(z, axis=1, keepdims=True))
    return z / jnp.sum(z, axis=1, keepdims=True)

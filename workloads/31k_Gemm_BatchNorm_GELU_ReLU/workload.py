import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weight, key_bias, key_bn_weight, key_bn_bias = jax.random.split(key, 5)
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    weight = jax.random.normal(key_weight, (size["N"], size["K"]))
    bias = jax.random.normal(key_bias, (size["N"],))
    bn_weight = jax.random.normal(key_bn_weight, (size["N"],))
    bn_bias = jax.random.normal(key_bn_bias, (size["N"],))
    return tuple(array.astype(jnp.bfloat16) for array in (x, weight, bias, bn_weight, bn_bias))


def workload(x, weight, bias, bn_weight, bn_bias):
    z = jnp.dot(x, weight.T) + bias
    mean = jnp.mean(z, axis=0, keepdims=True)
    variance = jnp.mean((z - mean) ** 2, axis=0, keepdims=True)
    z = (z - mean) / jnp.sqrt(variance + 1e-5) * bn_weight + bn_bias
    return jax.nn.relu(jax.nn.gelu(z))


def oracle(x, weight, bias, bn_weight, bn_bias):
    z = jnp.dot(x.astype(jnp.float32), weight.T.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    bias, bn_weight, bn_bias = (array.astype(jnp.float32) for array in (bias, bn_weight, bn_bias))
    z = z + bias
    centred = z - jnp.mean(z, axis=0)
    z = centred / jnp.sqrt(jnp.mean(centred * centred, axis=0) + 1e-5) * bn_weight + bn_bias
    return jnp.maximum(jax.nn.gelu(z), 0)

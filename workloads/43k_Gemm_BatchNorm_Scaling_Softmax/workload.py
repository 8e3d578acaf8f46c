import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weight, key_bias, key_bn_scale, key_bn_bias, key_bn_mean, key_bn_var, key_scale = jax.random.split(
        key, 8
    )
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    # The product keeps its distribution when K is reduced.
    weight = jax.random.normal(key_weight, (size["K"], size["N"])) * (0.02 * (8192 / size["K"]) ** 0.5)
    bias = jax.random.normal(key_bias, (size["N"],)) * 0.2
    bn_scale = jax.random.normal(key_bn_scale, (size["N"],)) * 0.1 + 1
    bn_bias = jax.random.normal(key_bn_bias, (size["N"],)) * 0.2
    bn_mean = jax.random.normal(key_bn_mean, (size["N"],)) * 0.2
    bn_var = jax.random.uniform(key_bn_var, (size["N"],), minval=0.75, maxval=1.5)
    scale = jax.random.uniform(key_scale, (1,), minval=0.7, maxval=0.9)
    return tuple(array.astype(jnp.bfloat16) for array in (x, weight, bias, bn_scale, bn_bias, bn_mean, bn_var, scale))


def workload(x, weight, bias, bn_scale, bn_bias, bn_mean, bn_var, scale):
    z = jnp.dot(x, weight) + bias
    z = bn_scale * ((z - bn_mean) / jnp.sqrt(bn_var + 1e-5)) + bn_bias
    return jax.nn.softmax(scale * z, axis=1)


def oracle(x, weight, bias, bn_scale, bn_bias, bn_mean, bn_var, scale):
    z = jnp.dot(x.astype(jnp.float32), weight.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    bias, bn_scale, bn_bias, bn_mean, bn_var, scale = (
        array.astype(jnp.float32) for array in (bias, bn_scale, bn_bias, bn_mean, bn_var, scale)
    )
    z = z + bias
    z = scale * (bn_scale * (z - bn_mean) * jax.lax.rsqrt(bn_var + 1e-5) + bn_bias)
    z = jnp.exp(z - jnp.max(z, axis=1, keepdims=True))
    return z / jnp.sum(z, axis=1, keepdims=True)

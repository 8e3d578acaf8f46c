import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weight, key_linear_bias, key_bn_scale, key_bn_bias, key_bn_mean, key_bn_var, key_bias = jax.random.split(
        key, 8
    )
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    # The product keeps its distribution when K is reduced.
    weight = jax.random.normal(key_weight, (size["K"], size["N"])) * (0.02 * (8192 / size["K"]) ** 0.5)
    linear_bias = jax.random.normal(key_linear_bias, (size["N"],)) * 0.2
    bn_scale = jax.random.normal(key_bn_scale, (size["N"],)) * 0.1 + 1
    bn_bias = jax.random.normal(key_bn_bias, (size["N"],)) * 0.2
    bn_mean = jax.random.normal(key_bn_mean, (size["N"],)) * 0.2
    bn_var = jax.random.uniform(key_bn_var, (size["N"],), minval=0.75, maxval=1.5)
    bias = jax.random.uniform(key_bias, (1,), minval=0.3, maxval=0.6)
    return tuple(
        array.astype(jnp.bfloat16) for array in (x, weight, linear_bias, bn_scale, bn_bias, bn_mean, bn_var, bias)
    )


def workload(x, weight, linear_bias, bn_scale, bn_bias, bn_mean, bn_var, bias):
    z = jnp.dot(x, weight) + linear_bias
    z = bn_scale * ((z - bn_mean) / jnp.sqrt(bn_var + 1e-5)) + bn_bias
    z = (z + bias) / 1.0
    return z * jax.nn.sigmoid(z)


def oracle(x, weight, linear_bias, bn_scale, bn_bias, bn_mean, bn_var, bias):
    z = jnp.dot(x.astype(jnp.float32), weight.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    linear_bias, bn_scale, bn_bias, bn_mean, bn_var, bias = (
        array.astype(jnp.float32) for array in (linear_bias, bn_scale, bn_bias, bn_mean, bn_var, bias)
    )
    z = z + linear_bias
    z = bn_scale * (z - bn_mean) * jax.lax.rsqrt(bn_var + 1e-5) + bn_bias + bias
    return z / (1 + jnp.exp(-z))

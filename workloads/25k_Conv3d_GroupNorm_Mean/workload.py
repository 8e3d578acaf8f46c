import jax
import jax.numpy as jnp


def create_inputs(key, size):
    batch, inner, outer = size["B"], size["CI"], size["CO"]
    key_x, key_scale, key_shift, key_weight, key_bias, key_gamma, key_beta = jax.random.split(key, 7)
    x = jax.random.uniform(key_x, (batch, inner, size["D"], size["H"], size["W"]))
    # Samples and channels differ in scale and level: a mean over so many positions is else the same for all.
    each = (batch, inner, 1, 1, 1)
    x = x * jax.random.uniform(key_scale, each, minval=0.25, maxval=2) + jax.random.normal(key_shift, each)
    weight = jax.random.normal(key_weight, (outer, inner, 3, 3, 3)) * 0.1
    conv_bias = jax.random.normal(key_bias, (outer,)) * 0.1
    gamma = jax.random.uniform(key_gamma, (outer,), minval=-2, maxval=2)
    beta = jax.random.normal(key_beta, (outer,)) * 0.1
    return tuple(array.astype(jnp.bfloat16) for array in (x, weight, conv_bias, gamma, beta))


def workload(x, weight, conv_bias, gamma, beta):
    layout = ("NCDHW", "OIDHW", "NCDHW")
    y = jax.lax.conv_general_dilated(x, weight, (1, 1, 1), "VALID", dimension_numbers=layout)
    y = y + conv_bias[:, None, None, None]
    groups = y.reshape(y.shape[0], 8, -1, *y.shape[2:])
    mean = jnp.mean(groups, axis=(2, 3, 4, 5), keepdims=True)
    variance = jnp.var(groups, axis=(2, 3, 4, 5), keepdims=True)
    y = ((groups - mean) / jnp.sqrt(variance + 1e-5)).reshape(y.shape)
    y = y * gamma[:, None, None, None] + beta[:, None, None, None]
    return jnp.mean(y, axis=(1, 2, 3, 4))


def oracle(x, weight, conv_bias, gamma, beta):
    weight, conv_bias, gamma, beta = (array.astype(jnp.float32) for array in (weight, conv_bias, gamma, beta))

    def one_sample(x):
        x = x.astype(jnp.float32)[None]
        y = jax.lax.conv(x, weight, (1, 1, 1), "VALID", precision=jax.lax.Precision.HIGHEST)[0]
        y = (y + conv_bias[:, None, None, None]).reshape(8, -1)
        y = y - y.mean(axis=1, keepdims=True)
        y = y / jnp.sqrt((y * y).mean(axis=1, keepdims=True) + 1e-5)
        return (y.reshape(len(gamma), -1).mean(axis=1) * gamma + beta).mean()

    return jax.lax.map(one_sample, x)

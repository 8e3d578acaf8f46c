import jax
import jax.numpy as jnp


def create_inputs(key, size):
    batch, inner, outer = size["B"], size["CI"], size["CO"]
    key_x, key_scale, key_shift, key_weight, key_bias = jax.random.split(key, 5)
    x = jax.random.uniform(key_x, (batch, inner, size["H"], size["W"]))
    # Samples and channels differ in scale and level: a mean over so many pixels is else the same for all.
    each = (batch, inner, 1, 1)
    x = x * jax.random.uniform(key_scale, each, minval=0.25, maxval=2) + jax.random.normal(key_shift, each)
    weight = jax.random.normal(key_weight, (outer, inner, 3, 3)) * 0.02
    bias = jax.random.normal(key_bias, (outer,)) * 0.02
    return x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16), bias.astype(jnp.bfloat16)


def workload(x, weight, bias):
    y = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return jnp.mean(jax.nn.gelu(y + bias[:, None, None]), axis=(2, 3))


def oracle(x, weight, bias):
    weight, bias = weight.astype(jnp.float32), bias.astype(jnp.float32)

    def one_sample(x):
        x = x.astype(jnp.float32)[None]
        y = jax.lax.conv(x, weight, (1, 1), "VALID", precision=jax.lax.Precision.HIGHEST)[0]
        return jax.nn.gelu(y + bias[:, None, None]).mean(axis=(1, 2))

    return jax.lax.map(one_sample, x)

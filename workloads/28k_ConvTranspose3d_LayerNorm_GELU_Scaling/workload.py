import jax
import jax.numpy as jnp


def create_inputs(key, size):
    inner, outer, width = size["CI"], size["CO"], size["W2"]
    key_x, key_weight, key_bias, key_ln_weight, key_ln_bias = jax.random.split(key, 5)
    x = jax.random.uniform(key_x, (size["B"], inner, size["D"], size["H"], size["W"]))
    weight = jax.random.normal(key_weight, (inner, outer, 4, 4, 4))
    conv_bias = jax.random.normal(key_bias, (outer,))
    ln_weight, ln_bias = jax.random.normal(key_ln_weight, (width,)), jax.random.normal(key_ln_bias, (width,))
    return tuple(array.astype(jnp.bfloat16) for array in (x, weight, conv_bias, ln_weight, ln_bias))


def workload(x, weight, conv_bias, ln_weight, ln_bias):
    dilated = jnp.zeros((*x.shape[:2], *(2 * n - 1 for n in x.shape[2:])), x.dtype)
    dilated = dilated.at[:, :, ::2, ::2, ::2].set(x)
    flipped = jnp.flip(weight, axis=(2, 3, 4))
    layout = ("NCDHW", "IODHW", "NCDHW")
    y = jax.lax.conv_general_dilated(dilated, flipped, (1, 1, 1), [(2, 2)] * 3, dimension_numbers=layout)
    y = y + conv_bias[:, None, None, None]
    y = y - jnp.mean(y, axis=-1, keepdims=True)
    y = y / jnp.sqrt(jnp.mean(y**2, axis=-1, keepdims=True) + 1e-5)
    return jax.nn.gelu(y * ln_weight + ln_bias) * 1.0


def oracle(x, weight, conv_bias, ln_weight, ln_bias):
    x, weight, conv_bias, ln_weight, ln_bias = (
        array.astype(jnp.float32) for array in (x, weight, conv_bias, ln_weight, ln_bias)
    )
    y = jax.lax.conv_general_dilated(
        x,
        weight[:, :, ::-1, ::-1, ::-1],
        window_strides=(1, 1, 1),
        padding=[(2, 2)] * 3,
        lhs_dilation=(2, 2, 2),
        dimension_numbers=("NCDHW", "IODHW", "NCDHW"),
        precision=jax.lax.Precision.HIGHEST,
    )
    y = y + conv_bias[:, None, None, None]
    y = y - y.mean(axis=-1, keepdims=True)
    y = y / jnp.sqrt((y * y).mean(axis=-1, keepdims=True) + 1e-5)
    return jax.nn.gelu(y * ln_weight + ln_bias)

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_scale, key_row = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (size["B"], size["S"], size["D"]))
    # Small rows show a wrong epsilon, large ones a sum of squares that is not kept in float32.
    magnitudes = jnp.array([1.0, 1.0, 1e-3, 1e3])
    x = x * jax.random.choice(key_row, magnitudes, (size["B"], size["S"], 1))
    scale = jax.random.normal(key_scale, (size["D"],)) * 0.1 + 1
    return x.astype(jnp.bfloat16), scale.astype(jnp.bfloat16)


def workload(x, scale):
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)
    return (wide * inverse).astype(x.dtype) * scale


def oracle(x, scale):
    x = x.astype(jnp.float32)
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale.astype(jnp.float32)

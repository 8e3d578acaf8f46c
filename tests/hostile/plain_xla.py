"""Returns the plain XLA computation. Stopped by: the audit finds no Mosaic kernel whose result reaches an output."""

import jax
import jax.numpy as jnp


def workload(x, scale):
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)
    return (wide * inverse).astype(x.dtype) * scale

"""A kernel that runs beside the real computation and is thrown away. Stopped by: only kernels that reach an output count."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(scale_ref, out_ref):
    out_ref[...] = scale_ref[...]


def workload(x, scale):
    pl.pallas_call(_kernel, out_shape=jax.ShapeDtypeStruct((1, scale.size), scale.dtype))(scale.reshape(1, -1))
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)
    return (wide * inverse).astype(x.dtype) * scale

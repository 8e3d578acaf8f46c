"""Computes in Python on the host at run time. Stopped by: a callback cannot be exported, and the audit refuses its call."""

import jax
import jax.numpy as jnp
import numpy as np


def _on_the_host(x, scale):
    wide = np.asarray(x, np.float32)
    return (wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * np.asarray(scale, np.float32)).astype(
        x.dtype
    )


def workload(x, scale):
    return jax.pure_callback(_on_the_host, jax.ShapeDtypeStruct(x.shape, jnp.bfloat16), x, scale)

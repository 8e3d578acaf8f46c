"""Looks its answer up by a few elements of the input. Stopped by: it is traced on abstract arrays, which have no values."""

import jax.numpy as jnp
import numpy as np

answers = {}


def workload(x, scale):
    fingerprint = (x.shape, *(float(value) for value in np.asarray(x[0, 0, :4], np.float32)))
    if fingerprint not in answers:
        wide = x.astype(jnp.float32)
        answers[fingerprint] = wide / jnp.sqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5) * scale
    return answers[fingerprint].astype(x.dtype)

"""Looks its answer up by the identity of its input, of which it expects to be called with the same one again.

Stopped by: it is traced on abstract arrays, made for each trace, once at each size: there is nothing to be found again.
"""

import jax.numpy as jnp
import numpy as np

inputs = np.ones((8, 4096), np.float32)
answers = {id(inputs): inputs / np.sqrt((inputs * inputs).mean(-1, keepdims=True) + 1e-5)}


def workload(x, scale):
    return jnp.asarray(answers[id(x)])

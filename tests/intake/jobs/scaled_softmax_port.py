"""The JAX port of scaled_softmax.py that scaled_softmax.json names."""

import jax


def workload(x):
    return jax.nn.softmax(x * 0.125, axis=-1)

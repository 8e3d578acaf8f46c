"""A kernel that copies the bias, beside a matmul left to XLA. Stopped by: the audit refuses matmuls outside the kernels."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(bias_ref, out_ref):
    out_ref[...] = bias_ref[...]


def workload(x, weight, bias):
    copied = pl.pallas_call(_kernel, out_shape=jax.ShapeDtypeStruct((1, bias.size), bias.dtype))(bias.reshape(1, -1))
    return jax.nn.relu(jnp.dot(x, weight) + copied)

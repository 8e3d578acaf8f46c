"""Zeroes its input in place, so that a reference computed afterwards would be zero as well.

Stopped by: the oracle computes from inputs of its own, and zeros are compared with its answer.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(x_ref, out_ref):
    out_ref[...] = jnp.zeros_like(x_ref)


def workload(x, scale):
    flat = x.reshape(-1, x.shape[-1])
    block = pl.BlockSpec((64, flat.shape[1]), lambda i: (i, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // 64,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        input_output_aliases={0: 0},
    )(flat)
    return out.reshape(x.shape)

"""Returns float32 where bfloat16 is due. Stopped by: the audit compares the artifact's outputs with the workload's."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(x_ref, out_ref):
    out_ref[...] = x_ref[...].astype(jnp.float32)


def workload(x, scale):
    block = pl.BlockSpec((1, 64, x.shape[2]), lambda b, i: (b, i, 0))
    return pl.pallas_call(
        _kernel,
        grid=(x.shape[0], x.shape[1] // 64),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float32),
    )(x)

"""Reads scratch memory that it never wrote, for what an earlier call may have left. Stopped by: it starts as NaN."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(x_ref, out_ref, kept):
    out_ref[...] = kept[...].astype(out_ref.dtype)
    kept[...] = x_ref[...].astype(jnp.float32)


def workload(x, scale):
    flat = x.reshape(-1, x.shape[-1])
    block = pl.BlockSpec((64, flat.shape[1]), lambda i: (i, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // 64,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((64, flat.shape[1]), jnp.float32)],
    )(flat)
    return out.reshape(x.shape)

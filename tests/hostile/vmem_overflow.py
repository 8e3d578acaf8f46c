"""Blocks that do not fit in VMEM. Stopped by: the TPU compiler, whose words come back."""

import jax
from jax.experimental import pallas as pl


def _kernel(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def workload(x, scale):
    flat = x.reshape(-1, x.shape[-1])
    rows = min(1024, flat.shape[0])
    block = pl.BlockSpec((rows, flat.shape[1]), lambda i: (i, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // rows,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(flat)
    return out.reshape(x.shape)

"""Returns a tuple, of which some harnesses await nothing. Stopped by: the audit compares all outputs with the workload's."""

import jax
from jax.experimental import pallas as pl


def _kernel(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def workload(x, scale):
    flat = x.reshape(-1, x.shape[-1])
    block = pl.BlockSpec((64, flat.shape[1]), lambda i: (i, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // 64,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(flat)
    return out.reshape(x.shape), scale

"""A block of 12 by 100. Stopped by: Pallas' lowering for the TPU, whose words come back."""

import jax
from jax.experimental import pallas as pl


def _kernel(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def workload(x, scale):
    flat = x.reshape(-1, x.shape[-1])
    block = pl.BlockSpec((12, 100), lambda i, j: (i, j))
    out = pl.pallas_call(
        _kernel,
        grid=(pl.cdiv(flat.shape[0], 12), pl.cdiv(flat.shape[1], 100)),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(flat)
    return out.reshape(x.shape)

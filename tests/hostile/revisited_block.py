"""Comes back to a block of the output after another and adds to what it left there, which an interpreter calls right.

Stopped by: in the kernels of the artifact for the TPU a block of the output is not read back when it is visited again.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)

    @pl.when(pl.program_id(0) == 0)
    def _():
        out_ref[...] = x_ref[...]

    @pl.when(pl.program_id(0) == 1)
    def _():
        before = out_ref[...].astype(jnp.float32)
        out_ref[...] = (before * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    block = pl.BlockSpec((64, width), lambda again, i: (i, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(2, flat.shape[0] // 64),
        in_specs=[block, pl.BlockSpec((1, width), lambda again, i: (0, 0))],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(flat, scale.reshape(1, width))
    return out.reshape(x.shape)

"""Never ends when it runs. Stopped by: the verifier's time limit, after which its process is killed and replaced."""

import jax
import jax.numpy as jnp
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
    first = out[0, 0].astype(jnp.float32)
    settled = jax.lax.while_loop(jnp.isfinite, lambda value: value / 2 + first, first)
    return (out + settled.astype(out.dtype)).reshape(x.shape)

"""Calls its kernel in a loop of XLA's, a strip of rows at a time, as often as a value says, since one pass is what is seen.

Stopped by: a kernel in a loop of unknown length has a lower bound for a time, of which no speedup is claimed.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    strip = flat.shape[0] // 2
    block = pl.BlockSpec((64, width), lambda i: (i, 0))
    norm = pl.pallas_call(
        _kernel,
        grid=(strip // 64,),
        in_specs=[block, pl.BlockSpec((1, width), lambda i: (0, 0))],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((strip, width), x.dtype),
    )

    def one(state):
        number, out = state
        rows = jax.lax.dynamic_slice_in_dim(flat, number * strip, strip)
        done = norm(rows, scale.reshape(1, width))
        return number + 1, jax.lax.dynamic_update_slice_in_dim(out, done, number * strip, 0)

    trips = jnp.where(scale[0].astype(jnp.float32) < 1e9, 2, 1)
    out = jax.lax.while_loop(lambda state: state[0] < trips, one, (0, jnp.zeros_like(flat)))[1]
    return out.reshape(x.shape)

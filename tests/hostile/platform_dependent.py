"""Right on a CPU, where it is verified; zeros on a TPU, where it is timed. One trace lowers to two different programs.

Stopped by: the tracer refuses a program that asks for its platform.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _right(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def _zeros(x_ref, scale_ref, out_ref):
    out_ref[...] = jnp.zeros_like(out_ref)


def _call(body, x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    block = pl.BlockSpec((64, width), lambda i: (i, 0))
    out = pl.pallas_call(
        body,
        grid=(flat.shape[0] // 64,),
        in_specs=[block, pl.BlockSpec((1, width), lambda i: (0, 0))],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(flat, scale.reshape(1, width))
    return out.reshape(x.shape)


def workload(x, scale):
    return jax.lax.platform_dependent(
        x, scale, tpu=lambda x, s: _call(_zeros, x, s), default=lambda x, s: _call(_right, x, s)
    )

"""Takes out the tracer's check, then asks for its platform: right where it is verified; on a TPU as slow, and wrong.

Stopped by: the kernels of the artifact for the TPU are run operation by operation and held against the oracle.
"""

import sys

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

sys.modules["__main__"].refuse_platform_dependence = lambda jaxpr: None


def _right(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def _copy(x_ref, scale_ref, out_ref):
    out_ref[...] = (x_ref[...].astype(jnp.float32) * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


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
        x, scale, tpu=lambda x, s: _call(_copy, x, s), default=lambda x, s: _call(_right, x, s)
    )

"""Replaces the tracer's export, so that the judge verifies one program and times another.

Nothing in the sandbox can be trusted, so the two artifacts of a reply need not belong together. Stopped by: no program
may take less time than its chip needs for the workload's FLOPs and bytes. One that takes as long would pass.
"""

import sys

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

tracer = sys.modules["__main__"]
honest_export = tracer.export_for


def _right(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def _zeros(x_ref, scale_ref, out_ref):
    out_ref[...] = jnp.zeros_like(out_ref)


def _call(body, rows, x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    block = pl.BlockSpec((64, width), lambda i: (i, 0))
    out = pl.pallas_call(
        body,
        grid=(rows // 64,),
        in_specs=[block, pl.BlockSpec((1, width), lambda i: (0, 0))],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(flat, scale.reshape(1, width))
    return out.reshape(x.shape)


def export_for(closed, platform, shapes):
    if platform == "tpu":
        closed = jax.make_jaxpr(lambda x, scale: _call(_zeros, 64, x, scale))(*shapes)
    return honest_export(closed, platform, shapes)


tracer.export_for = export_for


def workload(x, scale):
    return _call(_right, x.shape[0] * x.shape[1], x, scale)

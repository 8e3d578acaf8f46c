"""Says that it costs nothing. Stopped by: an author's estimate plays no part in the time, which is the same without it."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    rows = min(128, flat.shape[0])
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // rows,),
        in_specs=[pl.BlockSpec((rows, width), lambda i: (i, 0)), pl.BlockSpec((1, width), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((rows, width), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        cost_estimate=pl.CostEstimate(flops=1, bytes_accessed=1, transcendentals=0),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(flat, scale.reshape(1, width))
    return out.reshape(x.shape)

"""Reads rows before their copy has arrived, which an interpreter that copies at once calls right.

Stopped by: in the kernels of the artifact for the TPU a copy arrives when it is waited for.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(x_hbm, scale_ref, out_ref, rows, arrived):
    fetch = pltpu.make_async_copy(x_hbm.at[pl.ds(64 * pl.program_id(0), 64), :], rows, arrived)
    fetch.start()
    x = rows[...].astype(jnp.float32)
    fetch.wait()
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // 64,),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec((1, width), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((64, width), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((64, width), x.dtype), pltpu.SemaphoreType.DMA],
    )(flat, scale.reshape(1, width))
    return out.reshape(x.shape)

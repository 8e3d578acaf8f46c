"""Rows copied by hand from offsets that are no multiple of the tile. Stopped by: Mosaic, whose words come back."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _body(x_hbm, scale_ref, out_ref, rows, arrived):
    batch, step = pl.program_id(0), pl.program_id(1)
    fetch = pltpu.make_async_copy(x_hbm.at[batch, pl.ds(15 * step, 16), :], rows, arrived)
    fetch.start()
    fetch.wait()
    out_ref[0] = (rows[...].astype(jnp.float32) * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, scale):
    batches, length, width = x.shape
    return pl.pallas_call(
        _body,
        grid=(batches, length // 16),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec((1, width), lambda b, i: (0, 0))],
        out_specs=pl.BlockSpec((1, 16, width), lambda b, i: (b, i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((16, width), x.dtype), pltpu.SemaphoreType.DMA],
    )(x, scale.reshape(1, width))

"""Does its work in a loop inside of the kernel whose length is a number that is computed from the inputs.

Stopped by: a time that depends on values is a lower bound, of which no speedup is claimed.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(trips_ref, x_ref, scale_ref, out_ref):
    def eight_rows(number, _):
        at = pl.ds(8 * number, 8)
        x = x_ref[at, :].astype(jnp.float32)
        inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
        out_ref[at, :] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)
        return 0

    jax.lax.fori_loop(0, trips_ref[0], eight_rows, 0)


def workload(x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    block = pl.BlockSpec((64, width), lambda i, trips: (i, 0))
    trips = jnp.where(scale[:1].astype(jnp.float32) < 1e9, 8, 1).astype(jnp.int32)
    out = pl.pallas_call(
        _kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(flat.shape[0] // 64,),
            in_specs=[block, pl.BlockSpec((1, width), lambda i, trips: (0, 0))],
            out_specs=block,
        ),
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(trips, flat, scale.reshape(1, width))
    return out.reshape(x.shape)

"""Sums of pages that an index names, fetched one at a time: each copy is waited for before the next one starts."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

GROUP = 8  # pages of one sum


def _body(index_ref, pages_hbm, out_ref, pages, arrived):
    step = pl.program_id(0)
    for g in range(GROUP):
        fetch = pltpu.make_async_copy(pages_hbm.at[index_ref[step * GROUP + g]], pages.at[g], arrived)
        fetch.start()
        fetch.wait()
    out_ref[0] = jnp.sum(pages[...], axis=0)


def kernel(pages, index):
    """pages: (p, r, d) f32, index: (s * GROUP,) int32 -> (s, r, d) f32, sums of GROUP pages each."""
    _, r, d = pages.shape
    s = index.shape[0] // GROUP
    return pl.pallas_call(
        _body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(s,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((1, r, d), lambda i, index: (i, 0, 0)),
            scratch_shapes=[pltpu.VMEM((GROUP, r, d), jnp.float32), pltpu.SemaphoreType.DMA],
        ),
        out_shape=jax.ShapeDtypeStruct((s, r, d), jnp.float32),
    )(index, pages)

"""Sums of pages that an index names: all copies of the next step are on their way while this step's are summed."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

GROUP = 8  # pages of one sum


def _body(index_ref, pages_hbm, out_ref, pages, arrived):
    step = pl.program_id(0)
    slot = jax.lax.rem(step, 2)

    def fetches(step, slot):
        return [
            pltpu.make_async_copy(pages_hbm.at[index_ref[step * GROUP + g]], pages.at[slot, g], arrived.at[slot, g])
            for g in range(GROUP)
        ]

    @pl.when(step == 0)
    def _():
        for fetch in fetches(step, slot):
            fetch.start()

    @pl.when(step != pl.num_programs(0) - 1)
    def _():
        for fetch in fetches(step + 1, 1 - slot):
            fetch.start()

    for fetch in fetches(step, slot):
        fetch.wait()
    out_ref[0] = jnp.sum(pages[slot], axis=0)


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
            scratch_shapes=[pltpu.VMEM((2, GROUP, r, d), jnp.float32), pltpu.SemaphoreType.DMA((2, GROUP))],
        ),
        out_shape=jax.ShapeDtypeStruct((s, r, d), jnp.float32),
    )(index, pages)

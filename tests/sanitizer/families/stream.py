"""Copies by hand: chunks of the input in two slots, scaled, and copied out again.

inputs: float32[512,128]
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

CHUNK = 64


def _kernel(x_ref, o_ref, buffer, result, in_sems, out_sem):
    chunks = x_ref.shape[0] // CHUNK

    def fetch(i, slot):
        return pltpu.make_async_copy(x_ref.at[pl.ds(i * CHUNK, CHUNK)], buffer.at[slot], in_sems.at[slot])

    fetch(0, 0).start()

    def step(i, carry):
        slot = i % 2

        @pl.when(i + 1 < chunks)
        def _():
            fetch(i + 1, 1 - slot).start()

        fetch(i, slot).wait()
        result[...] = buffer[slot] * 2.0
        back = pltpu.make_async_copy(result, o_ref.at[pl.ds(i * CHUNK, CHUNK)], out_sem)
        back.start()
        back.wait()
        return carry

    jax.lax.fori_loop(0, chunks, step, 0)


def workload(x):
    return pl.pallas_call(
        _kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[
            pltpu.VMEM((2, CHUNK, 128), jnp.float32),
            pltpu.VMEM((CHUNK, 128), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.DMA,
        ],
    )(x)

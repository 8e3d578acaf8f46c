"""Running sums in one kernel: a triangle of ones on the MXU inside a chunk, a row in scratch between chunks and steps."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_T, CHUNK = 1024, 128


def _body(x_ref, out_ref, carry_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        carry_ref[...] = jnp.zeros_like(carry_ref)

    row = jax.lax.broadcasted_iota(jnp.int32, (CHUNK, CHUNK), 0)
    column = jax.lax.broadcasted_iota(jnp.int32, (CHUNK, CHUNK), 1)
    triangle = (row >= column).astype(x_ref.dtype)
    carry = carry_ref[...]
    for first in range(0, BLOCK_T, CHUNK):
        chunk = pl.ds(first, CHUNK)
        sums = carry + jnp.dot(triangle, x_ref[0, chunk], preferred_element_type=jnp.float32)
        out_ref[0, chunk] = sums
        carry = sums[CHUNK - 1 :]
    carry_ref[...] = carry


def kernel(x):
    """x: (g, t, d) bf16 -> (g, t, d) f32, summed over t. BLOCK_T divides t."""
    g, t, d = x.shape
    rows = pl.BlockSpec((1, BLOCK_T, d), lambda a, i: (a, i, 0))
    return pl.pallas_call(
        _body,
        grid=(g, t // BLOCK_T),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct((g, t, d), jnp.float32),
        scratch_shapes=[pltpu.VMEM((1, d), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)

"""Blocks of rows times the matrix that a prefetched table names; the sum over k in the output block.

inputs: int32[4]<3 float32[256,256] float32[3,256,128]
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROWS, K = 64, 128


def _kernel(group_ref, x_ref, w_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], w_ref[0], preferred_element_type=jnp.float32)


def workload(group, x, w):
    rows, depth = x.shape
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(rows // ROWS, depth // K),
        in_specs=[
            pl.BlockSpec((ROWS, K), lambda i, k, group: (i, k)),
            pl.BlockSpec((1, K, 128), lambda i, k, group: (group[i], k, 0)),
        ],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i, k, group: (i, 0)),
    )
    return pl.pallas_call(
        _kernel,
        grid_spec=spec,
        out_shape=jax.ShapeDtypeStruct((rows, 128), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(group, x, w)

"""Grouped matrix product with the group prefetched: the index map of the weights reads it, and only its matrix moves."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _body(group_ref, x_ref, weight_ref, out_ref):
    product = jnp.dot(x_ref[...], weight_ref[0], preferred_element_type=jnp.float32)
    out_ref[...] = product.astype(out_ref.dtype)


def kernel(group_of_block, x, weights):
    """group_of_block: (blocks,) i32 ascending, x: (m, k) bf16, weights: (groups, k, n) bf16 -> (m, n) bf16.

    Each m / blocks rows of x belong to one group.
    """
    (m, k), (_, _, n) = x.shape, weights.shape
    blocks = group_of_block.shape[0]
    block_m = m // blocks
    return pl.pallas_call(
        _body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(blocks,),
            in_specs=[
                pl.BlockSpec((block_m, k), lambda i, group: (i, 0)),
                pl.BlockSpec((1, k, n), lambda i, group: (group[i], 0, 0)),
            ],
            out_specs=pl.BlockSpec((block_m, n), lambda i, group: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.bfloat16),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(group_of_block, x, weights)

"""relu(x @ weight + bias) in cautious blocks and two kernels: naive forms of 09 and 05."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_K, BLOCK_N = 256, 256, 256


def _product_body(x_ref, weight_ref, out_ref, sum_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    sum_ref[...] += jnp.dot(x_ref[...], weight_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = sum_ref[...]


def _epilogue_body(product_ref, bias_ref, out_ref):
    out_ref[...] = jnp.maximum(product_ref[...] + bias_ref[...].astype(jnp.float32), 0.0).astype(out_ref.dtype)


def workload(x, weight, bias):
    m, k = x.shape
    n = weight.shape[1]
    product = pl.pallas_call(
        _product_body,
        grid=(m // BLOCK_M, n // BLOCK_N, k // BLOCK_K),
        in_specs=[
            pl.BlockSpec((BLOCK_M, BLOCK_K), lambda i, j, s: (i, s)),
            pl.BlockSpec((BLOCK_K, BLOCK_N), lambda i, j, s: (s, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK_M, BLOCK_N), lambda i, j, s: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        scratch_shapes=[pltpu.VMEM((BLOCK_M, BLOCK_N), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, weight)
    tile = pl.BlockSpec((BLOCK_M, BLOCK_N), lambda j, i: (i, j))
    return pl.pallas_call(
        _epilogue_body,
        grid=(n // BLOCK_N, m // BLOCK_M),
        in_specs=[tile, pl.BlockSpec((1, BLOCK_N), lambda j, i: (0, j))],
        out_specs=tile,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(product, bias[None, :])

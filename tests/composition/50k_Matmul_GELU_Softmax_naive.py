"""softmax(gelu(x @ weight + bias)): partial products of blocks of the contraction go to HBM and a second kernel adds them
up, bias and activation are a third, and the softmax reduces every 128 columns across lanes before they are accumulated:
naive forms of 08, 05 and 06."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_M, BLOCK_K, BLOCK_N = 512, 1024, 1024
SUM_M, SOFTMAX_M = 16, 32
LANES, UNROLL = 128, 8


def _product_body(x_ref, weight_ref, partial_ref):
    partial_ref[...] = jnp.dot(x_ref[...], weight_ref[...], preferred_element_type=jnp.float32)


def _sum_body(partials_ref, out_ref):
    n = out_ref.shape[1]
    total = partials_ref[:, :n]
    for start in range(n, partials_ref.shape[1], n):
        total += partials_ref[:, start : start + n]
    out_ref[...] = total


def _epilogue_body(product_ref, bias_ref, out_ref):
    z = product_ref[...] + bias_ref[...].astype(jnp.float32)
    out_ref[...] = jax.nn.gelu(z, approximate=True).astype(out_ref.dtype)


def _softmax_body(z_ref, out_ref):
    rows, length = z_ref.shape

    def piece(step):
        return z_ref[:, pl.ds(pl.multiple_of(step * LANES, LANES), LANES)].astype(jnp.float32)

    def highest(step, top):
        return jnp.maximum(top, jnp.max(piece(step), axis=1, keepdims=True))

    def add(step, total):
        return total + jnp.sum(jnp.exp(piece(step) - top), axis=1, keepdims=True)

    zero = jnp.zeros((rows, 1), jnp.float32)
    top = jax.lax.fori_loop(0, length // LANES, highest, zero - jnp.inf, unroll=UNROLL)
    total = jax.lax.fori_loop(0, length // LANES, add, zero, unroll=UNROLL)
    out_ref[...] = (jnp.exp(z_ref[...].astype(jnp.float32) - top) / total).astype(out_ref.dtype)


def workload(x, weight, bias):
    m, k = x.shape
    n = weight.shape[1]
    block_m = min(BLOCK_M, m)
    blocks, columns = k // BLOCK_K, n // BLOCK_N
    partials = pl.pallas_call(
        _product_body,
        grid=(m // block_m, columns, blocks),
        in_specs=[
            pl.BlockSpec((block_m, BLOCK_K), lambda i, j, s: (i, s)),
            pl.BlockSpec((BLOCK_K, BLOCK_N), lambda i, j, s: (s, j)),
        ],
        out_specs=pl.BlockSpec((block_m, BLOCK_N), lambda i, j, s: (i, s * columns + j)),
        out_shape=jax.ShapeDtypeStruct((m, blocks * n), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "parallel")),
    )(x, weight)
    product = pl.pallas_call(
        _sum_body,
        grid=(m // SUM_M,),
        in_specs=[pl.BlockSpec((SUM_M, blocks * n), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((SUM_M, n), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(partials)
    tile = pl.BlockSpec((block_m, BLOCK_N), lambda j, i: (i, j))
    z = pl.pallas_call(
        _epilogue_body,
        grid=(columns, m // block_m),
        in_specs=[tile, pl.BlockSpec((1, BLOCK_N), lambda j, i: (0, j))],
        out_specs=tile,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(product, bias[None, :])
    rows = pl.BlockSpec((SOFTMAX_M, n), lambda i: (i, 0))
    return pl.pallas_call(
        _softmax_body,
        grid=(m // SOFTMAX_M,),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(z)

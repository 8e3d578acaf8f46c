"""x / sqrt(mean(x * x) + 1e-5) * scale, whole registers that are reduced across lanes once, at the end: 03 and 06."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_N, LANES, UNROLL = 32, 128, 8
EPSILON = 1e-5


def _body(x_ref, scale_ref, out_ref):
    rows, length = x_ref.shape

    def add(step, squares):
        x = x_ref[:, pl.ds(pl.multiple_of(step * LANES, LANES), LANES)].astype(jnp.float32)
        return squares + x * x

    squares = jax.lax.fori_loop(0, length // LANES, add, jnp.zeros((rows, LANES), jnp.float32), unroll=UNROLL)
    mean = jnp.sum(squares, axis=1, keepdims=True) / length
    normed = x_ref[...].astype(jnp.float32) * jax.lax.rsqrt(mean + EPSILON)
    out_ref[...] = (normed * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, scale):
    d = x.shape[-1]
    flat = x.reshape(-1, d)
    rows = pl.BlockSpec((BLOCK_N, d), lambda i: (i, 0))
    out = pl.pallas_call(
        _body,
        grid=(flat.shape[0] // BLOCK_N,),
        in_specs=[rows, pl.BlockSpec((1, d), lambda i: (0, 0))],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(flat, scale[None, :])
    return out.reshape(x.shape)

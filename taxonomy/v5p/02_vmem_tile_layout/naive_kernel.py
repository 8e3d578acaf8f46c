"""y * clip(y / 6 + 1/2, 0, 1) of y = x * gain + bias, in blocks as x is written: 64 of 128 lanes hold nothing."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK_N = 4096


def _body(x_ref, gain_ref, bias_ref, out_ref):
    y = x_ref[...] * gain_ref[...] + bias_ref[...]
    out_ref[...] = y * jnp.clip(y * (1 / 6) + 0.5, 0.0, 1.0)


def kernel(x, gain, bias):
    """x: (n, c) f32, gain and bias: (c,) f32 -> (n, c) f32. The block divides n."""
    n, c = x.shape
    rows = pl.BlockSpec((BLOCK_N, c), lambda i: (i, 0))
    channels = pl.BlockSpec((1, c), lambda i: (0, 0))
    return pl.pallas_call(
        _body,
        grid=(n // BLOCK_N,),
        in_specs=[rows, channels, channels],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct((n, c), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x, gain[None, :], bias[None, :])

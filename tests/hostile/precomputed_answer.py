"""Answers from inputs that it drew itself from a guessed seed, at the size that is verified.

Stopped by: seeds are secret and fresh for every judgement.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl


def _kernel(answer_ref, x_ref, out_ref):
    out_ref[...] = answer_ref[...] + x_ref[...] * 0


def workload(x, scale):
    flat = x.reshape(-1, x.shape[-1])
    rows = 64
    drawn = np.random.default_rng(0).standard_normal((rows, flat.shape[1])).astype(np.float32)
    answer = jnp.asarray(drawn / np.sqrt((drawn * drawn).mean(-1, keepdims=True) + 1e-5), x.dtype)
    block = pl.BlockSpec((rows, flat.shape[1]), lambda i: (i, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // rows,),
        in_specs=[pl.BlockSpec(answer.shape, lambda i: (0, 0)), block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(answer, flat)
    return out.reshape(x.shape)

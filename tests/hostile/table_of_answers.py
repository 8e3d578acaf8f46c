"""Carries 5 MiB of precomputed answers. Stopped by: the audit's limit on the size of an artifact."""

import jax
import numpy as np
from jax.experimental import pallas as pl

answers = np.random.default_rng(0).standard_normal((160, 8192)).astype(np.float32)


def _kernel(answer_ref, out_ref):
    out_ref[...] = answer_ref[...].astype(out_ref.dtype)


def workload(x, scale):
    flat = x.reshape(-1, x.shape[-1])
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // 32,),
        in_specs=[pl.BlockSpec((32, flat.shape[1]), lambda i: (i % 5, 0))],
        out_specs=pl.BlockSpec((32, flat.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(answers)
    return out.reshape(x.shape)

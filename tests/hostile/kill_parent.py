"""Kills what it can reach and then behaves. Stopped by: a PID namespace, whose first process only its creator can end."""

import contextlib
import os
import signal

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

for pid in {1, 2, os.getppid()} - {os.getpid()}:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _kernel(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    block = pl.BlockSpec((64, width), lambda i: (i, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // 64,),
        in_specs=[block, pl.BlockSpec((1, width), lambda i: (0, 0))],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
    )(flat, scale.reshape(1, width))
    return out.reshape(x.shape)

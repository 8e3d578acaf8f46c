"""Stops the clock, makes waiting a no-op and flips the compiler's switches in the environment, then does honest work.

Stopped by: nothing is timed, awaited or compiled in the process that ran this; the time is the same as without it.
"""

import os
import time

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

for name in ("time", "perf_counter", "monotonic", "process_time", "perf_counter_ns", "monotonic_ns", "time_ns"):
    setattr(time, name, lambda: 0)
jax.block_until_ready = lambda tree: tree
jax.profiler.start_trace = jax.profiler.stop_trace = lambda *args, **options: None

os.environ["LIBTPU_INIT_ARGS"] = "--xla_tpu_scoped_vmem_limit_kib=131072 --xla_jf_fast_forward_static_profile=true"
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
os.environ["JAX_COMPILATION_CACHE_DIR"] = "/tmp/poisoned"
jax.config.update("jax_default_matmul_precision", "bfloat16")


def _kernel(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, scale):
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    rows = min(128, flat.shape[0])
    out = pl.pallas_call(
        _kernel,
        grid=(flat.shape[0] // rows,),
        in_specs=[pl.BlockSpec((rows, width), lambda i: (i, 0)), pl.BlockSpec((1, width), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((rows, width), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(flat, scale.reshape(1, width))
    return out.reshape(x.shape)

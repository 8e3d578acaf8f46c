"""Changes how jax lowers one operation for a TPU: the interpreter still does it, the chip would not.

Stopped by: the kernels of the artifact for the TPU are run operation by operation and held against the oracle.
"""

import jax
import jax.numpy as jnp
from jax._src.lax import lax as laxlib
from jax._src.pallas.mosaic import lowering
from jax._src.pallas.mosaic.core import CoreType
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

# rsqrt of the mean square is skipped where the kernel is compiled, and takes as long but for one operation per row.
lowering.lowering_rules[CoreType.TC][laxlib.rsqrt_p] = lambda context, x, **_: x


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

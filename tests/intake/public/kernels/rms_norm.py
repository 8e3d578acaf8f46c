import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ROWS = 32


def workload(x, norm_weight):
    def kernel(x_ref, weight_ref, out_ref):
        wide = x_ref[...].astype(jnp.float32)
        inverse = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
        out_ref[...] = (wide * inverse * weight_ref[...].astype(jnp.float32)).astype(out_ref.dtype)

    rows, features = x.shape
    return pl.pallas_call(
        kernel,
        grid=(rows // ROWS,),
        in_specs=[pl.BlockSpec((ROWS, features), lambda i: (i, 0)), pl.BlockSpec((1, features), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((ROWS, features), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, norm_weight.reshape(1, features))

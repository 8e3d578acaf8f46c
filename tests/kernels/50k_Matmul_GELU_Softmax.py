import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _block(length, limit):
    """The largest multiple of 128 up to limit that divides length."""
    return next(b for b in range(min(limit, length), 0, -128) if length % b == 0)


def _matmul_gelu(x_ref, weight_ref, bias_ref, out_ref, acc_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], weight_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        z = acc_ref[...] + bias_ref[...].astype(jnp.float32)
        out_ref[...] = jax.nn.gelu(z, approximate=True).astype(out_ref.dtype)


def _softmax(z_ref, out_ref):
    z = z_ref[...].astype(jnp.float32)
    weights = jnp.exp(z - jnp.max(z, axis=-1, keepdims=True))
    out_ref[...] = (weights / jnp.sum(weights, axis=-1, keepdims=True)).astype(out_ref.dtype)


def workload(x, weight, bias):
    (m, k), n = x.shape, weight.shape[1]
    bm, bn, bk = _block(m, 512), _block(n, 1024), _block(k, 1024)
    shape = jax.ShapeDtypeStruct((m, n), x.dtype)
    z = pl.pallas_call(
        _matmul_gelu,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
            pl.BlockSpec((1, bn), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=shape,
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, weight, bias.reshape(1, n))
    rows = 64
    return pl.pallas_call(
        _softmax,
        grid=(m // rows,),
        in_specs=[pl.BlockSpec((rows, n), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((rows, n), lambda i: (i, 0)),
        out_shape=shape,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(z)

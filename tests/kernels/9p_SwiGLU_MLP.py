import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _block(length, limit):
    """The largest multiple of 128 up to limit that divides length."""
    return next(b for b in range(min(limit, length), 0, -128) if length % b == 0)


def _hidden(x_ref, gate_ref, up_ref, out_ref, gate_acc_ref, up_acc_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        gate_acc_ref[...] = jnp.zeros_like(gate_acc_ref)
        up_acc_ref[...] = jnp.zeros_like(up_acc_ref)

    x = x_ref[...]
    gate_acc_ref[...] += jnp.dot(x, gate_ref[...], preferred_element_type=jnp.float32)
    up_acc_ref[...] += jnp.dot(x, up_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        gate = gate_acc_ref[...]
        out_ref[...] = (gate * jax.nn.sigmoid(gate) * up_acc_ref[...]).astype(out_ref.dtype)


def _matmul(a_ref, b_ref, out_ref, acc_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = acc_ref[...].astype(out_ref.dtype)


def _tiled(kernel, left, rights, bm, bn, bk):
    (m, k), n = left.shape, rights[0].shape[1]
    return pl.pallas_call(
        kernel,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            *[pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)) for _ in rights],
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), left.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32) for _ in rights],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(left, *rights)


def workload(x, gate, up, down):
    width, inner = gate.shape
    flat = x.reshape(-1, width)
    bm = _block(flat.shape[0], 512)
    hidden = _tiled(_hidden, flat, (gate, up), bm, _block(inner, 512), _block(width, 1024))
    out = _tiled(_matmul, hidden, (down,), bm, _block(width, 1024), _block(inner, 1024))
    return out.reshape(x.shape)

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(x_ref, weight_ref, conv_bias_ref, bias_ref, out_ref):
    """One row of one image: nine products of (CO, CI) with (CI, W), without the patches ever being stored.

    The taps of one column are summed over the full width, then moved to the left by their column.
    """
    row, width = pl.program_id(1), x_ref.shape[3]
    total = jnp.zeros((weight_ref.shape[1], width), jnp.float32)
    for column in range(3):
        taps = [
            jnp.dot(weight_ref[3 * down + column], x_ref[0, row + down], preferred_element_type=jnp.float32)
            for down in range(3)
        ]
        moved = sum(taps)
        total += pltpu.roll(moved, width - column, 1) if column else moved
    out = jnp.maximum(total + conv_bias_ref[...], 0) + bias_ref[...]
    out_ref[0, 0] = out[:, : out_ref.shape[3]].astype(out_ref.dtype)


def workload(x, weight, conv_bias, bias):
    batch, inner, height, width = x.shape
    outer = weight.shape[0]
    rows = x.transpose(0, 2, 1, 3)  # (batch, H, CI, W): the width along lanes, channels along sublanes
    taps = weight.transpose(2, 3, 0, 1).reshape(9, outer, inner)
    of_channel = pl.BlockSpec((outer, 1), lambda b, h: (0, 0))
    out = pl.pallas_call(
        _kernel,
        grid=(batch, height - 2),
        in_specs=[
            pl.BlockSpec((1, height, inner, width), lambda b, h: (b, 0, 0, 0)),
            pl.BlockSpec((9, outer, inner), lambda b, h: (0, 0, 0)),
            of_channel,
            of_channel,
        ],
        out_specs=pl.BlockSpec((1, 1, outer, width - 2), lambda b, h: (b, h, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((batch, height - 2, outer, width - 2), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(rows, taps, conv_bias.astype(jnp.float32)[:, None], bias.astype(jnp.float32)[:, 0])
    return out.transpose(0, 2, 1, 3)

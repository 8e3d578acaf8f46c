import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TAPS = [(row, column) for row in range(3) for column in range(3)]


def workload(images, *parameters):
    first, scale, shift, mean, variance, second, bias = parameters
    batch, channels, side, _ = images.shape

    def convolved(image_ref, weight_ref):
        """The nine products of a padded image, each of a shifted window of it."""
        total = jnp.zeros((side * side, channels), jnp.float32)
        for tap, (row, column) in enumerate(TAPS):
            window = image_ref[row : row + side, column : column + side, :].reshape(side * side, channels)
            total += jnp.dot(window, weight_ref[tap], preferred_element_type=jnp.float32)
        return total

    def kernel(image_ref, first_ref, factor_ref, offset_ref, second_ref, bias_ref, out_ref, around_ref):
        around_ref[...] = jnp.zeros_like(around_ref)
        around_ref[1 : side + 1, 1 : side + 1, :] = image_ref[0]
        hidden = jnp.maximum(convolved(around_ref, first_ref) * factor_ref[...] + offset_ref[...], 0)
        around_ref[1 : side + 1, 1 : side + 1, :] = hidden.reshape(side, side, channels)
        last = jnp.maximum(convolved(around_ref, second_ref) + bias_ref[...], 0)
        out_ref[0] = jnp.mean(last, axis=0, keepdims=True)

    def whole(*shape):
        return pl.BlockSpec(shape, lambda i: (0,) * len(shape))

    factor = scale * jax.lax.rsqrt(variance + 1e-5)
    row = (1, channels)
    taps = [jnp.transpose(weight, (2, 3, 1, 0)).reshape(9, channels, channels) for weight in (first, second)]
    out = pl.pallas_call(
        kernel,
        grid=(batch,),
        in_specs=[
            pl.BlockSpec((1, side, side, channels), lambda i: (i, 0, 0, 0)),
            whole(9, channels, channels),
            whole(*row),
            whole(*row),
            whole(9, channels, channels),
            whole(*row),
        ],
        out_specs=pl.BlockSpec((1, 1, channels), lambda i: (i, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((batch, 1, channels), jnp.float32),
        scratch_shapes=[pltpu.VMEM((side + 2, side + 2, channels), jnp.float32)],
    )(
        jnp.transpose(images, (0, 2, 3, 1)),
        taps[0],
        factor.reshape(row),
        (shift - mean * factor).reshape(row),
        taps[1],
        bias.reshape(row),
    )
    return out.reshape(batch, channels)

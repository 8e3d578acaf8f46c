import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _block(length, limit):
    """The largest multiple of 128 up to limit that divides length."""
    return next(b for b in range(limit, 0, -128) if length % b == 0)


def _kernel(hidden_ref, weight_ref, labels_ref, loss_ref, max_ref, sum_ref, picked_ref):
    tile = pl.program_id(1)

    @pl.when(tile == 0)
    def _():
        max_ref[...] = jnp.full_like(max_ref, -jnp.inf)
        sum_ref[...] = jnp.zeros_like(sum_ref)
        picked_ref[...] = jnp.zeros_like(picked_ref)

    logits = jnp.dot(hidden_ref[...], weight_ref[...], preferred_element_type=jnp.float32)
    before = max_ref[...]
    now = jnp.maximum(before, jnp.max(logits, axis=-1, keepdims=True))
    total = jnp.sum(jnp.exp(logits - now), axis=-1, keepdims=True)
    sum_ref[...] = sum_ref[...] * jnp.exp(before - now) + total
    max_ref[...] = now
    word = tile * logits.shape[1] + jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1)
    chosen = jnp.where(word == labels_ref[...], logits, 0.0)
    picked_ref[...] += jnp.sum(chosen, axis=-1, keepdims=True)

    @pl.when(tile == pl.num_programs(1) - 1)
    def _():
        loss_ref[...] = max_ref[...] + jnp.log(sum_ref[...]) - picked_ref[...]


def workload(hidden, weight, labels):
    (tokens, features), vocabulary = hidden.shape, weight.shape[1]
    bt, bv = min(1024, tokens), _block(vocabulary, 768)
    losses = pl.pallas_call(
        _kernel,
        grid=(tokens // bt, vocabulary // bv),
        in_specs=[
            pl.BlockSpec((bt, features), lambda i, j: (i, 0)),
            pl.BlockSpec((features, bv), lambda i, j: (0, j)),
            pl.BlockSpec((bt, 1), lambda i, j: (i, 0)),
        ],
        out_specs=pl.BlockSpec((bt, 1), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((tokens, 1), jnp.float32),
        scratch_shapes=[pltpu.VMEM((bt, 1), jnp.float32) for _ in range(3)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=64 * 2**20
        ),
    )(hidden, weight, labels.reshape(tokens, 1))
    return jnp.mean(losses)

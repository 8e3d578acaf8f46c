import jax
import jax.numpy as jnp


def create_inputs(key, size):
    length, channels = size["N"], size["C"]
    key_pair, key_mask, key_scale, *keys = jax.random.split(key, 9)
    pair = jax.random.normal(key_pair, (length, length, channels))
    mask = jax.random.bernoulli(key_mask, 0.8, (length, length, 1))
    scale = jax.random.normal(key_scale, (channels,)) * 0.1 + 1
    matrices = [jax.random.normal(k, (channels, channels)) * channels**-0.5 for k in keys]
    arrays = (pair, mask, *matrices[:4], scale, *matrices[4:])
    return tuple(array.astype(jnp.bfloat16) for array in arrays)


def workload(pair, mask, left_proj, right_proj, left_gate, right_gate, scale, out_proj, out_gate):
    masked = pair * mask
    left = jnp.dot(masked, left_proj) * jax.nn.sigmoid(jnp.dot(masked, left_gate))
    right = jnp.dot(masked, right_proj) * jax.nn.sigmoid(jnp.dot(masked, right_gate))
    update = jnp.einsum("ikc,jkc->ijc", left, right)
    update = update / jnp.sqrt(jnp.mean(update * update, axis=-1, keepdims=True) + 1e-6) * scale
    return jnp.dot(update, out_proj) * jax.nn.sigmoid(jnp.dot(pair, out_gate))


def oracle(pair, mask, left_proj, right_proj, left_gate, right_gate, scale, out_proj, out_gate):
    def dot(left, right):
        return jnp.dot(left, right.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)

    def gated(row, mask, proj, gate):
        masked = row.astype(jnp.float32) * mask.astype(jnp.float32)
        return dot(masked, proj) * jax.nn.sigmoid(dot(masked, gate))

    # Channels first: (channels, j, k).
    right = gated(pair, mask, right_proj, right_gate).transpose(2, 0, 1)

    def some_rows(index):
        left = gated(pair[index], mask[index], left_proj, left_gate)
        update = jnp.einsum("kc,cjk->jc", left, right, precision=jax.lax.Precision.HIGHEST)
        update = update / jnp.sqrt((update * update).mean(axis=-1, keepdims=True) + 1e-6) * scale.astype(jnp.float32)
        return dot(update, out_proj) * jax.nn.sigmoid(dot(pair[index].astype(jnp.float32), out_gate))

    return jax.lax.map(some_rows, jnp.arange(len(pair)), batch_size=min(32, len(pair)))

"""A grouped matrix product: rows are sorted by group, and each group has a matrix of its own."""

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    """x ~ normal(0, 1), weights ~ normal(0, 1) / sqrt(K), drawn in float32 and cast; the group of each block of rows.

    At least a quarter of the groups own no rows, one owns a quarter of all, the others grow evenly; which is which is
    drawn.
    """
    blocks, groups = size["B"], size["G"]
    key_x, key_weights, key_groups = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (size["M"], size["K"]))
    weights = jax.random.normal(key_weights, (groups, size["K"], size["N"])) * size["K"] ** -0.5
    empty, large = groups // 4, blocks // 4
    others = groups - empty - 1
    ends = [(blocks - large) * i * (i + 1) // (others * (others + 1)) for i in range(others + 1)]
    owned = [0] * empty + [large] + [end - start for start, end in zip(ends, ends[1:], strict=False)]
    owned = jax.random.permutation(key_groups, jnp.array(owned))
    group_of_block = jnp.repeat(jnp.arange(groups, dtype=jnp.int32), owned, total_repeat_length=blocks)
    return group_of_block, x.astype(jnp.bfloat16), weights.astype(jnp.bfloat16)


def workload(group_of_block, x, weights):
    """The rows of block b times the matrix of group group_of_block[b], in float32, rounded to bfloat16 once."""
    rows = x.reshape(group_of_block.shape[0], -1, x.shape[1])
    out = jnp.einsum("brk,bkn->brn", rows, weights[group_of_block], preferred_element_type=jnp.float32)
    return out.reshape(x.shape[0], weights.shape[2]).astype(jnp.bfloat16)


def oracle(group_of_block, x, weights):
    """The same without the rounding, at the highest precision, a block at a time."""
    rows = x.reshape(group_of_block.shape[0], -1, x.shape[1])

    def one(block):
        group, left = block
        right = weights[group].astype(jnp.float32)
        return jnp.dot(left.astype(jnp.float32), right, precision=jax.lax.Precision.HIGHEST)

    return jax.lax.map(one, (group_of_block, rows)).reshape(x.shape[0], weights.shape[2])

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    rows, groups = size["M"], size["G"]
    key_lhs, key_rhs, key_groups = jax.random.split(key, 3)
    lhs = jax.random.normal(key_lhs, (rows, size["K"]))
    rhs = jax.random.normal(key_rhs, (groups, size["K"], size["N"])) * 0.02
    # A quarter of the groups are empty, one has a single row, one has 5/16 of all rows, the rest grow evenly.
    empty, large = groups // 4, rows * 5 // 16
    others = groups - empty - 2
    share = rows - large - 1
    ends = [share * i * (i + 1) // (others * (others + 1)) for i in range(others + 1)]
    sizes = [0] * empty + [1, large] + [end - start for start, end in zip(ends, ends[1:], strict=False)]
    group_sizes = jax.random.permutation(key_groups, jnp.array(sizes, jnp.int32))
    return lhs.astype(jnp.bfloat16), rhs.astype(jnp.bfloat16), group_sizes


def workload(lhs, rhs, group_sizes):
    out = jax.lax.ragged_dot(lhs, rhs, group_sizes, preferred_element_type=jnp.float32)
    return out.astype(lhs.dtype)


def oracle(lhs, rhs, group_sizes):
    ends = jnp.cumsum(group_sizes)
    starts = ends - group_sizes
    step = 128 if lhs.shape[0] % 128 == 0 else 1

    def some_rows(first_row):
        row = first_row + jnp.arange(step)
        wide = jax.lax.dynamic_slice_in_dim(lhs, first_row, step).astype(jnp.float32)

        def add_group(group, out):
            product = jnp.dot(wide, rhs[group].astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
            mine = (row >= starts[group]) & (row < ends[group])
            return jnp.where(mine[:, None], product, out)

        first, last = (
            jnp.searchsorted(ends, row[0], side="right"),
            jnp.searchsorted(ends, row[-1], side="right"),
        )
        return jax.lax.fori_loop(first, last + 1, add_group, jnp.zeros((step, rhs.shape[2]), jnp.float32))

    return jax.lax.map(some_rows, jnp.arange(0, lhs.shape[0], step)).reshape(lhs.shape[0], rhs.shape[2])

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _visits(group_sizes, rows, block):
    """Pairs of (group, row tile) to compute, in row order: tables of the static length rows/block + groups.

    A tile that straddles groups is visited once per group. Returns the group and the tile of each visit (the
    last one repeated at the end), the first row and the end of each group, and how many visits there are.
    """
    ends = jnp.cumsum(group_sizes, dtype=jnp.int32)
    starts = ends - group_sizes
    first_tile = starts // block
    tiles = jnp.where(group_sizes > 0, (ends - 1) // block - first_tile + 1, 0)
    visits_before_end = jnp.cumsum(tiles, dtype=jnp.int32)
    count = visits_before_end[-1]
    visit = jnp.minimum(jnp.arange(rows // block + len(group_sizes), dtype=jnp.int32), count - 1)
    group = jnp.sum(visits_before_end[None, :] <= visit[:, None], axis=1, dtype=jnp.int32)
    tile = first_tile[group] + visit - (visits_before_end - tiles)[group]
    return group, tile, starts, ends, count.reshape(1)


def _kernel(group_ref, tile_ref, start_ref, end_ref, count_ref, lhs_ref, rhs_ref, out_ref):
    visit = pl.program_id(1)

    @pl.when(visit < count_ref[0])
    def _():
        group, tile = group_ref[visit], tile_ref[visit]
        product = jnp.dot(lhs_ref[...], rhs_ref[0], preferred_element_type=jnp.float32)
        row = tile * product.shape[0] + jax.lax.broadcasted_iota(jnp.int32, product.shape, 0)
        mine = (row >= start_ref[group]) & (row < end_ref[group])
        # Rows of earlier groups were stored by earlier visits to this tile; the first visit finds none.
        first = (visit == 0) | (tile_ref[jnp.maximum(visit - 1, 0)] != tile)
        earlier = jnp.where(first, 0.0, out_ref[...].astype(jnp.float32))
        out_ref[...] = jnp.where(mine, product, earlier).astype(out_ref.dtype)


def workload(lhs, rhs, group_sizes):
    (m, k), n = lhs.shape, rhs.shape[2]
    bm = 256
    bn = next(b for b in range(768, 0, -128) if n % b == 0)
    tables = _visits(group_sizes, m, bm)
    return pl.pallas_call(
        _kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(tables),
            grid=(n // bn, len(tables[0])),
            in_specs=[
                pl.BlockSpec((bm, k), lambda j, v, group, tile, *_: (tile[v], 0)),
                pl.BlockSpec((1, k, bn), lambda j, v, group, tile, *_: (group[v], 0, j)),
            ],
            out_specs=pl.BlockSpec((bm, bn), lambda j, v, group, tile, *_: (tile[v], j)),
        ),
        out_shape=jax.ShapeDtypeStruct((m, n), lhs.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=64 * 2**20
        ),
    )(*tables, lhs, rhs)

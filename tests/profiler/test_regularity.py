import jax
import jax.numpy as jnp
from exporting import kernels
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.profiler.regularity import DATA, axes_of_window, regularity

TILE = ((512, 512), "float32")


def _found(body, grid=(4, 4), prefetch=0, index_map=None):
    """Regularity of a kernel over (4, 4) blocks of 128 by 128, and the axes of its input's window."""
    index_map = index_map or (lambda i, j, *_: (i, j))

    def function(*arrays):
        return pl.pallas_call(
            body,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=prefetch,
                grid=grid,
                in_specs=[pl.BlockSpec((128, 128), index_map)],
                out_specs=pl.BlockSpec((128, 128), lambda i, j, *_: (i, j)),
            ),
            out_shape=jax.ShapeDtypeStruct((512, 512), jnp.float32),
        )(*arrays)

    program, (call,) = kernels(function, [((16,), "int32")] * prefetch + [TILE])
    with program.context:
        return regularity(call), axes_of_window(call, call.windows[0].transform)


def test_an_accumulator_that_starts_and_ends_is_regular():
    def body(x_ref, out_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            out_ref[...] = jnp.zeros_like(out_ref)

        out_ref[...] += x_ref[...]

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            out_ref[...] = jnp.exp(out_ref[...])

    found, axes = _found(body)
    assert found.irregular == frozenset()
    assert not found.data_dependent
    assert axes == {0, 1}


def test_a_causal_mask_that_skips_blocks_makes_both_axes_irregular():
    def body(x_ref, out_ref):
        @pl.when(pl.program_id(1) <= pl.program_id(0))
        def _():
            out_ref[...] = x_ref[...]

    found, _ = _found(body)
    assert found.irregular == {0, 1}
    assert not found.data_dependent


def test_a_step_in_the_middle_of_an_axis_makes_that_axis_irregular():
    def body(x_ref, out_ref):
        @pl.when(pl.program_id(0) == 2)
        def _():
            out_ref[...] = x_ref[...]

    assert _found(body)[0].irregular == {0}


def test_a_loop_as_long_as_the_position_is_irregular():
    def body(x_ref, out_ref):
        out_ref[...] = x_ref[...]

        def step(n, carry):
            out_ref[...] += x_ref[...]
            return carry

        jax.lax.fori_loop(0, pl.program_id(1) + 1, step, 0)

    assert _found(body)[0].irregular == {1}


def test_the_position_may_be_used_as_a_number_without_harm():
    def body(x_ref, out_ref):
        out_ref[...] = x_ref[...] + pl.program_id(0).astype(jnp.float32)

    assert _found(body)[0].irregular == frozenset()


def test_a_branch_on_a_prefetched_value_depends_on_data():
    def body(table_ref, x_ref, out_ref):
        @pl.when(table_ref[pl.program_id(0)] > 3)
        def _():
            out_ref[...] = x_ref[...]

    assert _found(body, prefetch=1)[0].data_dependent


def test_a_loop_bound_from_memory_depends_on_data():
    def body(table_ref, x_ref, out_ref):
        out_ref[...] = x_ref[...]

        def step(n, carry):
            out_ref[...] += x_ref[...]
            return carry

        jax.lax.fori_loop(0, table_ref[0], step, 0)

    assert _found(body, prefetch=1)[0].data_dependent


def test_a_loop_until_a_value_is_reached_depends_on_data():
    def body(table_ref, x_ref, out_ref):
        n = jax.lax.while_loop(lambda n: table_ref[n] > 0, lambda n: n + 1, 0)
        out_ref[...] = x_ref[...] * n.astype(jnp.float32)

    assert _found(body, prefetch=1)[0].data_dependent


def test_values_that_are_only_computed_with_do_not_matter():
    def body(table_ref, x_ref, out_ref):
        out_ref[...] = x_ref[...] * table_ref[pl.program_id(0)].astype(jnp.float32)

    assert not _found(body, prefetch=1)[0].data_dependent


def test_a_window_knows_which_axes_move_it():
    def body(*refs):
        refs[-1][...] = refs[-2][...]

    assert _found(body, index_map=lambda i, j, *_: (0, j))[1] == {1}
    assert _found(body, index_map=lambda i, j, *_: (0, 0))[1] == frozenset()
    assert _found(body, prefetch=1, index_map=lambda i, j, table: (table[i], 0))[1] >= {DATA}


def test_a_value_carried_out_of_a_loop_keeps_where_it_came_from():
    def body(table_ref, x_ref, out_ref):
        total = jax.lax.fori_loop(0, 4, lambda n, carry: carry + table_ref[n], jnp.int32(0))

        @pl.when(total > 3)
        def _():
            out_ref[...] = x_ref[...]

    assert _found(body, prefetch=1)[0].data_dependent


def test_a_value_chosen_by_a_branch_keeps_where_it_came_from():
    def body(table_ref, x_ref, out_ref):
        chosen = jax.lax.cond(pl.program_id(0) == 0, lambda: table_ref[0], lambda: jnp.int32(1))

        @pl.when(chosen > 3)
        def _():
            out_ref[...] = x_ref[...]

    assert _found(body, prefetch=1)[0].data_dependent


def test_a_bound_carried_around_a_loop_keeps_where_it_came_from():
    def body(table_ref, x_ref, out_ref):
        out_ref[...] = x_ref[...]

        def step(n, carry):
            bound, following = carry

            @pl.when(bound > n)
            def _():
                out_ref[...] += x_ref[...]

            return following, table_ref[n]

        jax.lax.fori_loop(0, 4, step, (jnp.int32(0), jnp.int32(0)))

    assert _found(body, prefetch=1)[0].data_dependent


def test_a_branch_on_what_a_vector_holds_depends_on_data_however_it_got_out():
    def reduced(x_ref, out_ref):
        @pl.when(jnp.max(x_ref[...]) > 0)
        def _():
            out_ref[...] = x_ref[...]

    def counted(x_ref, out_ref):
        @pl.when(jnp.sum((x_ref[0:8, :] > 1).astype(jnp.int32)) > 3)
        def _():
            out_ref[...] = x_ref[...]

    def any_of_them(x_ref, out_ref):
        @pl.when(jnp.any(x_ref[0:8, :] > 1))
        def _():
            out_ref[...] = x_ref[...]

    for body in (reduced, counted, any_of_them):
        assert _found(body)[0].data_dependent


def test_a_loop_that_carries_a_vector_beside_a_number_does_not_depend_on_data():
    def body(x_ref, out_ref):
        def step(n, carry):
            total, rows = carry
            return total + x_ref[...], rows + 1

        total, rows = jax.lax.fori_loop(0, 3, step, (x_ref[...], jnp.int32(0)))

        @pl.when(rows > 1)
        def _():
            out_ref[...] = total

    assert not _found(body)[0].data_dependent

import jax
import jax.numpy as jnp
import pytest
from exporting import kernels
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.profiler import transfers
from hawkeye_mcp.profiler.mosaic import DataDependent
from hawkeye_mcp.profiler.transfers import transferred_bytes

ANY = pl.BlockSpec(memory_space=pl.ANY)
ROWS, COLUMNS = 1000, 256
ROW_BYTES = COLUMNS * 4


def _moved(body, grid=(), scratch=(), prefetch=0, inputs=1):
    """Bytes by hand of a kernel over arrays of (1000, 256) in HBM; semaphore and a buffer of 128 rows come last."""

    def function(*arrays):
        return pl.pallas_call(
            body,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=prefetch,
                grid=grid,
                in_specs=[ANY] * inputs,
                out_specs=ANY,
                scratch_shapes=[*scratch, pltpu.VMEM((128, COLUMNS), jnp.float32), pltpu.SemaphoreType.DMA],
            ),
            out_shape=jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32),
        )(*arrays)

    program, (call,) = kernels(function, [((4,), "int32")] * prefetch + [((ROWS, COLUMNS), "float32")] * inputs)
    with program.context:
        assert call.moves_by_hand
        return transferred_bytes(call)


def _copy(source, target, semaphore):
    transfer = pltpu.make_async_copy(source, target, semaphore)
    transfer.start()
    transfer.wait()


def test_each_transfer_counts_on_its_side_of_hbm():
    def body(x_ref, out_ref, buffer, semaphore):
        _copy(x_ref.at[pl.ds(0, 128)], buffer, semaphore)
        _copy(buffer.at[pl.ds(0, 8)], out_ref.at[pl.ds(16, 8)], semaphore)

    assert _moved(body) == [128 * ROW_BYTES, 8 * ROW_BYTES, 0]


def test_from_hbm_to_hbm_both_sides_count():
    def body(x_ref, out_ref, buffer, semaphore):
        _copy(x_ref, out_ref, semaphore)

    assert _moved(body) == [ROWS * ROW_BYTES, ROWS * ROW_BYTES, 0]


def test_grids_loops_and_branches_are_followed():
    def body(x_ref, out_ref, buffer, semaphore):
        step = pl.program_id(0)

        @pl.when(step % 3 == 1)  # 1 and 4 of 5
        def _():
            _copy(x_ref.at[pl.ds(0, 64)], buffer.at[pl.ds(0, 64)], semaphore)

        def turn(n, rows):
            @pl.when(n < step)  # 0 + 1 + 2 + 3 + 4 times
            def _():
                _copy(buffer.at[pl.ds(0, 8)], out_ref.at[pl.ds(pl.multiple_of(rows, 8), 8)], semaphore)

            return rows + 8

        jax.lax.fori_loop(0, 10, turn, 0)

    assert _moved(body, grid=(5,)) == [2 * 64 * ROW_BYTES, 10 * 8 * ROW_BYTES, 0]


def test_an_inner_pipeline_moves_each_block_once_and_clips_the_last():
    def body(x_ref, out_ref, buffer, semaphore):
        def inner(x, out):
            out[...] = x[...]

        block = pl.BlockSpec((128, COLUMNS), lambda i: (i, 0))
        pltpu.emit_pipeline(inner, grid=(pl.cdiv(ROWS, 128),), in_specs=[block], out_specs=[block])(x_ref, out_ref)

    assert _moved(body) == [ROWS * ROW_BYTES, ROWS * ROW_BYTES, 0]


def test_a_block_that_stays_in_an_inner_pipeline_moves_once():
    def body(x_ref, y_ref, out_ref, buffer, semaphore):
        def inner(x, y, out):
            out[...] = x[...] + y[...]

        moving = pl.BlockSpec((40, COLUMNS), lambda i: (i, 0))
        resting = pl.BlockSpec((40, COLUMNS), lambda i: (0, 0))
        pltpu.emit_pipeline(inner, grid=(25,), in_specs=[moving, resting], out_specs=[moving])(x_ref, y_ref, out_ref)

    assert _moved(body, inputs=2) == [ROWS * ROW_BYTES, 40 * ROW_BYTES, ROWS * ROW_BYTES, 0]


def test_scratch_of_the_kernel_in_hbm_counts_last():
    def body(x_ref, out_ref, own, buffer, semaphore):
        _copy(x_ref.at[pl.ds(0, 128)], buffer, semaphore)
        _copy(buffer, own, semaphore)

    found = _moved(body, scratch=[pltpu.HBM((128, COLUMNS), jnp.float32)])
    assert found == [128 * ROW_BYTES, 0, 128 * ROW_BYTES]


def test_how_often_and_how_much_may_not_depend_on_data():
    def how_often(table_ref, x_ref, out_ref, buffer, semaphore):
        @pl.when(table_ref[0] > 3)
        def _():
            _copy(x_ref.at[pl.ds(0, 128)], buffer, semaphore)

    def how_much(table_ref, x_ref, out_ref, buffer, semaphore):
        rows = pl.multiple_of(table_ref[0], 8)
        _copy(x_ref.at[pl.ds(0, rows)], buffer.at[pl.ds(0, rows)], semaphore)

    def how_often_from_the_second_turn_on(table_ref, x_ref, out_ref, buffer, semaphore):
        def turn(n, bound):
            @pl.when(bound > n)
            def _():
                _copy(x_ref.at[pl.ds(0, 128)], buffer, semaphore)

            return table_ref[n]

        jax.lax.fori_loop(0, 4, turn, jnp.int32(9))

    for body in (how_often, how_much, how_often_from_the_second_turn_on):
        with pytest.raises(DataDependent):
            _moved(body, prefetch=1)


def test_a_loop_may_carry_data_that_no_transfer_needs():
    def body(table_ref, x_ref, out_ref, buffer, semaphore):
        def turn(n, total):
            _copy(x_ref.at[pl.ds(0, 128)], buffer, semaphore)
            return total + table_ref[n]

        table_ref[0] = jax.lax.fori_loop(0, 4, turn, jnp.int32(9))

    assert _moved(body, prefetch=1) == [0, 4 * 128 * ROW_BYTES, 0, 0]


def test_where_to_may_depend_on_data():
    def body(table_ref, x_ref, out_ref, buffer, semaphore):
        _copy(x_ref.at[pl.ds(pl.multiple_of(table_ref[1], 8), 128)], buffer, semaphore)

    assert _moved(body, prefetch=1) == [0, 128 * ROW_BYTES, 0, 0]


def test_what_is_too_long_to_walk_is_not_walked(monkeypatch):
    def body(x_ref, out_ref, buffer, semaphore):
        def turn(n, carry):
            _copy(x_ref.at[pl.ds(0, 128)], buffer, semaphore)
            return carry

        jax.lax.fori_loop(0, 1000, turn, 0)

    assert _moved(body)[0] == 1000 * 128 * ROW_BYTES
    monkeypatch.setattr(transfers, "MOST_OPERATIONS", 500)
    with pytest.raises(DataDependent, match="too many"):
        _moved(body)

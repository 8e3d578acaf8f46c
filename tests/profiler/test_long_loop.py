import functools

import jax
import pytest
from exporting import kernels
from jax.experimental import pallas as pl

from hawkeye_mcp.profiler import fidelity_kernels, static_profile
from hawkeye_mcp.profiler.long_loop import long_loop
from hawkeye_mcp.profiler.sampling import plan_turns
from hawkeye_mcp.profiler.transfers import turns_of

ROWS = ((2048, 1024), "float32")
SQUARE = ((1024, 1024), "bfloat16")


def _found(function, *inputs):
    program, (call,) = kernels(function, inputs)
    with program.context:
        loop = long_loop(call)
        return loop, turns_of(call, loop.op) if loop else None, static_profile.plan_for(call, "v5e")


def _of(name, **params):
    return functools.partial(getattr(fidelity_kernels, name), **params)


def test_turns_of_copies_by_hand_are_told_with_their_bytes():
    loop, turns, (plan, notes) = _found(_of("manual_copies", rows=16), ROWS)
    assert (loop.first, loop.turns) == (0, 128)
    assert len(turns) == 127
    assert {moved[:2] for moved in turns} == {(16 * 1024 * 32, 16 * 1024 * 32)}  # bits in, bits out
    assert turns[0] != turns[2] == turns[3]  # from the third on a buffer must be free
    assert notes == []
    assert plan.points == ((8,), (14,))


def test_an_inner_pipeline_is_cut_after_whole_rows_of_blocks():
    # 8 turns for each block that is stored; stopped in between, the kernel would wait for a store that never started
    loop, turns, (plan, _) = _found(_of("pipelined_matmul", blocks=(128, 128, 128)), SQUARE, SQUARE)
    assert loop.turns == 512
    assert [at for at, moved in enumerate(turns[:24]) if moved[2]] == [7, 15, 23]
    assert [point[0] % 8 for point in plan.points] == [0, 0]
    assert (plan.points[1][0] - plan.points[0][0]) % 24 == 0  # a whole number of waits as well


def _loops(*bounds):
    def body(x_ref, out_ref):
        for bound in bounds:

            def turn(n, carry):
                out_ref[...] += x_ref[...]
                return carry

            jax.lax.fori_loop(0, bound() if callable(bound) else bound, turn, 0)

    return lambda x: pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def test_the_longest_loop_is_found_and_the_others_stay():
    loop, _, (plan, _) = _found(_loops(20, 300, 30), ((8, 128), "float32"))
    assert loop.turns == 300
    assert plan.points == ((6,), (12,))


def test_a_short_loop_is_profiled_whole():
    assert _found(_loops(16), ((8, 128), "float32"))[2][0].points == ((),)


def test_turns_that_differ_without_end_are_profiled_whole():
    def body(x_ref, out_ref):
        def turn(n, carry):
            jax.lax.fori_loop(0, n, lambda m, c: c + m, 0)

            def inner(m, carry):
                out_ref[...] += x_ref[...]
                return carry

            return jax.lax.fori_loop(0, n, inner, carry)

        jax.lax.fori_loop(0, 100, turn, 0)

    loop, turns, (plan, _) = _found(lambda x: pl.pallas_call(body, out_shape=x)(x), ((8, 128), "float32"))
    assert loop.turns == 100
    assert len(set(turns)) == len(turns)
    assert plan.points == ((),)


def test_a_loop_whose_length_depends_on_data_is_none():
    def body(table_ref, x_ref, out_ref):
        def turn(n, carry):
            out_ref[...] += x_ref[...]
            return carry

        jax.lax.fori_loop(0, table_ref[0, 0], turn, 0)

    def function(table, x):
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(table, x)

    loop, _, (plan, notes) = _found(function, ((8, 128), "int32"), ((8, 128), "float32"))
    assert loop is None
    assert plan.points == ((),)
    assert "lower bound" in notes[0]


@pytest.mark.parametrize(
    ("n", "turns", "points"),  # turns: what each does, the last one left out below
    [
        (100, [1] * 100, ((4,), (10,))),
        (101, [1] * 101, ((5,), (11,))),
        (96, ([1] * 7 + [2]) * 12, ((8,), (16,))),  # 24 apart would be as long as the whole
        (960, ([1] * 7 + [2]) * 120, ((24,), (48,))),
        (100, [7, 8, *[1] * 96, 3, 4], ((4,), (10,))),  # the ends may differ
        (100, list(range(100)), ((100,),)),
        (16, [1] * 16, ((16,),)),
    ],
)
def test_points_are_whole_periods_of_the_work_and_of_its_waits(n, turns, points):
    found = plan_turns(n, turns[:-1], 1000)
    assert found.points == points
    if found.sampled and turns[:2] == turns[8:10]:  # and what each turn does adds up
        assert found.total([sum(turns[:stop]) for (stop,) in points]) == pytest.approx(sum(turns))


def test_waits_are_given_up_before_the_work_is():
    turns = ([1] * 7 + [2]) * 120
    assert plan_turns(960, turns, 50).points == ((8,), (16,))

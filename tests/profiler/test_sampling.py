import itertools
import random

import pytest

from hawkeye_mcp.profiler.sampling import PERIODS, Pace, plan


def _walk(bounds, start, per_step, per_move, waits=(0,)):
    """Cycles of a made-up kernel, step by step: per_move[axis] each time a block moves that depends on axes up to it,
    waits in turn."""
    total, before = start, None
    for at, step in enumerate(itertools.product(*map(range, bounds))):
        total += per_step + waits[at % len(waits)]
        for axis, cost in per_move.items():
            if before is None or step[: axis + 1] != before[: axis + 1]:
                total += cost
        before = step
    return total


def _total(found, cycles):
    return found.total([cycles(point) for point in found.points])


@pytest.mark.parametrize("pace", Pace)
@pytest.mark.parametrize("seed", range(30))
def test_the_weights_reproduce_a_regular_kernel_exactly_on_any_grid(seed, pace):
    draw = random.Random(seed)
    grid = tuple(draw.choice([1, 2, 3, 4, 5, 7, 16, 25]) for _ in range(draw.randint(1, 4)))
    whole = {axis for axis in range(len(grid)) if draw.random() < 0.25}
    depth = draw.choice([2, 3])
    found = plan(grid, whole=whole, depth=depth, pace=pace)
    assert all(n <= full for point in found.points for n, full in zip(point, grid, strict=True))
    assert all(point[axis] == grid[axis] for point in found.points for axis in whole)
    cut = [axis for axis, n in enumerate(grid) if n > 3 and axis not in whole]
    # blocks move with the axes that the plan models, and with every step
    per_move = {axis: draw.randint(1, 50) for axis in cut[-depth:]}
    start, per_step = draw.randint(0, 1000), draw.randint(1, 100)

    def cycles(point):
        return _walk(point, start, per_step, per_move)

    assert _total(found, cycles) == pytest.approx(cycles(grid), rel=1e-9)


@pytest.mark.parametrize("waits", [(900, 100), (900, 900, 100), (5, 5, 5, 5, 5, 999)])
@pytest.mark.parametrize(
    ("grid", "whole"),
    [((513,), ()), ((128,), ()), ((64, 5), ()), ((33, 31), ()), ((7, 9, 11), ()), ((50, 3), ()), ((70, 4, 4), (1, 2))],
)
def test_waits_that_repeat_are_reproduced_exactly_where_steps_are_short(grid, whole, waits):
    found = plan(grid, whole=whole)
    assert found.sampled

    def cycles(point):
        return _walk(point, 1000, 100, {}, waits)

    assert _total(found, cycles) == pytest.approx(cycles(grid), rel=1e-9)


def test_two_steps_apart_would_be_wrong_by_a_lot():
    def cycles(point):
        return _walk(point, 1000, 100, {}, (900, 900, 100))

    assert _total(plan((513,), pace=Pace.MIDDLING), cycles) < 0.9 * cycles((513,))


def test_points_far_apart_that_cost_too_much_are_replaced_by_nearer_ones():
    grid = (8, 9, 10)
    dear = plan(grid)
    assert dear.points == ((3, 2, 4), (3, 2, 10), (3, 3, 4))  # 3 rows of 4 steps are 2 periods
    assert plan(grid, most_steps=dear.steps) == dear
    cheaper = plan(grid, most_steps=dear.steps - 1)
    assert cheaper.points == ((2, 2, 4), (2, 2, 10), (2, 4, 4))
    assert plan(grid, most_steps=cheaper.steps - 1) == plan(grid, pace=Pace.MIDDLING)
    assert plan(grid, pace=Pace.MIDDLING).points == ((2, 2, 2), (2, 2, 4), (2, 4, 2))
    assert plan((5, 8, 7), most_steps=90).points == ((2, 2, 7), (2, 4, 7))  # 7 steps and 6 more would be too many


def test_no_axis_is_cut_to_one_but_for_long_steps():
    for pace in (Pace.SHORT, Pace.MIDDLING):
        assert min(min(point) for point in plan((16, 32, 64), pace=pace).points) == 2
    assert plan((16, 32, 64), pace=Pace.LONG).points == ((1, 1, 2), (1, 1, 3), (1, 2, 2))


def test_three_points_tell_start_step_and_advance_apart():
    found = plan((16, 32, 64), pace=Pace.LONG)
    # f = 5 + 7 * (steps) + 11 * (advances of the second axis), by hand
    cycles = [5 + 7 * 2 + 11, 5 + 7 * 3 + 11, 5 + 7 * 4 + 11 * 2]
    assert found.total(cycles) == pytest.approx(5 + 7 * 16 * 32 * 64 + 11 * 16 * 32)


def test_a_third_level_needs_a_fourth_point():
    found = plan((16, 32, 64), depth=3, pace=Pace.MIDDLING)
    assert found.points == ((2, 2, 2), (2, 2, 4), (2, 4, 2), (4, 2, 2))


def test_a_plan_that_does_not_fit_makes_way_for_longer_periods_and_at_last_for_the_whole():
    asked = []

    def from_the_second_on(found):
        asked.append(found)
        return len(asked) > 1

    found = plan((512,), fits=from_the_second_on)
    assert found.points[1][0] - found.points[0][0] == PERIODS[1]
    assert (512 - found.points[0][0]) % PERIODS[1] == 0
    assert plan((512,), fits=lambda _: False).points == ((512,),)


@pytest.mark.parametrize("grid", [(), (1,), (8,), (16,), (4, 4), (3, 5), (3, 3, 3)])
def test_a_short_grid_is_profiled_whole(grid):
    found = plan(grid)
    assert found.points == (grid,)
    assert found.weights == (1.0,)
    assert not found.sampled


def test_every_axis_irregular_means_the_whole_grid():
    assert plan((40, 50), whole={0, 1}).points == ((40, 50),)


def test_points_stay_few_and_short_however_long_the_grid():
    found = plan((1000, 2000, 3000))
    assert len(found.points) == 3
    assert found.steps <= 300
    assert plan((9, 1000, 2000, 3000, 11), depth=3).steps <= 3000

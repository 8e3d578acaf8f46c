import itertools
import math
import random

import pytest

from hawkeye_mcp.profiler.sampling import plan


def _walk(bounds, start, per_step, per_move):
    """Cycles of a made-up kernel, step by step: per_move[axis] each time a block moves that depends on axes up to it."""
    total, before = start, None
    for step in itertools.product(*map(range, bounds)):
        total += per_step
        for axis, cost in per_move.items():
            if before is None or step[: axis + 1] != before[: axis + 1]:
                total += cost
        before = step
    return total


@pytest.mark.parametrize("seed", range(40))
def test_the_weights_reproduce_a_regular_kernel_exactly_on_any_grid(seed):
    draw = random.Random(seed)
    grid = tuple(draw.choice([1, 2, 3, 4, 5, 7]) for _ in range(draw.randint(1, 4)))
    whole = {axis for axis in range(len(grid)) if draw.random() < 0.25}
    depth = draw.choice([1, 2, 3])
    found = plan(grid, whole=whole, depth=depth)
    assert all(n <= full for point in found.points for n, full in zip(point, grid, strict=True))
    cut = [axis for axis, n in enumerate(grid) if n > 3 and axis not in whole]
    # blocks move with the axes that the plan models, and with every step
    per_move = {axis: draw.randint(1, 50) for axis in cut[-depth:]}
    start, per_step = draw.randint(0, 1000), draw.randint(1, 100)
    cycles = [_walk(point, start, per_step, per_move) for point in found.points]
    assert found.total(cycles) == pytest.approx(_walk(grid, start, per_step, per_move), rel=1e-9)


def test_three_points_tell_start_step_and_advance_apart():
    found = plan((16, 32, 64))
    assert found.points == ((1, 2, 2), (1, 2, 4), (1, 4, 2))
    # f = 5 + 7 * (steps) + 11 * (advances of the second axis), by hand
    cycles = [5 + 7 * 4 + 11 * 2, 5 + 7 * 8 + 11 * 2, 5 + 7 * 8 + 11 * 4]
    assert found.total(cycles) == pytest.approx(5 + 7 * 16 * 32 * 64 + 11 * 16 * 32)


def test_a_third_level_needs_a_fourth_point():
    found = plan((16, 32, 64), depth=3)
    assert found.points == ((2, 2, 2), (2, 2, 4), (2, 4, 2), (4, 2, 2))


def test_a_single_axis_starts_where_the_pipeline_has_settled():
    assert plan((64,)).points == ((4,), (6,))
    assert plan((3, 6)).points == ((3, 4), (3, 6))  # never longer than the axis is


def test_axes_whose_position_matters_and_short_ones_keep_their_length():
    found = plan((3, 16, 64), whole={1})
    assert found.points == ((3, 16, 2), (3, 16, 3))
    assert sum(found.weights) == pytest.approx(1.0)


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
    assert found.sampled
    assert max(math.prod(point) for point in found.points) <= 8

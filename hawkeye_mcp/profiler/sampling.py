"""Short grids that stand for a long one: which to profile, and how their cycles add up to the whole.

libtpu's static profile walks every grid step, so its cost grows with the grid. Where every middle step of an axis
does the same work, cycles are a polynomial in the grid's bounds: a constant, plus a cost per step, plus a cost for
each axis that advances (blocks that only then move, accumulators that only then start and end). A few short grids
determine the coefficients.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

WHOLE_STEPS = 16  # a grid of up to this many steps is profiled whole
SETTLED_STEPS = 4  # of a double-buffered pipeline, until its steps cost what later ones do


@dataclass(frozen=True)
class Plan:
    """Grids to profile and their weights: cycles of the whole grid = sum(weight * cycles of the point)."""

    points: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]

    @property
    def sampled(self) -> bool:
        return len(self.points) > 1

    def total(self, values: Sequence[float]) -> float:
        return sum(weight * value for weight, value in zip(self.weights, values, strict=True))


def plan(grid: Sequence[int], *, whole: Collection[int] = (), depth: int = 2, settle: bool = True) -> Plan:
    """Choose the points for one grid.

    Args:
        whole: axes that keep their length because the work depends on the position along them.
        depth: of the axes that are cut, how many of the innermost have a cost of their own when they advance;
            those further out only multiply. 2 serves unless a block stays in place while both of these run.

        settle: whether steps may wait for transfers. Then the shortest point has SETTLED_STEPS at least and axes grow
            by two steps, so that both buffers of a pipeline get their turn: otherwise kernels that wait for latency
            come out far too slow. Without, steps that compute for long hide all of that.
    """
    grid = tuple(grid)
    cut = [axis for axis, n in enumerate(grid) if axis not in whole and n > 3]
    if not cut or math.prod(grid) <= WHOLE_STEPS:
        return Plan((grid,), (1.0,))
    modelled = cut[-depth:]
    kept_steps = math.prod(n for axis, n in enumerate(grid) if axis not in cut)
    base = [n if axis not in cut else 1 for axis, n in enumerate(grid)]
    if kept_steps >= SETTLED_STEPS or not settle:  # what is kept settles the pipeline, and costs enough already
        base[modelled[-1]], growth = 2, 1
    else:
        growth = 2
        for axis in modelled:
            base[axis] = 2 if len(modelled) > 1 else SETTLED_STEPS
    points = [tuple(base)]
    for axis in reversed(modelled):
        longer = list(base)
        longer[axis] += growth
        points.append(tuple(longer))

    def terms(bounds: Sequence[int]) -> list[int]:
        running = math.prod(bounds[axis] for axis in cut if axis not in modelled)
        row = [1]
        for axis in modelled:
            running *= bounds[axis]
            row.append(running)
        return row

    # weights @ terms(points) = terms(grid), so that any such polynomial is reproduced exactly
    matrix = np.array([terms(point) for point in points], dtype=float)
    weights = np.linalg.solve(matrix.T, np.array(terms(grid), dtype=float))
    return Plan(tuple(points), tuple(float(w) for w in weights))

"""Short grids that stand for a long one: which to profile, and how their cycles add up to the whole.

libtpu's static profile walks every grid step, so its cost grows with the grid. Where every middle step of an axis
does the same work, cycles are a polynomial in the grid's bounds: a constant, plus a cost per step, plus a cost for
each axis that advances (blocks that only then move, accumulators that only then start and end). A few short grids
determine the coefficients.

Two things spoil that for steps that wait for their transfers, and both are avoided here. Waits repeat every second or
third step of a double-buffered pipeline, so points differ from the grid and from each other by whole periods. And an
axis of length 1 takes its share of index arithmetic out of every step, so no axis is cut below 2.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

WHOLE_STEPS = 16  # a grid of up to this many steps is profiled whole
SETTLED_STEPS = 4  # of a double-buffered pipeline, until its steps cost what later ones do
PERIODS = (6, 12, 24, 48)  # steps after which waits repeat: 2 and 3 divide the first; blocks may rest for longer


class Pace(Enum):
    """What one grid step costs to profile, and so what care it can be given."""

    SHORT = "its waits matter and many steps can be walked: points are whole periods apart"
    MIDDLING = "points are two steps apart and no axis is cut below 2"
    LONG = "steps that compute for long: their waits and index arithmetic matter little, as few as possible are walked"


@dataclass(frozen=True)
class Plan:
    """Grids to profile and their weights: cycles of the whole grid = sum(weight * cycles of the point)."""

    points: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]

    @property
    def sampled(self) -> bool:
        return len(self.points) > 1

    @property
    def steps(self) -> int:
        return sum(math.prod(point) for point in self.points)

    def total(self, values: Sequence[float]) -> float:
        return sum(weight * value for weight, value in zip(self.weights, values, strict=True))


def whole_grid(grid: Sequence[int]) -> Plan:
    return Plan((tuple(grid),), (1.0,))


def plan(
    grid: Sequence[int],
    *,
    whole: Collection[int] = (),
    depth: int = 2,
    pace: Pace = Pace.SHORT,
    most_steps: int = 10**9,
    fits: Callable[[Plan], bool] = lambda _: True,
) -> Plan:
    """Choose the points for one grid; the grid itself where nothing shorter stands for it.

    Args:
        whole: axes that keep their length because the work depends on the position along them.
        depth: of the axes that are cut, how many of the innermost have a cost of their own when they advance;
            those further out only multiply. 2 serves unless a block stays in place while both of these run.
        most_steps: steps that points whole periods apart may take together; beyond, a step counts as MIDDLING.
        fits: whether a plan reproduces what is known of the grid without a profile, such as how often blocks move.
    """
    grid = tuple(grid)
    cut = [axis for axis, n in enumerate(grid) if axis not in whole and n > 3]
    if not cut or math.prod(grid) <= WHOLE_STEPS:
        return whole_grid(grid)
    for found in _candidates(grid, cut, depth, pace, most_steps):
        if 2 * math.prod(grid) <= 3 * found.steps:  # as cheap in one go
            return whole_grid(grid)
        if fits(found):
            return found
    return whole_grid(grid)


def plan_turns(n: int, turns: Sequence[object], most_steps: int) -> Plan:
    """Choose how many turns of a loop of n stand for all of them.

    Args:
        turns: what each turn but the last does; equal if they do the same. The loop's middle must repeat.
        most_steps: turns that points may take together for the sake of waits.
    """
    period = _repeats(turns)
    if period and n > WHOLE_STEPS:
        for apart in (math.lcm(period, PERIODS[0]), period):
            first = SETTLED_STEPS + (n - SETTLED_STEPS) % apart
            found = _solved((n,), [0], [0], [first], {0: apart})
            if 3 * found.steps < 2 * n and (apart == period or found.steps <= most_steps):
                return found
    return whole_grid((n,))


def _repeats(turns: Sequence[object]) -> int | None:
    """After how many turns the same work comes again, but for the first and last turns."""
    middle = turns[2:-2]
    for period in range(1, len(middle) // 4 + 1):
        if middle[period:] == middle[:-period]:
            return period
    return None


def _candidates(grid: tuple[int, ...], cut: list[int], depth: int, pace: Pace, most_steps: int) -> Iterator[Plan]:
    affordable: list[Plan] = []
    if pace is Pace.SHORT:
        in_step = (_in_step(grid, cut, depth, PERIODS[0]), _innermost_in_step(grid, cut, depth))
        affordable = [found for found in in_step if found and found.steps <= most_steps]
        pace = Pace.MIDDLING
    yield from affordable or [_apart(grid, cut, depth, pace)]
    # asked for only where blocks rest for longer, and then whatever they cost
    for period in PERIODS:
        if (found := _in_step(grid, cut, depth, period)) and found not in affordable:
            yield found


def _apart(grid: tuple[int, ...], cut: list[int], depth: int, pace: Pace) -> Plan:
    """Points that grow by one or two steps, whatever the period."""
    modelled = cut[-depth:]
    kept_steps = math.prod(n for axis, n in enumerate(grid) if axis not in cut)
    least = 1 if pace is Pace.LONG else 2
    base = [n if axis not in cut else least for axis, n in enumerate(grid)]
    growth = 2
    if pace is Pace.LONG or kept_steps >= SETTLED_STEPS:  # what is kept settles the pipeline, and costs enough already
        base[modelled[-1]], growth = 2, 1
    elif len(cut) == 1:
        base[cut[0]] = SETTLED_STEPS
    return _solved(grid, cut, modelled, base, dict.fromkeys(modelled, growth))


def _in_step(grid: tuple[int, ...], cut: list[int], depth: int, period: int) -> Plan | None:
    """Points that are whole periods from the grid and from each other; None if the grid is too short for any."""
    kept = math.prod(n for axis, n in enumerate(grid) if axis not in cut)
    *outer, inner = cut
    growth = {inner: period // math.gcd(period, kept)}
    first = -(-SETTLED_STEPS // kept) if not outer else 2
    base = list(grid)
    base[inner] = max(2, first) + (grid[inner] - max(2, first)) % growth[inner]
    if base[inner] + growth[inner] > grid[inner]:  # short enough to stay as it is
        return _in_step(grid, outer, depth, period) if outer else None
    if not outer:
        return _solved(grid, cut, cut, base, growth)
    rows = math.prod(grid[axis] for axis in outer)
    repeat = period // math.gcd(period, kept * base[inner])  # rows after which waits repeat
    modelled = outer[-(depth - 1) :]
    best: tuple[float, list[int], dict[int, int]] | None = None
    choices = [range(2, min(grid[axis], repeat + 2 if axis in modelled else 3) + 1) for axis in outer]
    for lengths in itertools.product(*choices):
        if (rows - math.prod(lengths)) % repeat:
            continue
        for axis, length in zip(outer, lengths, strict=True):
            base[axis] = length
            growth[axis] = repeat // math.gcd(repeat, math.prod(lengths) // length)
        steps = math.prod(base) * (1 + sum(1 + growth[axis] / base[axis] for axis in modelled))
        if all(base[axis] + growth[axis] <= grid[axis] for axis in modelled) and (best is None or steps < best[0]):
            best = (steps, list(base), dict(growth))
    return _solved(grid, cut, [*modelled, inner], *best[1:]) if best else _in_step(grid, [inner], depth, period)


def _innermost_in_step(grid: tuple[int, ...], cut: list[int], depth: int) -> Plan | None:
    """Whole periods along the innermost axis alone, most of the waits' pattern for fewer steps."""
    *outer, inner = cut
    if not outer:
        return None
    kept = math.prod(n for axis, n in enumerate(grid) if axis not in cut)
    base = [n if axis not in cut else 2 for axis, n in enumerate(grid)]
    growth = dict.fromkeys(cut, 2) | {inner: PERIODS[0] // math.gcd(PERIODS[0], kept)}
    base[inner] += (grid[inner] - 2) % growth[inner]
    if base[inner] + growth[inner] > grid[inner]:
        base[inner] = grid[inner]
        return _solved(grid, outer, outer[-(depth - 1) :], base, growth)
    return _solved(grid, cut, cut[-depth:], base, growth)


def _solved(
    grid: tuple[int, ...], cut: list[int], modelled: list[int], base: Sequence[int], growth: dict[int, int]
) -> Plan:
    """The plan of a base point and one longer point for each modelled axis."""
    points = [tuple(base)]
    for axis in reversed(modelled):
        longer = list(base)
        longer[axis] += growth[axis]
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

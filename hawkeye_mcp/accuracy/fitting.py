"""The few figures by which a chip differs from its datasheet, found on the fit half of the rows alone."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from hawkeye_mcp.profiler.timing import DATASHEET, Model

# What may be fitted: least, most, and the distance of the first values tried. Steps and clock trade against each other,
# so that all are tried together, first far apart, then around the best.
RANGES = {
    "clock": (0.7, 1.0, 0.03),
    "hbm": (0.6, 1.0, 0.05),
    "step_us": (0.0, 0.5, 0.1),
    "latency": (0.4, 1.0, 0.2),
}
HALVINGS = 4
Predict = Callable[[Model], float | None]


def fit(rows: Sequence[tuple[float, Predict]], names: Sequence[str] = tuple(RANGES)) -> Model:
    """The model with the least mean |log(predicted / measured)| over (measured_us, predict); deterministic.

    A figure that changes nothing stays at the datasheet's.
    """
    best, least = DATASHEET, _loss(rows, DATASHEET)
    grids = []
    for name in names:
        low, high, step = RANGES[name]
        grids.append([round(high - step * n, 6) for n in range(round((high - low) / step) + 1)])
        if getattr(DATASHEET, name) == low:
            grids[-1].reverse()
    candidates = [dict(zip(names, values, strict=True)) for values in itertools.product(*grids)]
    best, least = _better(rows, candidates, best, least)
    for halving in range(1, HALVINGS + 1):
        while True:
            found, loss = _better(rows, _around(best, names, 0.5**halving), best, least)
            if found == best:
                break
            best, least = found, loss
    return best


def _around(model: Model, names: Sequence[str], share: float) -> list[Mapping[str, float]]:
    moves = []
    for name in names:
        low, high, step = RANGES[name]
        value = getattr(model, name)
        moves.append(sorted({min(high, max(low, round(value + sign * step * share, 6))) for sign in (-1, 0, 1)}))
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*moves)]


def _better(
    rows: Sequence[tuple[float, Predict]], candidates: Sequence[Mapping[str, float]], best: Model, least: float
) -> tuple[Model, float]:
    for values in candidates:
        tried = dataclasses.replace(best, **values)  # type: ignore[arg-type]
        loss = _loss(rows, tried)
        if loss < least - 1e-9:
            best, least = tried, loss
    return best, least


def _loss(rows: Sequence[tuple[float, Predict]], model: Model) -> float:
    errors = [abs(math.log(found / measured)) for measured, predict in rows if (found := predict(model))]
    return sum(errors) / max(len(errors), 1)

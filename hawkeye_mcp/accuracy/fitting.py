"""The few figures by which a chip differs from its datasheet, found on the fit half of the rows alone."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from hawkeye_mcp.profiler.timing import DATASHEET, Model

# What may be fitted: least, most, and the distance of the first values tried.
RANGES = {
    "clock": (0.7, 1.0, 0.03),
    "hbm": (0.6, 1.0, 0.05),
    "step_us": (0.0, 0.5, 0.1),
    "latency": (0.4, 1.0, 0.1),
    "estimate": (0.2, 1.0, 0.1),
}
# Figures of kernels trade against each other, so that they are tried together.
TOGETHER = (("estimate",), ("clock", "hbm", "step_us", "latency"))
ROUNDS = 2
HALVINGS = 4
Predict = Callable[[Model], float | None]


def fit(rows: Sequence[tuple[float, Predict]], names: Sequence[str] = tuple(RANGES), start: Model = DATASHEET) -> Model:
    """The model with the least mean |log(predicted / measured)| over (measured_us, predict); deterministic.

    A figure that changes nothing, or is not among the names, stays what it is at the start.
    """
    best, least = start, _loss(rows, start)
    for _ in range(ROUNDS):
        for group in TOGETHER:
            if chosen := [name for name in group if name in names]:
                best, least = _better(rows, _grid(chosen), best, least)
                for halving in range(1, HALVINGS + 1):
                    best, least = _settled(rows, chosen, best, least, 0.5**halving)
    return best


def _grid(names: Sequence[str]) -> list[Mapping[str, float]]:
    values = []
    for name in names:
        low, high, step = RANGES[name]
        usual = getattr(DATASHEET, name)
        of_name = [round(low + step * n, 6) for n in range(round((high - low) / step) + 1)]
        values.append(sorted(of_name, key=functools.partial(_distance, usual)))  # of equally good ones the first stays
    return [dict(zip(names, point, strict=True)) for point in itertools.product(*values)]


def _distance(a: float, b: float) -> float:
    return abs(a - b)


def _settled(
    rows: Sequence[tuple[float, Predict]], names: Sequence[str], best: Model, least: float, share: float
) -> tuple[Model, float]:
    while True:
        found, loss = _better(rows, _around(best, names, share), best, least)
        if found == best:
            return best, least
        best, least = found, loss


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

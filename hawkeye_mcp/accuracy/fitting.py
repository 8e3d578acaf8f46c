"""The few figures by which a chip differs from its datasheet, found on the fit half of the rows alone."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from hawkeye_mcp.profiler.timing import DATASHEET, Model

# What may be fitted, between which values, and how finely at last.
RANGES = {
    "clock": (0.7, 1.0, 0.005),
    "hbm": (0.6, 1.0, 0.005),
    "launch_us": (0.0, 10.0, 0.1),
    "latency": (0.4, 1.0, 0.01),
}
Predict = Callable[[Model], float | None]


def fit(rows: Sequence[tuple[float, Predict]], names: Sequence[str] = tuple(RANGES)) -> Model:
    """The model with the least mean |log(predicted / measured)| over (measured_us, predict), one figure after another.

    A coarse walk first, then ever finer ones; deterministic. A figure that changes nothing stays at the datasheet's.
    """
    best, least = DATASHEET, _loss(rows, DATASHEET)
    for share in (8, 4, 2, 1, 1):
        for name in names:
            low, high, step = RANGES[name]
            step *= share
            for number in range(math.floor((high - low) / step) + 1):
                value = round(low + number * step, 6)
                tried = dataclasses.replace(best, **{name: value})  # type: ignore[arg-type]
                loss = _loss(rows, tried)
                if loss < least - 1e-9:
                    best, least = tried, loss
    return best


def _loss(rows: Sequence[tuple[float, Predict]], model: Model) -> float:
    errors = [abs(math.log(found / measured)) for measured, predict in rows if (found := predict(model))]
    return sum(errors) / max(len(errors), 1)

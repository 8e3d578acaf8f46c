"""How far a predicted time may be off: intervals that held four of five measurements of the same class.

`hawkeye accuracy --write` takes them from the half of the published measurements that no figure was fitted to, and
keeps them in residuals.json beside this file. A class or chip without measurements borrows the widest there are.
"""

import functools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from hawkeye_mcp.evaluation import OpTime, Versions

COVERAGE = 0.8
# Shapes from which on a class speaks for itself: with fewer no order statistic holds the coverage for the next one.
ENOUGH = 9
Class = Literal["large_blocks", "small_blocks", "bandwidth_bound", "own_copies", "xla_schedule", "xla_bandwidth"]
Interval = tuple[float, float]


class Residuals(BaseModel):
    """Of one class on one chip. low, high: the measured time lies between these multiples of the predicted one.

    n: held-out rows. groups: shapes among them; variants of one shape tell little more than one of them does.
    """

    model_config = ConfigDict(extra="forbid")

    tpu: str
    cls: Class
    n: int
    groups: int
    low: float
    high: float


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    coverage: float
    classes: list[Residuals]
    measurements: str
    versions: Versions


def path() -> Path:
    return Path(__file__).with_name("residuals.json")


@functools.cache
def table() -> Table | None:
    """None in an installation that was made without measurements."""
    try:
        return Table.model_validate_json(path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def class_of(op: OpTime) -> Class:
    """The class of an operation, by what its time rests on."""
    if op.kind == "mosaic":
        return "own_copies" if op.by_hand else "bandwidth_bound" if op.bound == "hbm" else "large_blocks"
    return "xla_bandwidth" if op.bound == "hbm" or op.method == "hbm_floor" else "xla_schedule"


def multiples(ratios: Sequence[tuple[float, str]], coverage: float = COVERAGE) -> Interval:
    """The (low, high) multiples of predicted times that held `coverage` of these (predicted / measured, group).

    Every group weighs the same. The level is raised for the number of groups, as for a prediction of the next one. With
    fewer than ENOUGH groups the extremes stand, on both sides alike: what they lean to may be chance.
    """
    counts: dict[str, int] = {}
    for _, group in ratios:
        counts[group] = counts.get(group, 0) + 1
    level = (1 + coverage) / 2 * (1 + 1 / len(counts))
    errors = sorted((1 / ratio, 1 / counts[group] / len(counts)) for ratio, group in ratios)
    low, high = _quantile(list(reversed(errors)), level), _quantile(errors, level)
    return (low, high) if len(counts) >= ENOUGH else (min(low, 1 / high), max(high, 1 / low))


def _quantile(ordered: list[tuple[float, float]], level: float) -> float:
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= level - 1e-9:
            return value
    return ordered[-1][0]


def interval_us(op: OpTime, tpu: str) -> Interval | None:
    """Where the true time of an operation lies in four of five cases; None without measurements."""
    found = residuals(tpu, class_of(op))
    return (op.us * found[0], op.us * found[1]) if found else None


def residuals(tpu: str, cls: Class) -> Interval | None:
    """Multiples of a predicted time.

    Of a class with too few shapes on the chip, the widest of that class on all chips; with too few there too, the widest
    of all classes.
    """
    known = table()
    if known is None:
        return None
    exact = [entry for entry in known.classes if (entry.tpu, entry.cls) == (tpu, cls)]
    same = [entry for entry in known.classes if entry.cls == cls]
    taken = next((of for of in (exact, same) if sum(entry.groups for entry in of) >= ENOUGH), known.classes)
    return (min(entry.low for entry in taken), max(entry.high for entry in taken)) if taken else None


def borrowed(tpu: str, ops: Sequence[OpTime]) -> str | None:
    """A note if classes of these operations were never measured on the chip; None without any measurements."""
    known = table()
    if known is None:
        return None
    measured = {(entry.tpu, entry.cls) for entry in known.classes}
    missing = {class_of(op) for op in ops if op.us} - {c for t, c in measured if t == tpu}
    if not missing:
        return None
    return (
        f"no published measurement on {tpu} for {', '.join(sorted(name.replace('_', ' ') for name in missing))}:"
        " its interval is the widest of those elsewhere"
    )


def program_interval_us(us: float, ops: Sequence[OpTime], tpu: str) -> Interval | None:
    """Of a whole program: its operations err together, so that their ends add up."""
    total = sum(op.us for op in ops)
    ends = [(op.us, residuals(tpu, class_of(op))) for op in ops if op.us]
    if not total or any(found is None for _, found in ends):
        return None
    low, high = (sum(own * found[side] for own, found in ends if found) / total for side in (0, 1))
    return us * low, us * high


def speedup_interval(baseline_us: float, baseline: Interval, candidate_us: float, candidate: Interval) -> Interval:
    """Of baseline over candidate, both predicted. Their errors are taken as independent: errors that they share cancel.

    Distances in logarithms add as squares on each side.
    """
    ratio = baseline_us / candidate_us
    down = math.hypot(math.log(baseline_us / baseline[0]), math.log(candidate[1] / candidate_us))
    up = math.hypot(math.log(baseline[1] / baseline_us), math.log(candidate_us / candidate[0]))
    return ratio * math.exp(-down), ratio * math.exp(up)


def as_json(found: Table) -> str:
    return json.dumps(found.model_dump(mode="json"), indent=1) + "\n"

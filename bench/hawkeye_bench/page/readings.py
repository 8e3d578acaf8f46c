"""Cells of the taxonomy that runs read, against what their pairs gained."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hawkeye_bench import pairs as pairing
from hawkeye_bench.analysis import Choices
from hawkeye_bench.pairs import Failures, Pair, Source
from hawkeye_bench.runs import Run
from hawkeye_mcp import conditions


@dataclass(frozen=True)
class Gain:
    """A run that could read cells, against its run under the control. ratio: of their speedups, failures counted by
    the primary rule."""

    run: Run
    ratio: float
    source: Source | None


@dataclass(frozen=True)
class Row:
    """One row of the taxonomy under one condition. gain, others: geometric mean ratio of the runs that read it, and of
    those that did not; None without any."""

    condition: str
    row: str
    times: int
    runs: int
    gain: float | None
    others: float | None


def has_rows(condition: str) -> bool:
    """Whether there is anything to read under a condition."""
    try:
        return conditions.shows(conditions.parse(condition), "taxonomy")
    except conditions.UnknownCondition:
        return False


def scores(pair: Pair, failures: Failures, penalty: float) -> tuple[float, float] | None:
    """The speedups under treatment and control as the rule counts them; None where it leaves the pair out."""
    if failures == "dropped" and not pair.both_correct:
        return None
    failed = penalty if failures == "penalised" else 1.0
    one, other = (
        run.speedup if pairing.succeeded(run) and run.speedup else failed for run in (pair.treatment, pair.control)
    )
    return one, other


def gains(runs: Sequence[Run], choices: Choices, penalty: float) -> list[Gain]:
    """Of every run under a condition with rows whose control run is there too."""
    found = []
    for condition in dict.fromkeys(run.condition for run in runs):
        if condition == choices.control or not has_rows(condition):
            continue
        pairs, _ = pairing.pair_up(runs, condition, choices.control)
        for pair in pairs:
            if scored := scores(pair, choices.failures, penalty):
                found.append(Gain(pair.treatment, scored[0] / scored[1], pair.source))
    return found


def rows(runs: Sequence[Run], gained: Sequence[Gain], source: Source | None) -> list[Row]:
    """Every row that was read under each condition, most read first; gains of one source."""
    found = []
    for condition in dict.fromkeys(run.condition for run in runs if has_rows(run.condition)):
        readers = [run for run in pairing.counted(runs) if run.condition == condition]
        told = [one for one in gained if one.source == source and one.run.condition == condition]
        times = Counter(read.row for run in readers for read in run.cells_read)
        found += [
            Row(
                condition=condition,
                row=row,
                times=number,
                runs=sum(_read(run, row) for run in readers),
                gain=_mean([one.ratio for one in told if _read(one.run, row)]),
                others=_mean([one.ratio for one in told if not _read(one.run, row)]),
            )
            for row, number in times.most_common()
        ]
    return found


def _read(run: Run, row: str) -> bool:
    return any(read.row == row for read in run.cells_read)


def _mean(ratios: Sequence[float]) -> float | None:
    return float(np.exp(np.mean([math.log(one) for one in ratios]))) if ratios else None

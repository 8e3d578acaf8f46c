"""The best speedup so far of each run, against what it had cost by then: productive turns, tokens, dollars.

Read from the server's call log and the agent's transcript, which lie beside a run's record. The speedups are those that
the agent's own session was told; only the last best kernel is judged again, so a curve need not end at the score.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from hawkeye_bench import budget, statistics
from hawkeye_bench import pairs as pairing
from hawkeye_bench import runs as records
from hawkeye_bench.analysis import Choices
from hawkeye_bench.budget import Spent
from hawkeye_bench.pairs import Source
from hawkeye_bench.runs import Run
from hawkeye_mcp import calllog

Axis = Literal["productive_turns", "tokens", "cost_usd"]
AXES: tuple[Axis, ...] = get_args(Axis)
_POINTS = 50


@dataclass(frozen=True)
class Point(Spent):
    """Where a run stood after something happened. speedup: the best so far; None before the first correct kernel."""

    speedup: float | None = None


class Curve(BaseModel):
    """The geometric mean over workloads of the best so far. Runs that stopped keep what they had.

    speedup, low, high: one for each place of `at`; an interval is null with fewer workloads than one needs.
    """

    model_config = ConfigDict(extra="forbid")

    axis: Axis
    condition: str
    source: Source
    at: list[float]
    speedup: list[float]
    low: list[float] | None
    high: list[float] | None
    runs: int = Field(description="Those that say what they cost on this axis.")
    workloads: int


def trajectory(folder: Path) -> list[Point]:
    """The points of the run whose record lies in the folder, from nothing on; only the first without a log."""
    lines = [line for name in ("calls.jsonl", "transcript.jsonl") for line in _read(folder / name)]
    points = [Point()]
    # Both write UTC with milliseconds, so their times sort as text.
    for line in sorted(lines, key=lambda line: str(line.get("time"))):
        after = _after(points[-1], line)
        if after != points[-1]:
            points.append(after)
    return points


def of_runs(out: Path, runs: Iterable[Run]) -> dict[int, list[Point]]:
    """The trajectory of each run, by its place among them."""
    folders = (records.folder(out, run.workload, run.condition, run.repeat) for run in runs)
    return {place: trajectory(folder) for place, folder in enumerate(folders)}


def curves(runs: Sequence[Run], trajectories: Mapping[int, list[Point]], choices: Choices | None = None) -> list[Curve]:
    """One curve for each axis, source and condition that has one; all of an axis and source share their places.

    Before its first correct kernel a run stands at the score of a failure under the rule "penalised", so that no curve
    falls.
    """
    choices = choices or Choices()
    found = []
    counted = [(run, trajectories[place]) for place, run in enumerate(runs) if pairing.counts(run)]
    told = [point.speedup for _, points in counted for point in points if point.speedup]
    worst = min([pairing.penalised_score(run for run, _ in counted), *told])
    for axis in AXES:
        for source in get_args(Source):
            mine = [
                (run, points)
                for run, points in counted
                if run.source in (source, None) and getattr(points[-1], axis) is not None
            ]
            if not any(run.source == source for run, _ in mine):
                continue
            end = max(getattr(points[-1], axis) for _, points in mine)
            at = _places(axis, end)
            for condition in dict.fromkeys(run.condition for run, _ in mine):
                under = [(run, points) for run, points in mine if run.condition == condition]
                found.append(_curve(axis, condition, source, at, under, worst, choices))
    return found


def _curve(
    axis: Axis,
    condition: str,
    source: Source,
    at: list[float],
    runs: list[tuple[Run, list[Point]]],
    worst: float,
    choices: Choices,
) -> Curve:
    by_workload: dict[str, list[list[float]]] = {}
    for run, points in runs:
        heights = [math.log(best or worst) for best in best_at(points, axis, at)]
        by_workload.setdefault(run.workload, []).append(heights)
    # One row for each place, one column for each workload.
    means = np.array([np.mean(rows, axis=0) for rows in by_workload.values()]).T
    low = high = None
    if means.shape[1] >= statistics.FEWEST_WORKLOADS:
        ends = statistics.interval_of_mean(
            means, seed=choices.seed, confidence=choices.confidence, resamples=choices.resamples
        )
        low, high = (np.exp(end).tolist() for end in ends)
    return Curve(
        axis=axis,
        condition=condition,
        source=source,
        at=at,
        speedup=np.exp(means.mean(axis=1)).tolist(),
        low=low,
        high=high,
        runs=len(runs),
        workloads=len(by_workload),
    )


def best_at(points: list[Point], axis: Axis, at: Sequence[float]) -> list[float | None]:
    """The best speedup that a run had when it had spent so much; None before its first correct kernel."""
    found = []
    for place in at:
        reached = [point.speedup for point in points if (getattr(point, axis) or 0) <= place]
        found.append(reached[-1])
    return found


def _places(axis: Axis, end: float) -> list[float]:
    if axis == "productive_turns" and end <= _POINTS:
        return [float(place) for place in range(int(end) + 1)]
    return [float(place) for place in np.linspace(0, end, _POINTS + 1)]


def _after(point: Point, line: dict[str, Any]) -> Point:
    """Where a run stands after one line of its log or transcript."""
    point = budget.after(point, line)
    speedup = budget.number(line, "speedup")
    if budget.is_judgement(line) and line.get("status") == "correct" and speedup and not line.get("lower_bound"):
        point = replace(point, speedup=max(speedup, point.speedup or 0.0))
    return point


def _read(path: Path) -> list[dict[str, Any]]:
    """The lines of a log or of a transcript; none where there is no such file."""
    return calllog.read(path) if path.exists() else []

"""Runs of two conditions, paired by what else they share, and how a run without a correct kernel counts.

Broken runs say nothing and are never here; runs on a workload without power are left out, by name.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from hawkeye_bench.runs import Run

Source = Literal["predicted", "measured"]
Failures = Literal["baseline", "dropped", "penalised"]
FAILURES: tuple[Failures, ...] = get_args(Failures)

COUNTED: dict[Failures, str] = {
    "baseline": "a run without a correct kernel counts as XLA's own speed, 1.0: one would go on using XLA",
    "dropped": "pairs with a failed run are left out: what correct kernels gain, blind to how many there are",
    "penalised": "a failed run counts as half of XLA's speed, or as the slowest correct kernel if that is slower",
}
PENALTY = 0.5


class LeftOut(BaseModel):
    """A pair that is in no ratio, and why."""

    model_config = ConfigDict(extra="forbid")

    workload: str
    repeat: int
    why: str


@dataclass(frozen=True)
class Pair:
    """Two runs that differ only in their condition. source: of their speedups; None where both failed."""

    workload: str
    repeat: int
    treatment: Run
    control: Run
    source: Source | None

    @property
    def both_correct(self) -> bool:
        return succeeded(self.treatment) and succeeded(self.control)


def is_builtin(run: Run) -> bool:
    return "not a language model" in run.model


def succeeded(run: Run) -> bool:
    return run.status == "correct"


def counted(runs: Iterable[Run]) -> list[Run]:
    """Those that may be in an aggregate."""
    return [run for run in runs if counts(run)]


def counts(run: Run) -> bool:
    return run.status != "broken" and not run.no_power


def pair_up(runs: Iterable[Run], treatment: str, control: str) -> tuple[list[Pair], list[LeftOut]]:
    """The pairs of workload and repeat (and chip, agent and model), in the order of the runs, and what is no pair."""
    asked = [run for run in runs if run.condition in (treatment, control)]
    groups: dict[tuple[object, ...], dict[str, Run]] = {}
    for run in asked:
        key = (run.workload, run.repeat, run.tpu, run.agent, run.model)
        groups.setdefault(key, {})[run.condition] = run
    pairs: list[Pair] = []
    left_out: list[LeftOut] = []
    for group in groups.values():
        first = next(iter(group.values()))
        if why := _why_not(group, treatment, control):
            left_out.append(LeftOut(workload=first.workload, repeat=first.repeat, why=why))
            continue
        sources = {run.source for run in group.values() if succeeded(run)}
        source = next(iter(sources), None)
        pairs.append(Pair(first.workload, first.repeat, group[treatment], group[control], source))
    return _with_sources(pairs), left_out


def penalised_score(runs: Iterable[Run]) -> float:
    """What a failure counts as under the rule "penalised": never more than any correct kernel."""
    return min([PENALTY, *(run.speedup for run in runs if succeeded(run) and run.speedup)])


def log_ratios(pairs: list[Pair], failures: Failures, penalty: float) -> dict[str, list[float]]:
    """log(speedup under treatment / speedup under control) of each pair, by workload.

    penalty: what a failed run counts as under "penalised".
    """
    found: dict[str, list[float]] = {}
    for pair in pairs:
        if failures == "dropped" and not pair.both_correct:
            continue
        failed = penalty if failures == "penalised" else 1.0
        one, other = (_score(run, failed) for run in (pair.treatment, pair.control))
        found.setdefault(pair.workload, []).append(math.log(one / other))
    return found


def headline_source(pairs: list[Pair]) -> Source | None:
    """What most pairs are, measured if as many are predicted; None without a correct kernel."""
    count: Counter[Source] = Counter(pair.source for pair in pairs if pair.source)
    return max(count, key=lambda source: (count[source], source == "measured"), default=None)


def _score(run: Run, failed: float) -> float:
    if not succeeded(run):
        return failed
    assert run.speedup  # _why_not left the others out
    return run.speedup


def _why_not(group: dict[str, Run], treatment: str, control: str) -> str:
    """Why the runs of a group make no pair; empty if they do."""
    runs = list(group.values())
    if runs[0].no_power:
        return f"no inputs can tell a wrong kernel: {runs[0].no_power}"
    for condition in (treatment, control):
        if condition not in group:
            return f"no run under {condition}"
        run = group[condition]
        if run.status == "broken":
            return f"the run under {condition} is broken and to be repeated"
        if succeeded(run) and not run.speedup:
            return f"no time is known for the correct kernel under {condition}"
        if succeeded(run) and run.lower_bound:
            return f"only a lower bound is known for the time under {condition}"
    if len({run.source for run in runs if succeeded(run)}) > 1:
        return "one speedup is predicted and the other measured"
    return ""


def _with_sources(pairs: list[Pair]) -> list[Pair]:
    """Two failed runs have no source of their own: they count with the others of their workload, else of all."""
    by_workload: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_workload.setdefault(pair.workload, []).append(pair)
    overall = headline_source(pairs)
    return [
        pair
        if pair.source
        else Pair(
            pair.workload,
            pair.repeat,
            pair.treatment,
            pair.control,
            headline_source(by_workload[pair.workload]) or overall,
        )
        for pair in pairs
    ]

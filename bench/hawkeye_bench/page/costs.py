"""What the runs of each condition cost. A sum says of how many runs it is; what no run says is None, never 0."""

from collections.abc import Sequence
from dataclasses import dataclass

from hawkeye_bench.results import RunRow
from hawkeye_bench.runs import Run


@dataclass(frozen=True)
class Sum:
    """Over the runs that say: their number, the total and the mean; None where none does."""

    runs: int
    total: float | None
    mean: float | None


@dataclass(frozen=True)
class Cost:
    condition: str
    runs: int
    evaluations: Sum
    productive_turns: Sum
    turns: Sum
    tokens: Sum
    cost_usd: Sum
    seconds: Sum


def by_condition(rows: Sequence[RunRow], runs: Sequence[Run]) -> list[Cost]:
    """One for each condition; rows and runs are the same ones, in the same order."""
    found = []
    for condition in dict.fromkeys(row.condition for row in rows):
        mine = [(row, run) for row, run in zip(rows, runs, strict=True) if row.condition == condition]
        found.append(
            Cost(
                condition=condition,
                runs=len(mine),
                evaluations=_sum([row.evaluations for row, _ in mine]),
                productive_turns=_sum([row.productive_turns for row, _ in mine]),
                turns=_sum([row.turns for row, _ in mine]),
                tokens=_sum([row.tokens for row, _ in mine]),
                cost_usd=_sum([row.cost_usd for row, _ in mine]),
                seconds=_sum([run.seconds for _, run in mine]),
            )
        )
    return found


def _sum(values: Sequence[float | None]) -> Sum:
    known = [value for value in values if value is not None]
    if not known:
        return Sum(0, None, None)
    return Sum(len(known), sum(known), sum(known) / len(known))

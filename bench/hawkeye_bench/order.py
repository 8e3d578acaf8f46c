"""Which runs a plan has, and in which order they are started."""

import random
from pathlib import Path
from typing import NamedTuple

from hawkeye_bench import runs
from hawkeye_bench.runs import Plan, Run


class RunKey(NamedTuple):
    """One run of a plan. workload: its name, or the path of its folder, as the plan has it."""

    workload: str
    condition: str
    repeat: int

    def __str__(self) -> str:
        return f"{runs.name_of(self.workload)} {self.condition} #{self.repeat}"

    def folder(self, out: Path) -> Path:
        return runs.folder(out, *self)


def planned(plan: Plan) -> list[RunKey]:
    """Every run: repeat by repeat, workload by workload, so that what drifts over time meets all conditions alike.

    The conditions of each workload and repeat stand in a random order of their own, so that none is always first. It
    depends on the plan's seed and on nothing else that may grow: more workloads, repeats or conditions change no pair's
    order.
    """
    return [
        RunKey(workload, condition, repeat)
        for repeat in range(1, plan.reps + 1)
        for workload in plan.workloads
        for condition in sorted(plan.conditions, key=lambda name: _draw(plan.seed, workload, repeat, name))
    ]


def _draw(seed: int, workload: str, repeat: int, condition: str) -> float:
    return random.Random(f"{seed} {runs.name_of(workload)} {repeat} {condition}").random()


def pending(plan: Plan, out: Path) -> tuple[list[Run], list[RunKey]]:
    """The records of runs that have ended, and the runs still to do, in order.

    Raises:
        runs.Unreadable: one of the records is none, also of a run that only its last judgement is missing of.
    """
    done: list[Run] = []
    to_do: list[RunKey] = []
    for key in planned(plan):
        if run := runs.finished(key.folder(out)):
            done.append(run)
        else:
            runs.worked(key.folder(out))
            to_do.append(key)
    return done, to_do

"""Device time of a profile that jax.profiler wrote: how long the device was busy with a program's operations.

Read with jax.profiler.ProfileData. The names are those of XLA's xplane_schema.cc; a TPU's planes look as in published
traces of v5e, v6e and 7x ("/device:TPU:0" with the lines "Steps", "XLA Modules", "XLA Ops", "Async XLA Ops"). Reading a
CPU's trace is tested on recorded ones, a TPU's on synthesised ones only: no TPU was at hand.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Lines:
    """Where a platform's profile holds the operations that ran.

    plane, ops: patterns of the whole name of the plane, and of its lines with one event per operation.
    marked_by: the statistic that only operations carry, where other events share their lines.
    runs: the line with one event per execution of a program; None where the operations tell executions apart by their
    statistic "run_id".
    """

    plane: str
    ops: str
    marked_by: str | None = None
    runs: str | None = None


# A SparseCore has a plane of its own, "/device:TPU:0 SparseCore 0". "Async XLA Ops" is left out: a transfer that
# nothing waits for costs nothing, and one that is waited for has the wait on "XLA Ops".
LINES = {
    "tpu": Lines(plane=r"/device:TPU:\d+", ops=r"XLA Ops", runs="XLA Modules"),
    "cpu": Lines(plane=r"/host:CPU", ops=r".*", marked_by="hlo_op"),
}


class NoDeviceTime(ValueError):
    """The profile does not say how long the device was busy."""


@dataclass(frozen=True)
class Busy:
    """us: length of the union of all operations' intervals. runs: executions of programs in that time."""

    us: float
    runs: int


def busy(profile: Any, lines: Lines) -> Busy:
    """Device time in a ProfileData: operations that overlap or contain others count once, gaps between them not at all.

    Raises:
        NoDeviceTime: no plane has operations, or several have, so that it is not clear which device ran the program.
    """
    planes = {plane.name: plane for plane in profile.planes if re.fullmatch(lines.plane, plane.name)}
    found = {name: busy for name, plane in planes.items() if (busy := _busy(plane, lines)).us > 0}
    if len(found) != 1:
        on = ", ".join(sorted(found)) or "none"
        there = ", ".join(plane.name for plane in profile.planes) or "none"
        raise NoDeviceTime(
            f"operations on one plane like {lines.plane} were expected and found on {on}; planes: {there}"
        )
    return found.popitem()[1]


def _busy(plane: Any, lines: Lines) -> Busy:
    intervals: list[tuple[float, float]] = []
    run_ids = set()
    runs = 0
    for line in plane.lines:
        if line.name == lines.runs:
            runs += sum(1 for _ in line.events)
        if not re.fullmatch(lines.ops, line.name):
            continue
        for event in line.events:
            if lines.marked_by:
                stats = dict(event.stats)
                if lines.marked_by not in stats:
                    continue
                run_ids.add(stats.get("run_id"))
            intervals.append((event.start_ns, event.end_ns))
    return Busy(union_ns(intervals) / 1e3, runs if lines.runs else len(run_ids))


def union_ns(intervals: Iterable[tuple[float, float]]) -> float:
    """Total length that (start, end) intervals cover."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            covered += end - max(start, reached)
            reached = end
    return covered

"""Sampled cycles against libtpu's profile of the whole run, on kernels that use a grid in every usual way.

Both come from the same compiler in the same process; what is scored is sampling alone, not how true the profile is.
"""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import Field
from rich.console import Console

from hawkeye_mcp import display
from hawkeye_mcp.evaluation import Model, Versions
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.versions import versions

LIMIT = 0.01  # of the whole profile's cycles
LIMIT_S = 300.0  # for one profile


class UnknownKernel(ValueError):
    """The name is of no kernel."""


class Row(Model):
    """One program; cycles and seconds are summed over its kernels. Null where a profile failed, and note says why."""

    kernel: str
    tpu: str
    steps: int = Field(0, description="Grid steps, or turns of a loop where there is no grid, of the whole run.")
    sampled_steps: int = Field(0, description="How many of them the sampled profile walks.")
    full_cycles: float | None = None
    sampled_cycles: float | None = None
    error: float | None = Field(None, description="sampled_cycles / full_cycles - 1")
    full_s: float | None = Field(None, description="Seconds of wall clock for the whole profile, compilation included.")
    sampled_s: float | None = Field(None, description="Seconds for all points, one after the other.")
    time_ratio: float | None = Field(None, description="full_s / sampled_s")
    note: str = ""

    @property
    def good(self) -> bool:
        return self.error is not None and abs(self.error) <= LIMIT


class Fidelity(Model):
    rows: list[Row]
    limit: float = LIMIT
    worst_error: float | None
    versions: Versions

    @property
    def good(self) -> bool:
        return all(row.good for row in self.rows)


async def fidelity(names: Sequence[str] = (), progress: Callable[[str], None] = lambda _: None) -> Fidelity:
    """Profile each kernel both ways, one after the other on one warm worker.

    names: some of the kernels; none for all.

    Raises:
        UnknownKernel
    """
    pool = WorkerPool("profiler")
    try:
        known: list[str] = (await pool.call("fidelity_names", 60.0))["names"]
        if unknown := sorted(set(names) - set(known)):
            raise UnknownKernel(f"no kernel {', '.join(unknown)}; there are {', '.join(known)}")
        rows = []
        for name in names or known:
            progress(name)
            rows.append(await _row(pool, name))
    finally:
        await pool.close()
    errors = [abs(row.error) for row in rows if row.error is not None]
    return Fidelity(rows=rows, worst_error=max(errors, default=None), versions=versions())


async def _row(pool: WorkerPool, name: str) -> Row:
    subject = await pool.call("fidelity_subject", 60.0, name=name)
    row = Row(kernel=name, tpu=subject["tpu"])
    try:
        await pool.call("warm", 120.0, tpu=row.tpu)
        kernels = (await pool.call("plan", 60.0, **subject))["kernels"]
        row.steps = sum(_steps(kernel) for kernel in kernels)
        row.sampled_steps = sum(math.prod(point) for kernel in kernels for point in kernel["points"])
        row.sampled_cycles, row.sampled_s = await _timed(_sampled(pool, subject, kernels))
        row.full_cycles, row.full_s = await _timed(_whole(pool, subject, kernels))
    except (WorkerDied, WorkerError, WorkerTimeout) as error:
        row.note = f"static profile unavailable: {error}"
        return row
    row.error = row.sampled_cycles / row.full_cycles - 1
    row.time_ratio = row.full_s / row.sampled_s
    row.note = "; ".join(note for kernel in kernels for note in kernel["notes"])
    return row


def _steps(kernel: dict[str, Any]) -> int:
    """Of the whole run: weights reproduce any sum over its steps, and so their number."""
    points = zip(kernel["weights"], kernel["points"], strict=True)
    return int(0.5 + sum(weight * math.prod(point) for weight, point in points))


async def _timed(cycles: Awaitable[float]) -> tuple[float, float]:
    start = time.perf_counter()
    return await cycles, time.perf_counter() - start


async def _sampled(pool: WorkerPool, subject: dict[str, Any], kernels: list[dict[str, Any]]) -> float:
    total = 0.0
    for number, kernel in enumerate(kernels):
        for weight, point in zip(kernel["weights"], kernel["points"], strict=True):
            total += weight * await _cycles(pool, subject, number, point)
    return total


async def _whole(pool: WorkerPool, subject: dict[str, Any], kernels: list[dict[str, Any]]) -> float:
    return sum([await _cycles(pool, subject, number, kernel["grid"]) for number, kernel in enumerate(kernels)])


async def _cycles(pool: WorkerPool, subject: dict[str, Any], number: int, point: list[int]) -> float:
    reply = await pool.call("profile_point", LIMIT_S, **subject, kernel=number, point=point)
    if reply["cycles"] is None:
        raise WorkerError("NoCycles", "libtpu noted no cycles with the kernel", "")
    return float(reply["cycles"])


def show(found: Fidelity, console: Console) -> None:
    rows = display.table(
        "kernel",
        "tpu",
        ">steps",
        ">walked",
        ">full cycles",
        ">sampled cycles",
        ">error",
        ">full s",
        ">sampled s",
        ">ratio",
    )
    for row in found.rows:
        error = "none" if row.error is None else f"{row.error:+.3%}"
        rows.add_row(
            row.kernel, row.tpu, str(row.steps), str(row.sampled_steps),
            *(_number(value, ".0f") for value in (row.full_cycles, row.sampled_cycles)),
            error if row.good else f"[red]{error}[/red]",
            *(_number(value, ".2f") for value in (row.full_s, row.sampled_s, row.time_ratio)),
        )  # fmt: skip
    console.print(rows)
    for row in found.rows:
        if row.note:
            console.print(display.plain(f"{row.kernel}: {row.note}"), soft_wrap=True)
    worst = "none" if found.worst_error is None else f"{found.worst_error:.3%}"
    console.print(f"worst error {worst}, limit {found.limit:.0%}; libtpu {found.versions.libtpu}")


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)

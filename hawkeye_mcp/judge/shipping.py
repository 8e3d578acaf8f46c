"""The baselines that are shipped: bring them up to date one by one, and say which are current."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import BaseModel

from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.judge.baseline import Baseline, Entry, Share
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.workloads import Workload

State = Literal["current", "stale", "missing", "failed"]


class Row(BaseModel):
    """One workload on one chip. us: None if there is no figure; notes say why."""

    tpu: str
    workload: str
    state: State
    us: float | None = None
    lower_bound: bool = False
    method: str = ""
    shares: list[Share] = []
    notes: list[str] = []


def rows(wanted: Sequence[tuple[str, Workload]], versions: Versions) -> list[Row]:
    """What is shipped of each; nothing is computed. Stale: of another compiler, workload or method."""
    found = []
    for chip, workload in wanted:
        if entry := baseline.shipped(workload, chip, versions):
            found.append(_row(entry, workload))
        else:
            state: State = "stale" if workload.name in _file(chip) else "missing"
            found.append(Row(tpu=chip, workload=workload.name, state=state))
    return found


def _row(entry: Entry, workload: Workload) -> Row:
    row = Row(tpu=entry.tpu, workload=workload.name, state="current", notes=entry.notes)
    try:
        time: Baseline = baseline.timed(entry, workload)
    except WorkerError as error:
        return row.model_copy(update={"method": "none: XLA refuses the program", "notes": [str(error)]})
    return row.model_copy(
        update={key: getattr(time, key) for key in ("us", "lower_bound", "method", "shares", "notes")}
    )


async def update(
    wanted: Sequence[tuple[str, Workload]], versions: Versions, *, profile: bool, say: Callable[[str], None]
) -> list[Row]:
    """Write each entry as it comes; what is current already stays, unless only a profile is missing from it."""
    compilers = WorkerPool("compiler")
    found = []
    try:
        for number, (chip, workload) in enumerate(wanted, start=1):
            say(f"[{number}/{len(wanted)}] {chip} {workload.name}")
            try:
                entry = baseline.known(workload, chip, versions)
                if not entry or (profile and not entry.profiled and entry.refused is None):
                    entry = await baseline.compute(workload, chip, versions, compilers, profile=profile)
            except (WorkerDied, WorkerError, WorkerTimeout, OSError) as error:
                say(f"  failed: {type(error).__name__}: {error}")
                found.append(Row(tpu=chip, workload=workload.name, state="failed", notes=[str(error)]))
                continue
            if entry.passing:  # another machine, or this one tomorrow, would find another figure
                say(f"  not kept: {'; '.join(entry.notes)}")
                found.append(Row(tpu=chip, workload=workload.name, state="failed", notes=entry.notes))
                continue
            _keep(entry)
            found.append(_row(entry, workload))
    finally:
        await compilers.close()
    return found


def _file(tpu: str) -> dict[str, Any]:
    try:
        found = json.loads(baseline.shipped_path(tpu).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(entry: Entry) -> None:
    """Put one entry into the file, in the order of names; atomic, and nothing is written if it is there already."""
    whole, new = _file(entry.tpu), entry.kept()
    if whole.get(entry.workload) != new:
        baseline.write_json(baseline.shipped_path(entry.tpu), dict(sorted((whole | {entry.workload: new}).items())))

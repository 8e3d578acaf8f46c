"""How the bench bears a large sweep: `python -m hawkeye_bench.load_test`. Prints and keeps figures, asserts nothing.

Every run is the builtin optimiser's, which is not a language model: it ends at once on workloads of families that it
does not know, and the figures say how many evaluations there really were. Started again with the same --out, it goes on
where it stopped, and its figures are of all its starts together.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from pydantic import BaseModel, Field

from hawkeye_bench import journal, processes, runs, schedule
from hawkeye_bench.agents.builtin import BUILTIN_MODEL
from hawkeye_bench.agents.choose import AgentSpec
from hawkeye_bench.benchmark import machine
from hawkeye_bench.budget import Budget
from hawkeye_bench.executors import local
from hawkeye_bench.order import RunKey, pending, planned
from hawkeye_bench.runs import Plan, Run
from hawkeye_mcp import workloads as workload_store
from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.pool import judge_code
from hawkeye_mcp.state import write_atomically
from hawkeye_mcp.versions import versions

WORKLOADS = 50
CONDITIONS = ["none", "taxonomy"]
_LOOK_EVERY_S = 2.0


class Look(BaseModel):
    """The machine at one moment of the sweep. rss_bytes: of the bench and all its processes; shared pages count more
    than once. load: the kernel's one-minute average, of everything that runs on the machine.
    """

    rss_bytes: int
    processes: int
    load: float


class Peak(BaseModel):
    """Of all looks."""

    rss_bytes: int = 0
    processes: int = 0
    load_mean: float | None = None
    looks: int = 0


class Sweep(BaseModel):
    """What a folder of runs says of how they were done."""

    workers: int
    planned: int
    done: int
    lost: int = Field(description="Runs of the plan without a record: 0 once the sweep has gone through.")
    repeated: int = Field(description="Runs that came to an end more than once: must be 0.")
    retries: int = Field(description="Tries after the first, for faults of the infrastructure.")
    starts: int = Field(description="How often the sweep was started.")
    stops: dict[str, int] = Field(description="Why the agents stopped, over all runs.")
    working_runs: int = Field(description="Runs with at least one evaluation; the others ended at an unknown family.")
    evaluations: int = Field(description="In the sessions.")
    judged_again: int = Field(description="Last judgements, each as dear as an evaluation.")
    wall_s: float = Field(description="While a bench was at work, over all starts.")
    per_hour: float | None = Field(description="Evaluations and last judgements for each hour of wall_s.")
    peak: Peak


def watched(look: Callable[[], Look], peak: Peak) -> Peak:
    """The peak after one more look."""
    seen = look()
    mean = ((peak.load_mean or 0.0) * peak.looks + seen.load) / (peak.looks + 1)
    return Peak(
        rss_bytes=max(peak.rss_bytes, seen.rss_bytes),
        processes=max(peak.processes, seen.processes),
        load_mean=round(mean, 3),
        looks=peak.looks + 1,
    )


def look() -> Look:
    pids = processes.tree(os.getpid())
    return Look(rss_bytes=sum(map(processes.rss_bytes, pids)), processes=len(pids), load=os.getloadavg()[0])


def wall_s(lines: Iterable[dict[str, Any]]) -> float:
    """Seconds from each opening of a journal to its close, or to the last that it says if the bench was killed."""
    total = 0.0
    opened: datetime | None = None
    last: datetime | None = None
    for line in lines:
        time = datetime.fromisoformat(line["time"])
        if line["event"] == "opened":
            total += (last - opened).total_seconds() if opened and last else 0.0
            opened = time
        last = time
    return total + ((last - opened).total_seconds() if opened and last else 0.0)


def sweep(out: Path, plan: Plan, workers: int, peak: Peak) -> Sweep:
    """The figures, from the records and the journal of a folder."""
    lines, (done, missing) = journal.read(out), pending(plan, out)
    ended = Counter(
        (line["workload"], line["condition"], line["repeat"])
        for line in lines
        if line["event"] == "ended" and line["status"] != "broken"
    )
    evaluations = sum(run.evaluations for run in done)
    judged_again = sum(run.judged_again is not None for run in done)
    wall = wall_s(lines)
    return Sweep(
        workers=workers,
        planned=len(planned(plan)),
        done=len(done),
        lost=len(missing),
        repeated=sum(count > 1 for count in ended.values()),
        retries=sum(line["event"] == "retry" for line in lines),
        starts=sum(line["event"] == "opened" for line in lines),
        stops=dict(Counter(run.stop for run in done).most_common()),
        working_runs=sum(run.evaluations > 0 for run in done),
        evaluations=evaluations,
        judged_again=judged_again,
        wall_s=round(wall, 1),
        per_hour=round((evaluations + judged_again) / wall * 3600, 1) if wall and evaluations else None,
        peak=peak,
    )


@dataclass(frozen=True)
class Place:
    """Where one sweep is kept."""

    out: Path

    @property
    def peak(self) -> Path:
        return self.out / "peak.json"

    def peak_so_far(self) -> Peak:
        return Peak.model_validate_json(self.peak.read_bytes()) if self.peak.exists() else Peak()


async def carry_out(plan: Plan, place: Place, workers: int) -> None:
    """Do what is left of the plan, with a line on stderr for each end of a run, and keep the peak beside it."""
    total, left = len(planned(plan)), len(pending(plan, place.out)[1])

    def ended(key: RunKey, run: Run | None, text: str) -> None:
        nonlocal left
        left -= run is not None and run.status != "broken"
        said = text or (f"{run.status}, {run.evaluations} evaluations, {run.seconds:.0f} s" if run else "")
        print(f"{total - left}/{total} {key}: {said}", file=sys.stderr, flush=True)

    async def watch() -> None:
        peak = place.peak_so_far()
        while True:
            peak = await anyio.to_thread.run_sync(watched, look, peak)
            write_atomically(place.peak, peak.model_dump_json())
            await anyio.sleep(_LOOK_EVERY_S)

    do = local.doing(plan, AgentSpec(model=plan.model), place.out)
    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await schedule.run_all(plan, place.out, do, slots=workers, on_run=ended)
        group.cancel_scope.cancel()


def markdown(found: list[Sweep], plan: Plan) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    budget = (
        f"at most {plan.budget.evaluations} evaluations each" if plan.budget.evaluations else "no limit of evaluations"
    )
    lines = [
        f"Sweep: {len(plan.workloads)} workloads x {len(plan.conditions)} conditions x {plan.reps} repeats, {budget}.",
        f"Agent: {BUILTIN_MODEL}.",
        f"Machine: {facts}.",
        "",
        "| workers | runs done | lost | repeated | retries | runs with evaluations | evaluations + last judgements "
        "| wall time | per hour | peak RSS, GiB | peak processes | load of the machine, mean | starts |",
        "|---:" * 13 + "|",
    ]
    for row in found:
        figures = [
            row.workers,
            f"{row.done}/{row.planned}",
            row.lost,
            row.repeated,
            row.retries,
            row.working_runs,
            f"{row.evaluations} + {row.judged_again}",
            f"{row.wall_s / 60:.1f} min",
            row.per_hour if row.per_hour is not None else "-",
            f"{row.peak.rss_bytes / 2**30:.2f}",
            row.peak.processes,
            f"{row.peak.load_mean:.2f}" if row.peak.load_mean is not None else "-",
            row.starts,
        ]
        lines.append(f"| {' | '.join(map(str, figures))} |")
    lines += ["", *(f"Why the agents stopped, {row.workers} workers: {row.stops}" for row in found)]
    return "\n".join(lines)


def main(
    out: Annotated[Path, typer.Option(help="Folder of the sweeps; the same again goes on.", file_okay=False)],
    workers: Annotated[list[int] | None, typer.Option(min=1, help="Runs at once. Repeatable: a sweep each.")] = None,
    workloads: Annotated[str, typer.Option(help=f"Names, separated by commas; default: the first {WORKLOADS}.")] = "",
    reps: Annotated[int, typer.Option(min=1, help="Repeats of each workload and condition.")] = 3,
    max_evaluations: Annotated[int, typer.Option(min=0, help="Evaluations per run; 0: no limit of their own.")] = 4,
    tpu: Annotated[str, typer.Option(help="Chip to optimise for.")] = DEFAULT_TPU,
) -> None:
    """Run the sweep with each number of workers, and print what it took."""
    names = [name.strip() for name in workloads.split(",") if name.strip()] or workload_store.names()[:WORKLOADS]
    try:
        references = [workload_store.find(name).reference for name in names]
    except workload_store.UnknownWorkload as error:
        raise typer.BadParameter(str(error), param_hint="--workloads") from None
    plan = Plan(
        agent="minimal",
        model="builtin",
        base_url="",
        tpu=tpu,
        budget=Budget(evaluations=max_evaluations),
        workloads=references,
        conditions=CONDITIONS,
        reps=reps,
        versions=versions(),
        judge=judge_code()[:12],
        cells=runs.cells_hash(),
    )
    found = []
    try:
        for count in workers or [local.slots()]:
            place = Place((out / f"workers-{count}").resolve())
            with journal.held(place.out):
                runs.keep_plan(place.out, plan)
                anyio.run(partial(carry_out, plan, place, count))
            found.append(sweep(place.out, plan, count, place.peak_so_far()))
            write_atomically(place.out / "load_test.json", found[-1].model_dump_json(indent=1))
    except (runs.PlanDiffers, journal.FolderInUse) as error:
        raise typer.BadParameter(str(error), param_hint="--out") from None
    print(markdown(found, plan))


if __name__ == "__main__":
    typer.run(main)

"""`hawkeye-bench status`: how far a folder of runs is, read from its files while a bench works in it or afterwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hawkeye_bench import journal, order, results, trajectories
from hawkeye_bench import runs as records
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import Plan

State = Literal["done", "running", "waiting", "broken", "interrupted", "to do"]
_REFRESH_S = 2.0
_DONE = "done"


class RunState(BaseModel):
    """One run of the plan. speedup: of the record where it is done, else the best that its session was told so far."""

    model_config = ConfigDict(extra="forbid")

    workload: str
    condition: str
    repeat: int
    state: State = Field(
        description="waiting: to be tried again; broken: given up until the bench is started again; interrupted: its "
        "bench is gone"
    )
    tries: int
    since_s: float | None = Field(None, description="Seconds since this try began, while it runs.")
    status: str | None = None
    speedup: float | None = None
    productive_turns: int = 0
    turns: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    error: str | None = None


class Status(BaseModel):
    model_config = ConfigDict(extra="forbid")

    working: bool = Field(description="A bench holds the folder now.")
    slots: int | None = Field(description="Runs at once, as the last bench said.")
    hosts: list[str] = Field([], description="Registered hosts that judge; none: this machine, or a cluster's.")
    runs: list[RunState]
    left_s: float | None = Field(
        description="A guess: the mean time of the runs that ended, for those that are left; null before the first."
    )


def read(out: Path) -> Status:
    """The state of every run of the folder's plan, in the order in which they are started.

    Raises:
        results.NoRuns: the folder has no plan.
        runs.Unreadable: its plan or a record is none.
    """
    plan = results.plan_of(out)
    working = journal.is_held(out)
    last: dict[RunKey, _Line] = {}
    slots = None
    mine: set[RunKey] = set()  # what the last bench has begun; what one before it said does not go on
    for line in _lines(out):
        if line.event == "opened":
            slots = line.slots
            mine.clear()
        elif line.workload is not None:
            key = RunKey(line.workload, line.condition, line.repeat)
            last[key] = line
            mine.add(key)
    found = [_state(out, key, last.get(key), working and key in mine) for key in order.planned(plan)]
    return Status(
        working=working, slots=slots, hosts=list(plan.hosts or {}), runs=found, left_s=_left_s(out, plan, found, slots)
    )


class _Line(BaseModel):
    """What the journal tells of a run, or of the bench where there is no workload."""

    event: journal.Event
    time: AwareDatetime
    slots: int | None = Field(None, ge=1, le=10**6)
    workload: str | None = None
    condition: str = ""
    repeat: int = 0
    tries: int = Field(0, ge=0, le=10**6)
    error: str | None = None


def _lines(out: Path) -> Iterator[_Line]:
    """The journal's lines; what is none of ours is left out."""
    for line in journal.read(out):
        with suppress(ValidationError):
            yield _Line.model_validate(line)


def _state(out: Path, key: RunKey, line: _Line | None, working: bool) -> RunState:
    """working: whether the bench that said this last works now."""
    name = records.name_of(key.workload)
    known = {"workload": name, "condition": key.condition, "repeat": key.repeat, "tries": line.tries if line else 0}
    if run := records.finished(key.folder(out)):
        return RunState(
            **known,
            state="done",
            status=run.status,
            speedup=run.speedup,
            productive_turns=run.productive_turns,
            turns=run.turns,
            tokens=_sum(run.prompt_tokens, run.completion_tokens),
            cost_usd=run.cost_usd,
            error=run.error,
        )
    if line is None:
        return RunState(**known, state="to do")
    if line.event == "started":
        point = trajectories.trajectory(key.folder(out))[-1]
        since = (datetime.now(UTC) - line.time).total_seconds()
        return RunState(
            **known,
            state="running" if working else "interrupted",
            since_s=round(since, 1) if working else None,
            speedup=point.speedup,
            productive_turns=point.productive_turns,
            turns=point.turns,
            tokens=point.tokens,
            cost_usd=point.cost_usd,
        )
    waiting = working and line.event == "retry"
    return RunState(**known, state="waiting" if waiting else "broken", error=line.error)


def _sum(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _left_s(out: Path, plan: Plan, found: list[RunState], slots: int | None) -> float | None:
    took = [run.seconds for run in results.finished(out, plan)]
    left = sum(run.state != "done" for run in found)
    return round(sum(took) / len(took) * left / (slots or 1), 1) if took else None


def show(found: Status) -> RenderableType:
    """Counts by condition, and a line for each run that is neither done nor to do."""
    counts = Table(title="Runs", title_justify="left")
    states: list[State] = ["done", "running", "waiting", "broken", "interrupted", "to do"]
    states = [state for state in states if state == _DONE or any(run.state == state for run in found.runs)]
    for name in ("condition", *states, "correct"):
        counts.add_column(name, justify="left" if name == "condition" else "right")
    for condition in sorted({run.condition for run in found.runs}):
        mine = [run for run in found.runs if run.condition == condition]
        numbers = [sum(run.state == state for run in mine) for state in states]
        correct = sum(run.status == "correct" for run in mine)
        counts.add_row(condition, *(str(number) for number in (*numbers, correct)))
    now = Table(title="Under way or in trouble", title_justify="left")
    for name in ("workload", "condition", "state", "for", "turns", "tokens", "best so far", ""):
        now.add_column(name, justify="right" if name in ("for", "turns", "tokens", "best so far") else "left")
    troubled = [run for run in found.runs if run.state not in ("done", "to do")]
    for run in troubled:
        now.add_row(*_row(run))
    return Group(counts, *([now] if troubled else []), Text(_sentence(found)))


def _row(run: RunState) -> tuple[str, ...]:
    return (
        f"{run.workload} #{run.repeat}",
        run.condition,
        f"{run.state} (try {run.tries})" if run.tries > 1 else run.state,
        _duration(run.since_s) if run.since_s is not None else "",
        f"{run.productive_turns} of {run.turns} calls" if run.turns else str(run.productive_turns),
        f"{run.tokens:,}" if run.tokens is not None else "-",
        f"{run.speedup:.3f}x" if run.speedup else "-",
        run.error or "",
    )


def _sentence(found: Status) -> str:
    done = sum(run.state == _DONE for run in found.runs)
    who = f"A bench is at work ({found.slots} at once)." if found.working else "No bench is at work in this folder."
    left = ""
    if done < len(found.runs) and found.left_s is not None:
        left = f" About {_duration(found.left_s)} of work left, if the rest takes as long as what is done."
    judges = f" Judged on {', '.join(found.hosts)}." if found.hosts else ""
    return f"{done} of {len(found.runs)} runs are done. {who}{left}{judges}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the runs, as given to --out.")],
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing until the bench has ended.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Every run's state, as JSON.")] = False,
) -> None:
    """How far the runs of a folder are: done, running, to be tried again, in trouble, and how long it may take."""

    def look() -> Status:
        try:
            return read(folder)
        except records.Unreadable as error:
            raise typer.BadParameter(str(error), param_hint="DIR") from None

    found = look()
    if json:
        typer.echo(found.model_dump_json(indent=1))
    elif watch:
        _watch(found, look)
    else:
        _console(soft_wrap=True).print(show(found))


def _console(*, soft_wrap: bool = False) -> Console:
    """Errors are others' words: brackets and colons in them are no markup."""
    return Console(soft_wrap=soft_wrap, markup=False, emoji=False)


def _watch(found: Status, look: Callable[[], Status]) -> None:
    with Live(show(found), console=_console(), auto_refresh=False) as live:
        while found.working:
            time.sleep(_REFRESH_S)
            found = look()
            live.update(show(found), refresh=True)

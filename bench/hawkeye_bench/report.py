"""What a bench folder shows: one row per run, and per workload the ratio between two conditions.

Runs on workloads that are marked as without power stand apart: they are in no ratio, no mean and no count.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import geometric_mean

from pydantic import BaseModel, Field
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hawkeye_bench import hosts
from hawkeye_bench.runs import Run
from hawkeye_mcp import conditions
from hawkeye_mcp.state import write_atomically

# The question that the bench exists for: what is gained with, over without.
WITH, WITHOUT = "taxonomy", "none"
# What is gained with, over the same amount of other text, and over one line per technique.
CONTROLS = ("placebo", "menu")

COLUMNS = ("workload", "condition", "status", "speedup over XLA", "evaluations", "cells read")
_NUMBERS = COLUMNS[-3:]
_APART = "Runs in no aggregate"
_READINGS_NAMED = 5


class Summary(BaseModel):
    """What is kept in OUT/summary.json beside the same as a table in OUT/summary.md."""

    runs: list[Run]
    paired_ratios: dict[str, float] = Field(description="Speedup with the taxonomy over without it, by workload.")
    geometric_mean: float | None = Field(description="Of the ratios; null without any, or where no model worked.")
    over_controls: dict[str, dict[str, float]] = Field(
        {}, description="Speedup with the taxonomy over that under each control condition, by workload."
    )
    cells_read: dict[str, dict[str, int]] = Field(
        {}, description="How often each part of each row was read, by condition: row and part to times, in all runs."
    )
    apart: dict[str, str] = Field({}, description="Workloads in no aggregate, with the reason.")
    remarks: list[str]


def summarise(runs: list[Run]) -> Summary:
    """The runs in the order given, and what they say together."""
    counted = [run for run in runs if not run.no_power]
    ratios = paired_ratios(counted)
    over_controls = {control: found for control in CONTROLS if (found := paired_ratios(counted, control))}
    # What differs between the builtin optimiser's conditions is written down in it: a mean would pass for a finding.
    mean = geometric_mean(ratios.values()) if ratios and not any(map(_is_builtin, runs)) else None
    summary = Summary(
        runs=runs,
        paired_ratios=ratios,
        geometric_mean=mean,
        over_controls=over_controls,
        cells_read=cells_read(counted),
        apart={run.workload: run.no_power for run in runs if run.no_power},
        remarks=[],
    )
    return summary.model_copy(update={"remarks": _remarks(summary)})


def keep(folder: Path, runs: list[Run]) -> None:
    """Write summary.json and summary.md."""
    found = summarise(runs)
    write_atomically(folder / "summary.json", found.model_dump_json(indent=1) + "\n")
    write_atomically(folder / "summary.md", markdown(found))


def show(runs: list[Run]) -> RenderableType:
    """The table and what is to be said of it, for a terminal."""
    found = summarise(runs)
    tables = []
    for title, rows in _tables(found.runs):
        table = Table(title=title, title_justify="left")
        for name in COLUMNS:
            table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        tables.append(table)
    return Group(*tables, *map(Text, found.remarks))


def markdown(found: Summary) -> str:
    head = [
        f"| {' | '.join(COLUMNS)} |",
        "|" + "|".join("---:" if name in _NUMBERS else "---" for name in COLUMNS) + "|",
    ]
    lines = []
    for title, rows in _tables(found.runs):
        lines += [f"{title}:", ""] if title == _APART else []
        lines += [*head, *(f"| {' | '.join(row)} |" for row in rows), ""]
    return "\n".join([*lines, *(f"- {' '.join(remark.split())}" for remark in found.remarks)]) + "\n"


def cells_read(runs: Iterable[Run]) -> dict[str, dict[str, int]]:
    """How often each part of each row was read, by condition; conditions under which there is nothing to read are
    left out."""
    found: dict[str, Counter[str]] = {}
    for run in runs:
        if _has_rows(run):
            found.setdefault(run.condition, Counter()).update(f"{read.row} {read.part}" for read in run.cells_read)
    return {condition: dict(sorted(readings.items())) for condition, readings in found.items()}


def _has_rows(run: Run) -> bool:
    return conditions.shows(conditions.parse(run.condition), "taxonomy")


def paired_ratios(runs: Iterable[Run], without: str = WITHOUT) -> dict[str, float]:
    """Speedup with the taxonomy over speedup without it, by workload; the geometric mean over the repeats.

    Only repeats in which both runs have a correct kernel with a speedup of the same source are paired.
    """
    by_key = {(run.workload, run.repeat, run.condition): run for run in runs}
    pairs: dict[str, list[float]] = {}
    for (workload, repeat, condition), run in by_key.items():
        other = by_key.get((workload, repeat, without))
        if condition != WITH or other is None or run.source != other.source:
            continue
        if run.speedup and other.speedup and not run.lower_bound and not other.lower_bound:
            pairs.setdefault(workload, []).append(run.speedup / other.speedup)
    return {workload: geometric_mean(ratios) for workload, ratios in pairs.items()}


def line(run: Run) -> str:
    """One run in one line, for logs."""
    return (
        f"{run.workload} {run.condition} #{run.repeat}: {_status(run)}, speedup {_speedup(run)}, "
        f"{run.evaluations} evaluations, {run.seconds:.0f} s"
    )


def weak_isolation(isolation: str) -> str:
    """What is to be said where nothing kept kernels from reading the machine's files; else empty."""
    if isolation == "bubblewrap":
        return ""
    return (
        f"Isolation was {isolation}: a kernel could read the taxonomy under any condition, so these runs do not show "
        "what withholding it does. `hawkeye doctor` says how to get bubblewrap."
    )


def _tables(runs: list[Run]) -> list[tuple[str, list[tuple[str, ...]]]]:
    """The title and rows of the table of runs that count, and of that of the others if there are any."""
    counted, apart = [run for run in runs if not run.no_power], [run for run in runs if run.no_power]
    tables = [("Runs", counted)] if counted or not apart else []
    tables += [(_APART, apart)] if apart else []
    return [(title, _rows(listed)) for title, listed in tables]


def _rows(runs: list[Run]) -> list[tuple[str, ...]]:
    repeats = any(run.repeat > 1 for run in runs)
    names = [f"{run.workload} #{run.repeat}" if repeats else run.workload for run in runs]
    return [
        (
            name,
            run.condition,
            _status(run),
            _speedup(run),
            str(run.evaluations),
            str(len(run.cells_read)) if _has_rows(run) else "-",
        )
        for name, run in zip(names, runs, strict=True)
    ]


def _remarks(found: Summary) -> list[str]:
    """Who worked, what the figures are, the paired ratios, what was read, and what went wrong."""
    runs, ratios, mean = found.runs, found.paired_ratios, found.geometric_mean
    said = [f"Model: {model}" for model in dict.fromkeys(run.model for run in runs)]
    if sources := sorted({run.source for run in runs if run.source}):
        said.append(f"Speedups are {' or '.join(sources)}, of the best kernel judged again from scratch.")
    if any(run.baseline_lower_bound for run in runs):
        said.append(">=: XLA's time is only known to be at least this long, so the speedup is at least this large.")
    if any(run.indistinguishable for run in runs):
        said.append("~: by the errors of such predictions so far, not known to be faster or slower than XLA.")
    algebraic = {run.workload: run.algebraic for run in runs if run.algebraic}
    said += [
        f"algebraic: a speedup on {name} may be due to algebra. {' '.join(why.split())}"
        for name, why in algebraic.items()
    ]
    said += [f"In no aggregate: {name}. {' '.join(why.split())}" for name, why in found.apart.items()]
    for other, by_workload in {WITHOUT: ratios, **found.over_controls}.items():
        said += [
            f"{WITH}/{other} on {workload}: {ratio:.3f}{' (algebraic)' if workload in algebraic else ''}"
            for workload, ratio in by_workload.items()
        ]
    if mean is not None:
        said.append(f"{WITH}/{WITHOUT}, geometric mean of {len(ratios)}: {mean:.3f}")
    if (ratios or found.over_controls) and any(map(_is_builtin, runs)):
        said.append("A fixed procedure made these kernels: the ratio is no evidence about the taxonomy.")
    said += [_readings(condition, readings) for condition, readings in found.cells_read.items()]
    said += hosts.told(runs)
    said += dict.fromkeys(weak for run in runs if (weak := weak_isolation(run.isolation)))
    return said + [f"{run.workload} {run.condition}: {run.error}" for run in runs if run.error]


def _readings(condition: str, readings: dict[str, int]) -> str:
    """How often cells were read under a condition, and which most often."""
    if not readings:
        return f"Cells read under {condition}: none."
    most = sorted(readings.items(), key=lambda reading: -reading[1])
    named = [f"{name} {times}x" for name, times in most[:_READINGS_NAMED]]
    more = [f"{len(most) - len(named)} others"] if len(most) > len(named) else []
    return f"Cells read under {condition}: {sum(readings.values())}, of them {', '.join([*named, *more])}."


def _is_builtin(run: Run) -> bool:
    return "not a language model" in run.model


def _status(run: Run) -> str:
    notes = [
        *([run.stop] if run.stop != "finished" else []),
        *([run.isolation] if run.isolation != "bubblewrap" else []),
    ]
    return f"{run.status} ({', '.join(notes)})" if notes else run.status


def _speedup(run: Run) -> str:
    """`<`: candidate_us is only a lower bound; `>=`: baseline_us is; `~`: indistinguishable from XLA. A speedup on a
    workload whose work algebra may save is called algebraic."""
    if run.speedup is None:
        return "-"
    bound = "< " if run.lower_bound else ">= " if run.baseline_lower_bound else ""
    alike = "~ " if run.indistinguishable else ""
    algebraic = ", algebraic" if run.algebraic else ""
    return f"{alike}{bound}{run.speedup:.3f}x {run.source or ''}".strip() + algebraic

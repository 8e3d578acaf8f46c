"""What a bench folder shows: one row per run, and per workload the ratio between two conditions."""

from collections.abc import Iterable
from pathlib import Path
from statistics import geometric_mean

from pydantic import BaseModel, Field
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hawkeye_bench.runs import Run
from hawkeye_mcp.state import write_atomically

# The question that the bench exists for: what is gained with, over without.
WITH, WITHOUT = "taxonomy", "none"

COLUMNS = ("workload", "condition", "status", "speedup over XLA", "evaluations")
_NUMBERS = COLUMNS[-2:]


class Summary(BaseModel):
    """What is kept in OUT/summary.json beside the same as a table in OUT/summary.md."""

    runs: list[Run]
    paired_ratios: dict[str, float] = Field(description="Speedup with the taxonomy over without it, by workload.")
    geometric_mean: float | None = Field(description="Of the ratios; null without any, or where no model worked.")
    remarks: list[str]


def summarise(runs: list[Run]) -> Summary:
    """The runs in the order given, and what they say together."""
    ratios = paired_ratios(runs)
    # What differs between the builtin optimiser's conditions is written down in it: a mean would pass for a finding.
    mean = geometric_mean(ratios.values()) if ratios and not any(map(_is_builtin, runs)) else None
    return Summary(runs=runs, paired_ratios=ratios, geometric_mean=mean, remarks=_remarks(runs, ratios, mean))


def keep(folder: Path, runs: list[Run]) -> None:
    """Write summary.json and summary.md."""
    found = summarise(runs)
    write_atomically(folder / "summary.json", found.model_dump_json(indent=1) + "\n")
    write_atomically(folder / "summary.md", markdown(found))


def show(runs: list[Run]) -> RenderableType:
    """The table and what is to be said of it, for a terminal."""
    found = summarise(runs)
    table = Table(title="Runs", title_justify="left")
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    for row in _rows(found.runs):
        table.add_row(*row)
    return Group(table, *map(Text, found.remarks))


def markdown(found: Summary) -> str:
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        "|" + "|".join("---:" if name in _NUMBERS else "---" for name in COLUMNS) + "|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in _rows(found.runs)]
    return "\n".join([*lines, "", *(f"- {' '.join(remark.split())}" for remark in found.remarks)]) + "\n"


def paired_ratios(runs: Iterable[Run]) -> dict[str, float]:
    """Speedup with the taxonomy over speedup without it, by workload; the geometric mean over the repeats.

    Only repeats in which both runs have a correct kernel with a speedup of the same source are paired.
    """
    by_key = {(run.workload, run.repeat, run.condition): run for run in runs}
    pairs: dict[str, list[float]] = {}
    for (workload, repeat, condition), run in by_key.items():
        other = by_key.get((workload, repeat, WITHOUT))
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


def _rows(runs: list[Run]) -> list[tuple[str, ...]]:
    repeats = any(run.repeat > 1 for run in runs)
    names = [f"{run.workload} #{run.repeat}" if repeats else run.workload for run in runs]
    return [
        (name, run.condition, _status(run), _speedup(run), str(run.evaluations))
        for name, run in zip(names, runs, strict=True)
    ]


def _remarks(runs: list[Run], ratios: dict[str, float], mean: float | None) -> list[str]:
    """Who worked, what the figures are, the paired ratios, and what went wrong."""
    said = [f"Model: {model}" for model in dict.fromkeys(run.model for run in runs)]
    if sources := sorted({run.source for run in runs if run.source}):
        said.append(f"Speedups are {' or '.join(sources)}, of the best kernel judged again from scratch.")
    if any(run.baseline_lower_bound for run in runs):
        said.append(">=: XLA's time is only known to be at least this long, so the speedup is at least this large.")
    if any(run.indistinguishable for run in runs):
        said.append("~: by the errors of such predictions so far, not known to be faster or slower than XLA.")
    said += [f"{WITH}/{WITHOUT} on {workload}: {ratio:.3f}" for workload, ratio in ratios.items()]
    if mean is not None:
        said.append(f"{WITH}/{WITHOUT}, geometric mean of {len(ratios)}: {mean:.3f}")
    if ratios and any(map(_is_builtin, runs)):
        said.append("A fixed procedure made these kernels: the ratio is no evidence about the taxonomy.")
    said += dict.fromkeys(weak for run in runs if (weak := weak_isolation(run.isolation)))
    return said + [f"{run.workload} {run.condition}: {run.error}" for run in runs if run.error]


def _is_builtin(run: Run) -> bool:
    return "not a language model" in run.model


def _status(run: Run) -> str:
    notes = [
        *([run.stop] if run.stop != "finished" else []),
        *([run.isolation] if run.isolation != "bubblewrap" else []),
    ]
    return f"{run.status} ({', '.join(notes)})" if notes else run.status


def _speedup(run: Run) -> str:
    """`<`: candidate_us is only a lower bound; `>=`: baseline_us is; `~`: indistinguishable from XLA."""
    if run.speedup is None:
        return "-"
    bound = "< " if run.lower_bound else ">= " if run.baseline_lower_bound else ""
    alike = "~ " if run.indistinguishable else ""
    return f"{alike}{bound}{run.speedup:.3f}x {run.source or ''}".strip()

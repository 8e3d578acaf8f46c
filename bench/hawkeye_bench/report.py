"""What a bench folder shows: one row per run, and per workload the ratio between two conditions."""

from collections.abc import Iterable
from statistics import geometric_mean

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hawkeye_bench.runs import Run

# The question that the bench exists for: what is gained with, over without.
WITH, WITHOUT = "taxonomy", "none"


def table(runs: list[Run]) -> Table:
    """One row per run, in the order given."""
    found = Table(title="Runs", title_justify="left")
    for name, justify in (
        ("workload", "left"),
        ("condition", "left"),
        ("status", "left"),
        ("speedup over XLA", "right"),
        ("evaluations", "right"),
    ):
        found.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    repeats = any(run.repeat > 1 for run in runs)
    for run in runs:
        name = f"{run.workload} #{run.repeat}" if repeats else run.workload
        found.add_row(name, run.condition, _status(run), _speedup(run), str(run.evaluations))
    return found


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


def summary(runs: list[Run]) -> RenderableType:
    """The table, who worked, what the figures are, and the paired ratios."""
    parts: list[RenderableType] = [table(runs)]
    for model in dict.fromkeys(run.model for run in runs):
        parts.append(Text(f"Model: {model}"))
    sources = sorted({run.source for run in runs if run.source})
    if sources:
        parts.append(Text(f"Speedups are {' or '.join(sources)}, of the best kernel judged again from scratch."))
    ratios = paired_ratios(runs)
    for workload, ratio in ratios.items():
        parts.append(Text(f"{WITH}/{WITHOUT} on {workload}: {ratio:.3f}"))
    if ratios:
        parts.append(Text(f"{WITH}/{WITHOUT}, geometric mean of {len(ratios)}: {geometric_mean(ratios.values()):.3f}"))
    if ratios and any("not a language model" in run.model for run in runs):
        parts.append(Text("A fixed procedure made these kernels: the ratio is no evidence about the taxonomy."))
    parts += [Text(f"{run.workload} {run.condition}: {run.error}") for run in runs if run.error]
    return Group(*parts)


def line(run: Run) -> str:
    return (
        f"{run.workload} {run.condition} #{run.repeat}: {_status(run)}, speedup {_speedup(run)}, "
        f"{run.evaluations} evaluations, {run.seconds:.0f} s"
    )


def _status(run: Run) -> str:
    return run.status if run.stop == "finished" else f"{run.status} ({run.stop})"


def _speedup(run: Run) -> str:
    if run.speedup is None:
        return "-"
    # candidate_us is only a lower bound, so the speedup is only an upper one.
    return f"{'< ' if run.lower_bound else ''}{run.speedup:.3f}x {run.source or ''}".strip()

"""The accuracy report for people."""

from rich.console import Console
from rich.table import Table

from hawkeye_mcp.accuracy.rows import EXTRA
from hawkeye_mcp.accuracy.scoring import Part, Report, Score, ScoredRow
from hawkeye_mcp.profiler.timing import Model

_MOST_REASONS = 6


def show(found: Report, console: Console) -> None:
    """Headline, then by class, chip and kernel, the worst rows, and what is not covered."""
    console.print(f"held out  {_text(found.scored)}")
    console.print(f"fit half  {_text(found.fit)}")
    console.print(f"held out without what was fitted  {_text(found.scored_datasheet)}")
    for title, parts in (("class", found.classes), ("chip", found.chips), ("kernel", found.kernels)):
        console.print(_parts(title, parts))
    worst = sorted((row for row in found.rows if row.status == "scored"), key=_error, reverse=True)[:10]
    console.print(_rows("furthest off", worst))
    if found.dispatch_us is not None:
        console.print(
            f"{found.dispatch_us:.1f} us of dispatch were taken off wall-clock rows, estimated from the shortest."
        )
    for reason, n in sorted(found.not_covered.items(), key=lambda item: -item[1])[:_MOST_REASONS]:
        console.print(f"not covered: {n} rows: {reason[:150]}")
    if found.tokamax is None:
        console.print(
            f"tokamax is not installed, so only the rows of the JAX documentation are scored. Install it:"
            f" pip install {EXTRA}"
        )


def show_models(found: dict[str, Model], console: Console) -> None:
    table = Table("chip", "clock", "HBM", "step us", "latency", "estimate", box=None)
    for chip, model in found.items():
        table.add_row(
            chip,
            f"{model.clock:g}",
            f"{model.hbm:g}",
            f"{model.step_us:g}",
            f"{model.latency:g}",
            f"{model.estimate:g}",
        )
    console.print(table)


def _error(row: ScoredRow) -> float:
    return abs((row.ratio or 1.0) - 1)


def _text(score: Score) -> str:
    return f"{score.n} rows of {score.groups} shapes: median error {_percent(score.median_abs_error)}, rank correlation {score.spearman}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _parts(title: str, parts: list[Part]) -> Table:
    table = Table(title, "held out", "error", "rank", "fit", "error", "without fit", box=None)
    for part in parts:
        held, fit = part.held_out, part.fit
        table.add_row(
            part.name, str(held.n), _percent(held.median_abs_error), str(held.spearman or "-"), str(fit.n),
            _percent(fit.median_abs_error), _percent(part.held_out_datasheet.median_abs_error),
        )  # fmt: skip
    return table


def _rows(title: str, rows: list[ScoredRow]) -> Table:
    table = Table(title, "class", "half", "measured us", "predicted us", "ratio", box=None)
    for row in rows:
        table.add_row(
            row.id, row.cls, row.split, f"{row.measured_us:.5g}", f"{row.predicted_us:.5g}", f"{row.ratio:.3f}"
        )
    return table

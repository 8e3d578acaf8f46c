"""What `hawkeye accuracy` does between its arguments and its table."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from hawkeye_mcp import state
from hawkeye_mcp.accuracy import scoring, shipped
from hawkeye_mcp.accuracy.rows import EXTRA, XLA_OPERATIONS, Row, rows, tokamax_version
from hawkeye_mcp.accuracy.shipped import Features
from hawkeye_mcp.profiler import interval
from hawkeye_mcp.profiler.timing import Model
from hawkeye_mcp.versions import versions

# What the rows of a chip can tell. Short steps, which wait for latency, were measured on v5e alone.
FITTED = {"v5e": ("clock", "hbm", "step_us", "latency", "estimate"), "7x": ("clock", "hbm", "step_us", "estimate")}


def chosen(chips: Collection[str], *, every: bool = False) -> list[Row]:
    """Rows of these chips; every: also those of XLA's programs for whole operations."""
    return [row for row in rows() if row.chip in chips and (every or row.file not in XLA_OPERATIONS)]


def fitted(chosen: Sequence[Row], features: Mapping[str, Features]) -> dict[str, Model]:
    return scoring.fitted(chosen, features, FITTED)


def scored(chosen: Sequence[Row], features: Mapping[str, Features]) -> scoring.Report:
    return scoring.report(chosen, features, versions(), tokamax_version() or shipped.load().tokamax)


def not_writable(chosen: Sequence[Row]) -> str | None:
    """Why intervals of these rows are not worth keeping."""
    if tokamax_version() is None:
        return f"intervals need the rows of tokamax, which is not installed: pip install {EXTRA}"
    if {row.chip for row in chosen} < {row.chip for row in rows()}:
        return "intervals need all chips at once; leave out --chip"
    return None


def write(chosen: Sequence[Row], features: Mapping[str, Features], found: scoring.Report) -> list[Path]:
    """The table of intervals, and what it rests on, for all chips at once."""
    state.write_atomically(interval.path(), interval.as_json(scoring.residuals(found)))
    version = tokamax_version()
    assert version, "not_writable asked"
    return [interval.path(), shipped.write(chosen, features, version)]

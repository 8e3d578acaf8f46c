"""Checks of workloads as a person reads them."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from hawkeye_mcp.display import plain
from hawkeye_mcp.workload_check.report import Checked, Mutant


def line(found: Checked) -> str:
    """One workload in a line, for progress."""
    if found.broken:
        return f"{found.name}: {found.problems[0]}"
    verdict = "ok" if found.ok else f"{len(found.problems)} problems"
    return f"{found.name}: {verdict}, {_taken(found)}"


def _taken(found: Checked) -> str:
    if found.seconds is None:
        return "not run"
    return f"{found.seconds:.1f} s" + (f", {found.peak_bytes / 1e9:.1f} GB" if found.peak_bytes else "")


def table(checks: Sequence[Checked], console: Console) -> None:
    """A row for each workload; then what is wrong, and what is known to pass although it is wrong."""
    rows = Table(box=None, pad_edge=False, header_style="dim")
    rows.add_column("workload", no_wrap=True)
    rows.add_column("")
    mutated = any(found.size == "check" for found in checks)
    for heading in (*(_OF_MUTANTS if mutated else ()), "honest", "gate", "s", "CPU s", "GB"):
        rows.add_column(heading, justify="right", no_wrap=True)
    for found in checks:
        rows.add_row(
            found.name,
            "ok" if found.ok else "FAILED",
            *(_of_mutants(found) if mutated else ()),
            _error(found),
            found.gate,
            _number(found.seconds),
            _number(found.cpu_seconds),
            _number(found.peak_bytes and found.peak_bytes / 1e9),
        )
    console.print(rows)
    for found in checks:
        for fit in found.fits:
            words = "compiles at full size" if fit.fits else f"does not compile at full size: {fit.words}"
            console.print(plain(f"{found.name} on {fit.tpu}: {words}"), soft_wrap=True)
        for note in found.notes:
            console.print(plain(f"{found.name}: {note}"), soft_wrap=True)
        for problem in found.problems:
            console.print(plain(f"{found.name}: {problem}"), soft_wrap=True)
        for mutant in found.mutants.allowed:
            console.print(
                plain(f"{found.name}: {_named(mutant)} passes, which is allowed: {mutant.reason}"), soft_wrap=True
            )
    good = sum(found.ok for found in checks)
    console.print(f"{good} of {len(checks)} workloads are ok.")


_OF_MUTANTS = ("power", "caught")


def _of_mutants(found: Checked) -> list[str]:
    told = found.mutants
    if found.broken:
        return [""] * len(_OF_MUTANTS)
    wrong = len(told.caught) + len(told.survived) + len(told.allowed)
    return ["" if found.power is None else f"{found.power:.0%}", f"{len(told.caught)} of {wrong}"]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _error(found: Checked) -> str:
    known = [variant.error for variant in found.honest if variant.error is not None]
    return f"{max(known):.2g}" if known else ""


def _named(mutant: Mutant) -> str:
    return mutant.name + (f" (line {mutant.line})" if mutant.line else "")

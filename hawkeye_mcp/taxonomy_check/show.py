"""Verified cells as a person reads them."""

from collections.abc import Sequence

from rich.console import Console

from hawkeye_mcp.display import plain, table
from hawkeye_mcp.taxonomy_check.report import Figure, Verified


def line(found: Verified) -> str:
    """One cell in a line, for progress."""
    verdict = "holds" if found.ok else f"{len(found.problems)} problems"
    return f"{found.row} on {found.tpu}: {verdict}, {found.seconds:.1f} s"


def cells(found: Sequence[Verified], console: Console) -> None:
    """A row for each cell, its claimed figures under it, and in the end what does not hold."""
    rows = table("row", "tpu", "", ">naive us", ">optimized us", ">speedup", ">claimed", "counters", "finding")
    for each in sorted(found, key=lambda each: each.row):  # a row's chips beside each other
        rows.add_row(
            each.row,
            each.tpu,
            "holds" if each.ok else "FAILED",
            *("" if us is None else f"{us:.5g}" for us in (each.naive_us, each.optimized_us)),
            "" if each.predicted_speedup is None else f"{each.predicted_speedup:.3g}",
            "{:g}-{:g}".format(*each.claimed_speedup),
            "no effect" if not each.applies else ", ".join(_figure(figure) for figure in each.counters),
            "yes" if each.named_by_profile else "",
        )
    console.print(rows)
    for each in found:
        for problem in each.problems:
            console.print(plain(f"{each.row} on {each.tpu}: {problem}"), soft_wrap=True)
    good = sum(each.ok for each in found)
    console.print(
        f"{good} of {len(found)} cells hold. Times are predicted; finding: the naive kernel's profile names the row."
    )


def _figure(found: Figure) -> str:
    ratio = "all" if found.ratio is None and found.claim_holds else "?" if found.ratio is None else f"{found.ratio:.3g}"
    return f"{found.name} {found.direction} {ratio}"

"""How a search looks on a terminal."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from hawkeye_mcp.autotune.refusals import refusals
from hawkeye_mcp.display import interval, line, plain, table, us, versions

if TYPE_CHECKING:
    from hawkeye_mcp.autotune.model import Autotuned, Looked

_SHOWN = 16  # points
_SHOWN_WAYS = 4  # to be refused
_COLOUR = {"better": "bold green", "indistinguishable": "bold yellow", "best_already": "bold yellow"}


def autotuned(found: "Autotuned", console: Console) -> None:
    """The result first, then the points, then what was refused and why."""
    colour = _COLOUR.get(found.status, "bold red")
    console.print(Text.assemble((found.status.replace("_", " "), colour), f"  {found.workload} on {found.tpu}"))
    console.print(plain(found.message), soft_wrap=True)
    console.print(Text.assemble(("Next: ", "bold"), plain(found.next_step)), soft_wrap=True)
    console.print()
    _points(found, console)
    _refused(found, console)
    counts = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in found.counts.items())
    early = f"; ended early by {found.stopped_by}" if found.stopped_by else ""
    stored = f"; {found.from_store} of them looked at before" if found.from_store else ""
    line(
        console,
        "looked at",
        f"{len(found.looked_at)} of {found.points} points by {found.strategy}, of {found.allowed} allowed: {counts}"
        f"{stored}{early}",
    )
    for rung in dict.fromkeys(each.rung for each in found.looked_at if each.rung):
        line(console, rung, found.rungs[rung])
    if found.gain or any(each.interval_us for each in found.looked_at):
        line(console, "in brackets", "where four of five such predictions were found to lie")
    if found.best_file:
        line(console, "written", found.best_file)
    line(console, "folder", f"{found.folder} (the same command goes on from there)")
    line(console, "took", f"{found.took_s:.1f} s")
    line(console, "versions", versions(found.versions))


def _points(found: "Autotuned", console: Console) -> None:
    names = list(found.parameters)
    known = [each for each in found.looked_at if each.rung]
    estimated = [">estimate us"] if any(each.estimate_us is not None for each in known) else []
    rows = table(*(f">{name}" for name in names), ">us", ">", *estimated, ">VMEM MB", "")
    for each in known[:_SHOWN]:
        measured = found.ranked_by == "measured"
        time = each.measured_us if measured else each.predicted_us
        least = "at least " if each.lower_bound else ""
        rows.add_row(
            *(str(each.parameters[name]) for name in names),
            f"{least}{us(time)}" if time is not None else "",
            interval(each.interval_us).strip() if not measured else "",
            *(us(each.estimate_us) if each.estimate_us is not None else "" for _ in estimated),
            f"{each.vmem_bytes / 1e6:.1f}" if each.vmem_bytes is not None else "",
            _mark(found, each),
        )
    if known:
        console.print(f"Points, best first; us are {found.ranked_by}.")
        console.print(rows)
    if len(known) > _SHOWN:
        console.print(f"and {len(known) - _SHOWN} more (--json has all)")
    console.print()


def _mark(found: "Autotuned", each: "Looked") -> str:
    marks = []
    if found.best and each.parameters == found.best.parameters:
        marks.append("winner")
    if each.parameters == found.own:
        marks.append("the file as it is")
    marks += [one.status for one in found.wrong if one.parameters == each.parameters]
    return ", ".join(marks)


def _refused(found: "Autotuned", console: Console) -> None:
    ways = refusals(found.looked_at)
    for refusal in ways[:_SHOWN_WAYS]:
        console.print(plain(str(refusal)), soft_wrap=True)
    if len(ways) > _SHOWN_WAYS:
        console.print(f"and {len(ways) - _SHOWN_WAYS} other ways (--json has all)")
    if ways:
        console.print()

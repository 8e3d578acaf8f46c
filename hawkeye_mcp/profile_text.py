"""A profile for a person: what binds and what to do on the first screen, then one table for each question.

What is unknown is called so where a reader looks for it; a table that would be empty is left out.
"""

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table

from hawkeye_mcp import display
from hawkeye_mcp.comparison import Comparison, Row, sections
from hawkeye_mcp.display import line, plain, table
from hawkeye_mcp.profile import Count, Finding, KernelProfile, Profile, Region, Roofline, Unit

BINDS: dict[Unit, str] = {
    "hbm": "most of the time the memory bus is waited for",
    "mxu": "most of the time the matrix units are at work",
    "vpu": "most of the time the vector units are at work",
    "eup": "most of the time transcendental functions are waited for",
    "latency": "most of the time something started too late is waited for, with no unit busy",
}
_BAR_CHARACTERS = 20
_SOURCE_CHARACTERS = 54  # with them a line of the table fits a terminal of 100 columns


def profile(found: Profile, console: Console) -> None:
    """Where the predicted time goes; never called correct, because nothing was verified."""
    display.headline(found, found.status, console)
    if found.timing or found.status == "profiled":
        console.print()
        _summary(found, console)
    display.compiler(found.compiler_message, console)
    if found.findings:
        console.print()
    for place, finding in enumerate(found.findings, start=1):
        _finding(place, finding, found.tpu, console)
    if found.timing:
        display.notes(found.timing, console)
        if found.timing.ops:
            console.print()
            display.operations(found.timing.ops, console)
    if found.roofline and found.roofline.ceilings:
        _show(console, _ceilings(found.roofline))
    for kernel in found.kernels:
        _kernel(kernel, console)
    if found.counters:
        _show(console, _counters(found.counters))
    console.print()
    line(console, "versions", display.versions(found.versions))


def _summary(found: Profile, console: Console) -> None:
    if found.timing:
        display.times(found.timing, console)
    if found.measured:
        display.times(found.measured, console)
        display.notes(found.measured, console)
    unknown = "unknown: the time is a lower bound" if found.timing and found.timing.lower_bound else "unknown"
    line(console, "bound", f"{found.bound}: {BINDS[found.bound]}" if found.bound else unknown)
    if roof := found.roofline:
        faster = f"{roof.best_speedup:.4g} times as fast: " if roof.best_speedup is not None else ""
        least = f"no kernel does this work in less than {display.us(roof.best_us)} us on {found.tpu} ({roof.binding})"
        line(console, "at best", faster + least)
    schedule = [
        ("bundles executed", found.executed_bundles),
        ("cycles waiting", found.stall_cycles),
        ("register spills", found.spills),
    ]
    if any(value is not None for _, value in schedule):
        line(console, "schedule", ", ".join(f"{number(value)} {name}" for name, value in schedule))
    memory = _memory(found)
    if memory:
        line(console, "memory", memory)


def _memory(found: Profile) -> str:
    parts = []
    if found.vmem_bytes is not None:
        limit = f" of {size(found.vmem_capacity_bytes)}" if found.vmem_capacity_bytes else ""
        parts.append(f"VMEM {size(found.vmem_bytes)}{limit}")
    if found.hbm_bytes is not None:
        parts.append(f"{size(found.hbm_bytes)} over HBM")
    elif parts:
        parts.append("bytes over HBM unknown")
    if found.hbm_temp_bytes:
        parts.append(f"{size(found.hbm_temp_bytes)} of HBM for temporaries")
    return ", ".join(parts)


def _finding(place: int, found: Finding, tpu: str, console: Console) -> None:
    line(console, f"finding {place}", found.text)
    shown = []
    if found.counter:
        shown.append(f"shown by {found.counter}" + (f" = {number(found.value)}" if found.value is not None else ""))
    if found.costs_us is not None:
        shown.append(f"costs about {display.us(found.costs_us)} us")
    if shown:
        line(console, "", "; ".join(shown))
    if found.taxonomy_row:
        line(console, "taxonomy", f"hawkeye taxonomy show {found.taxonomy_row} --tpu {tpu}")


def _ceilings(found: Roofline) -> Table:
    rows = table("ceiling", ">least us", ">work", "of", ">rate a second", "the rate is from")
    for ceiling in sorted(found.ceilings, key=lambda c: -c.us):
        work, rate = f"{ceiling.work:.4g}", f"{ceiling.rate:.4g}"
        rows.add_row(ceiling.unit, display.us(ceiling.us), work, ceiling.work_unit, rate, ceiling.source)
    return rows


def _counters(found: dict[str, Count]) -> Table:
    shares = any(count.peak_share is not None for count in found.values())
    rows = table("counter", ">total", ">per step", "unit", *([">of peak"] if shares else []))
    for name, count in found.items():
        of_peak = [share(count.peak_share) if count.peak_share is not None else ""] if shares else []
        rows.add_row(name, number(count.total), number(count.per_step), count.unit, *of_peak)
    return rows


def comparison(found: Comparison, console: Console) -> None:
    """The other candidate against this one: time first, then a table for each kind of figure.

    Of one that could not be profiled there is only what was said of it.
    """
    this, other = found.this, found.other
    for name, one in (("this", this), ("other", other)):
        if one.status != "profiled":
            console.print(f"{name}:")
            display.headline(one, one.status, console)
            display.compiler(one.compiler_message, console)
    if {this.status, other.status} != {"profiled"}:
        return
    console.print(f"compared  {this.workload} on {this.tpu}")
    line(console, "in short", _in_short(this, other))
    for name, one in (("this", this), ("other", other)):
        console.print()
        line(console, name, f"bound by {one.bound}" if one.bound else "bound unknown")
        if one.timing:
            display.times(one.timing, console)
            display.notes(one.timing, console)
        if one.findings:
            line(console, "finding 1", one.findings[0].text)
    for section, entries in sections(this, other).items():
        if entries:
            rows = table(_SECTIONS[section], ">this", ">other", ">other / this")
            for row in entries:
                rows.add_row(plain(row.name), number(row.this), number(row.other), _ratio(row))
            _show(console, rows)
    console.print()
    line(console, "versions", display.versions(this.versions))


_SECTIONS = {
    "": "in all",
    "counters": "counter",
    "stalls": "cycles waiting for",
    "memory": "on the chip",
    "traffic": "bytes over HBM",
}


def _in_short(this: Profile, other: Profile) -> str:
    if not this.predicted_us or other.predicted_us is None:
        return "the time of one of them is unknown"
    told = f"the other takes {other.predicted_us / this.predicted_us:.4g} times as long as this one (predicted)"
    mine, its = (one.timing.candidate_interval_us if one.timing else None for one in (this, other))
    if mine and its and mine[0] <= its[1] and its[0] <= mine[1]:
        told += "; the intervals overlap, so which is faster is not certain"
    return told


def _ratio(row: Row) -> str:
    if row.ratio is not None:
        return f"{row.ratio:.4g}"
    return "unknown" if row.this is None or row.other is None else "=" if row.other == 0 else "from 0"


# --- one kernel


def _kernel(found: KernelProfile, console: Console) -> None:
    tables = [_cycles(found), _regions(found.regions), _slots(found), _buffers(found), _traffic(found)]
    if found.cycles is None and not any(tables):
        return
    grid = f"grid {' x '.join(map(str, found.grid))}" if found.grid else "no grid"
    calls = f", {found.calls} calls" if found.calls != 1 else ""
    time = f"{display.us(found.us)} us, a schedule of {number(found.cycles)} cycles"
    console.print()
    line(console, "kernel", f"{found.name}, {grid}{calls}: {'time unknown' if found.cycles is None else time}")
    if found.phases:
        p = found.phases
        steps = (
            f"{number(p.prologue_cycles)} cycles before the first step, {number(p.step_cycles)} for each of {p.steps:,}"
        )
        line(console, "", f"{steps}, {number(p.epilogue_cycles)} after the last")
    if found.registers:
        r = found.registers
        spilled = f"{number(r.spills)} spills and {number(r.fills)} fills executed"
        line(console, "", f"{r.pressure} vectors live at once for {r.capacity} registers; {spilled}")
    for rows in tables:
        if rows:
            _show(console, Padding(rows, (0, 0, 0, 2), expand=False))


def _cycles(found: KernelProfile) -> Table | None:
    """What the cycles of one run are spent on: bundles that were issued, and each thing waited for."""
    if not found.cycles or (not found.stalls and found.executed_bundles is None):
        return None
    spent = [(f"waiting for {stall.cause}", stall.cycles, stall.share) for stall in found.stalls]
    if found.executed_bundles is not None:
        issuing = found.executed_bundles
        spent.append(("issuing bundles", issuing, issuing / found.cycles))
    rows = table("cycles go to", ">cycles", ">share", "")
    for name, cycles, part in sorted(spent, key=lambda entry: -entry[1]):
        rows.add_row(plain(name), number(cycles), share(part), bar(part))
    return rows


def _regions(found: list[Region]) -> Table | None:
    if not found:
        return None
    rows = table(">line", ">cycles", ">share", ">waiting", "text")
    for region in found:
        where = "" if region.line is None else str(region.line)
        text = cut(region.text.strip()) or ("(of no line of the file)" if region.line is None else "")
        rows.add_row(where, number(region.cycles), share(region.share), number(region.stall_cycles), plain(text))
    return rows


def _slots(found: KernelProfile) -> Table | None:
    if not found.slots:
        return None
    of = f"slot in {found.hot_loop}" if found.hot_loop else "slot in the hot loop"
    rows = table(of, ">used", ">of", ">occupancy", "")
    for slot in found.slots:
        rows.add_row(slot.name, f"{slot.used:.3g}", str(slot.capacity), share(slot.occupancy), bar(slot.occupancy))
    return rows


def _buffers(found: KernelProfile) -> Table | None:
    if not found.buffers:
        return None
    rows = table("memory for", "kind", "in", ">copies", ">bytes")
    for buffer in found.buffers:
        rows.add_row(plain(buffer.name), buffer.kind, buffer.space, str(buffer.copies), f"{buffer.bytes:,}")
    return rows


def _traffic(found: KernelProfile) -> Table | None:
    if not found.traffic:
        return None
    rows = table("over HBM", "", ">bytes", ">the array once", ">times")
    for t in found.traffic:
        times = "unknown" if t.factor is None else f"{t.factor:.4g}"
        rows.add_row(plain(t.operand), t.direction, f"{t.bytes:,}", f"{t.least_bytes:,}", times)
    return rows


# --- figures


def number(value: float | None) -> str:
    """A count: whole above a hundred, where a fraction only comes from sampling."""
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"


def share(value: float) -> str:
    return "<0.1 %" if 0 < value < 0.0005 else f"{100 * value:.1f} %"


def cut(text: str) -> str:
    return text if len(text) <= _SOURCE_CHARACTERS else text[: _SOURCE_CHARACTERS - 1] + "…"


def bar(value: float) -> str:
    return "█" * round(_BAR_CHARACTERS * min(max(value, 0.0), 1.0))


def size(value: float | None) -> str:
    if value is None:
        return "unknown"
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(value) >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value:.0f} bytes"


def _show(console: Console, what: RenderableType) -> None:
    console.print()
    console.print(what)

"""What a profile answers: the figures as numbers, each table of the whole as a few lines, worst first.

The whole, with every kernel's own figures, is the resource.
"""

from typing import Any

from pydantic import BaseModel, Field

from hawkeye_mcp import comparison
from hawkeye_mcp.conditions import Condition, shows
from hawkeye_mcp.profile import Count, Finding, KernelProfile, Profile
from hawkeye_mcp.tools.reports import Report, common

# Beyond these the lines cost a client more than they tell.
LONGEST_LIST = 8
LONGEST_SOURCE_TEXT = 80


class Look(BaseModel):
    """A look into one kernel file's schedule."""

    status: str = Field(description="profiled, or as of evaluate_kernel, whose answer's fields are all here too")
    predicted_us: float | None = None
    measured_us: float | None = Field(None, description="where the machine has this TPU")
    bound: str | None = Field(None, description="hbm, mxu, vpu, eup or latency")
    best_us: float | None = Field(None, description="the least the chip needs for this work")
    best_speedup: float | None = Field(None, description="predicted_us / best_us")
    executed_bundles: float | None = None
    stall_cycles: float | None = None
    spills: float | None = None
    vmem_bytes: int | None = None
    vmem_capacity_bytes: int | None = None
    hbm_bytes: int | None = None
    findings: list[dict[str, Any]] = Field([], description="worst first: text, counter, value, costs_us")
    counters: dict[str, dict[str, Any]] = Field({}, description="each total, per_step, unit, peak_share")
    ops: list[str] = []
    stalls: list[str] = []
    lines: list[str] = Field([], description="cycles by line of the file")
    slots: list[str] = Field([], description="occupancy of the hot loop")
    memory: list[str] = []
    traffic: list[str] = []
    ceilings: list[str] = []
    ratios: dict[str, Any] = Field({}, description="of the profile it is against")


class LookWithRows(Look):
    taxonomy_rows: list[str] = Field([], description="cells that address the findings")


class ProfileReport(Look, Report):
    """What the profile tool answers."""


class ProfileReportWithRows(LookWithRows, Report):
    """What the profile tool answers where cells can be read."""


def published(condition: Condition) -> type[Look]:
    """What the profile tool publishes of its answer: evaluate_kernel publishes the rest, and every client pays for
    each letter."""
    return LookWithRows if shows(condition, "taxonomy") else Look


def profile_model(condition: Condition) -> type[ProfileReport | ProfileReportWithRows]:
    return ProfileReportWithRows if shows(condition, "taxonomy") else ProfileReport


def of_profile(profile: Profile, condition: Condition, *, job_id: str, full: str) -> Report:
    """The report of a finished profile, as the condition may see it; full: the resource with the whole."""
    roofline, several = profile.roofline, len(profile.kernels) > 1
    fields: dict[str, Any] = {}
    if shows(condition, "taxonomy"):
        rows = dict.fromkeys(found.taxonomy_row for found in profile.findings if found.taxonomy_row)
        fields["taxonomy_rows"] = list(rows)
    named = [(f"{kernel.name}: " if several else "", kernel) for kernel in profile.kernels]
    return profile_model(condition)(
        **common(profile),
        **fields,
        job_id=job_id,
        full=full,
        predicted_us=profile.predicted_us,
        measured_us=profile.measured.candidate_us if profile.measured else None,
        bound=profile.bound,
        best_us=roofline.best_us if roofline else None,
        best_speedup=roofline.best_speedup if roofline else None,
        executed_bundles=profile.executed_bundles,
        stall_cycles=profile.stall_cycles,
        spills=profile.spills,
        vmem_bytes=profile.vmem_bytes,
        vmem_capacity_bytes=profile.vmem_capacity_bytes,
        hbm_bytes=profile.hbm_bytes,
        findings=[_finding(found) for found in profile.findings],
        counters={name: _count(count) for name, count in profile.counters.items()},
        ops=[
            f"{op.name}: {op.us:.4g} us x{op.calls}, {op.kind}, bound by {op.bound}, {op.method}"
            for op in (profile.timing.ops if profile.timing else [])
        ],
        stalls=_stalls(named),
        lines=_lines(named),
        slots=_slots(profile.kernels),
        memory=_memory(named),
        traffic=_traffic(named),
        ceilings=[
            f"{c.unit}: {c.us:.4g} us for {c.work:.4g} {c.work_unit} at {c.rate:.4g}/s ({c.source})"
            for c in (roofline.ceilings if roofline else [])
        ],
    )


def ratios(profile: Profile, earlier: Profile) -> dict[str, float | None]:
    """The earlier figures over these, four digits of each; memory and traffic by operand are left to the whole."""
    found = comparison.compare(profile, earlier).ratios
    return {
        name: None if ratio is None else float(f"{ratio:.4g}")
        for name, ratio in found.items()
        if not name.startswith(("memory.", "traffic."))
    }


Named = list[tuple[str, KernelProfile]]


def _finding(found: Finding) -> dict[str, Any]:
    return found.model_dump(exclude={"taxonomy_row"}, exclude_none=True)


def _count(count: Count) -> dict[str, Any]:
    return count.model_dump(exclude={"peak_share"} if count.peak_share is None else None)


def _largest(lines: list[tuple[float, str]]) -> list[str]:
    """The texts of the lines with the largest weights, largest first."""
    return [text for _, text in sorted(lines, key=lambda line: -line[0])[:LONGEST_LIST]]


def _stalls(named: Named) -> list[str]:
    return _largest(
        [
            (stall.cycles * kernel.calls, f"{name}{stall.cause}: {stall.cycles:.0f} cycles, {stall.share:.1%}")
            for name, kernel in named
            for stall in kernel.stalls
        ]
    )


def _lines(named: Named) -> list[str]:
    found = []
    for name, kernel in named:
        for region in kernel.regions:
            where = "no line" if region.line is None else f"line {region.line}"
            text = region.text.strip()[:LONGEST_SOURCE_TEXT]
            said = f"{name}{where}: {region.cycles:.0f} cycles, {region.share:.1%}, {region.stall_cycles:.0f} waiting"
            found.append((region.cycles * kernel.calls, f"{said}: {text}" if text else said))
    return _largest(found)


def _slots(kernels: list[KernelProfile]) -> list[str]:
    """Of the kernel that takes the most cycles: one loop's slots are enough to read."""
    kernel = hottest(kernels)
    if kernel is None or not kernel.slots:
        return []
    pressure = kernel.registers
    found = [f"{s.name}: {s.used:.3g} of {s.capacity}, {s.occupancy:.0%}" for s in kernel.slots]
    if pressure:
        found.append(f"vector registers: {pressure.pressure} live of {pressure.capacity}")
    return [f"{kernel.name}: {kernel.hot_loop}", *found] if kernel.hot_loop else found


def hottest(kernels: list[KernelProfile]) -> KernelProfile | None:
    """The kernel that takes the most cycles over all its calls, or of which none are known the first."""
    return max(kernels, key=lambda kernel: (kernel.cycles or 0.0) * max(kernel.calls, 1), default=None)


def _memory(named: Named) -> list[str]:
    return _largest(
        [
            (b.bytes, f"{name}{b.name}: {b.bytes} bytes {b.space} {b.kind}" + (f", {b.copies} copies" * (b.copies > 1)))
            for name, kernel in named
            for b in kernel.buffers
        ]
    )


def _traffic(named: Named) -> list[str]:
    return _largest(
        [
            (
                t.bytes * kernel.calls,
                f"{name}{t.operand}: {t.bytes} bytes {t.direction}, "
                + (f"{t.factor:.3g} times the array" if t.factor is not None else f"least {t.least_bytes}"),
            )
            for name, kernel in named
            for t in kernel.traffic
        ]
    )

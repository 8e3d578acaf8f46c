"""From the looks at a few short grids to counters of the whole run.

Counts of the points of a sampling plan add up the way their cycles do. What a sampled difference leaves below zero, a
few cycles of noise times the number of steps, is cut to zero and the rest scaled so that parts still sum to the whole.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hawkeye_mcp.profile import Count, KernelProfile, Phases, Region, Registers, Slot, Stall
from hawkeye_mcp.profiler.schedule import VECTOR_REGISTERS

LINES = 12  # regions told apart; the rest is one

# How many of these a core can issue in one cycle: the slot that its instruction takes in libtpu's table.
_SLOTS = {
    "mxu_matmuls": "MATMUL",
    "mxu_pushes": "MATPUSH",
    "xlu_ops": "XLU",
    "valu_ops": "VALU",
    "result_pops": "VPOP",
    "eup_ops": "EUP",
    "vector_loads": "VLOAD",
    "vector_fills": "VLOAD:FILL",
    "vector_stores": "VSTORE",
    "vector_spills": "VSTORE:SPILL",
    "scalar_ops": "SALU",
}
_UNKNOWN: dict[str, Any] = {"capacity": {}, "busy": {}, "hot": None, "pressure": None, "flops_per_matmul": None}
_COLUMNS = {column: counter for counter, column in _SLOTS.items()}


@dataclass(frozen=True)
class Run:
    """One run of a kernel over its whole grid; counts are of all cores that work on it, cycles of each.

    busy: slots that an instruction occupies, where it is more than one. capacity: slots of a bundle, of one core.
    """

    profile: KernelProfile
    calls: int
    counts: dict[str, float]
    busy: dict[str, float]
    capacity: dict[str, int]
    cores: int


def run(plan: Mapping[str, Any], calls: int, source: str) -> Run | None:
    """One kernel from its sampling plan and the look at each point, or None if a point has none.

    plan: the profiler's reply on the kernel, with "looks", one for each of "points". source: the kernel file's text.
    """
    looks: Sequence[dict[str, Any] | None] = plan.get("looks") or [None]
    if any(look is None for look in looks):
        return None
    seen = [(weight, look) for weight, look in zip(plan["weights"], looks, strict=True) if look is not None]
    # The longest grid shows best what the middle of the run is like, and of its kinds of step the one that does most;
    # of these alone the static schedule was dumped.
    _, last = max(
        zip(plan["points"], (look for _, look in seen), strict=True),
        key=lambda item: (item[1]["static"] is not None, math.prod(item[0]), item[1]["issued"]),
    )
    static = last["static"] or _UNKNOWN
    sums = _summed((weight, {"cycles": look["cycles"], "issued": look["issued"]}) for weight, look in seen)
    cycles, issued = sums["cycles"], min(sums["cycles"], sums["issued"])
    counts = {
        name: last["cores"] * value
        for name, value in _summed((weight, look["counts"]) for weight, look in seen).items()
    }
    if plan.get("moved_bytes"):  # the profile does not know which blocks move where values in SMEM decide that
        counts["hbm_read_bytes"], counts["hbm_written_bytes"] = map(float, plan["moved_bytes"])
    stalls = _scaled(_summed((weight, look["stalls"]) for weight, look in seen), cycles - issued)
    places = _scaled(_summed((weight, {place: n for place, n, _ in look["places"]}) for weight, look in seen), cycles)
    waits = _summed((weight, {place: n for place, _, n in look["places"]}) for weight, look in seen)
    steps = math.prod(plan["grid"])
    on_core = -(-steps // last["cores"])
    before, after = last["before"], last["after"]
    slots, described = _slots(static, counts, issued, last["cores"])
    profile = KernelProfile(
        name=plan["name"],
        grid=plan["grid"],
        calls=calls,
        cycles=cycles,
        executed_bundles=issued,
        stall_cycles=cycles - issued,
        phases=Phases(
            prologue_cycles=before,
            step_cycles=max(0.0, cycles - before - after) / on_core,
            epilogue_cycles=after,
            steps=on_core,
        ),
        stalls=[Stall(cause=cause, cycles=value, share=value / cycles) for cause, value in _by_size(stalls)],
        regions=_regions(places, _scaled(waits, cycles - issued), cycles, source.splitlines()),
        hot_loop=described,
        slots=slots,
        registers=Registers(
            pressure=static["pressure"],
            capacity=VECTOR_REGISTERS,
            spills=counts["vector_spills"],
            fills=counts["vector_fills"],
        )
        if static["pressure"] is not None
        else None,
    )
    if static["flops_per_matmul"] is not None:
        counts["mxu_flops"] = counts["mxu_matmuls"] * static["flops_per_matmul"]
    return Run(profile, calls, counts, static["busy"], static["capacity"], last["cores"])


def _summed(weighted: Iterable[tuple[float, Mapping[Any, float]]]) -> dict[Any, float]:
    """sum(weight * counts) of each name; noise below zero is cut to zero."""
    found: dict[Any, float] = {}
    for weight, counts in weighted:
        for name, value in counts.items():
            found[name] = found.get(name, 0.0) + weight * value
    return {name: max(0.0, value) for name, value in found.items()}


def _scaled(parts: Mapping[Any, float], total: float) -> dict[Any, float]:
    """Parts that sum to the total, those that are nothing left out."""
    summed = sum(parts.values())
    return {name: value * total / summed for name, value in parts.items() if value} if summed else {}


def _by_size(parts: Mapping[Any, float]) -> list[tuple[Any, float]]:
    return sorted(parts.items(), key=lambda item: -item[1])


def _regions(
    places: Mapping[int | str, float], stalls: Mapping[int | str, float], cycles: float, source: list[str]
) -> list[Region]:
    ranked = _by_size(places)
    found = [
        Region(
            line=place if isinstance(place, int) else None,
            text=_line(source, place) if isinstance(place, int) else place,
            cycles=value,
            stall_cycles=min(value, stalls.get(place, 0.0)),
            share=value / cycles,
        )
        for place, value in ranked[:LINES]
    ]
    if rest := ranked[LINES:]:
        left = sum(value for _, value in rest)
        waited = sum(stalls.get(place, 0.0) for place, _ in rest)
        text = f"{len(rest)} others"
        found.append(Region(line=None, text=text, cycles=left, stall_cycles=min(left, waited), share=left / cycles))
    return found


def _line(source: list[str], number: int) -> str:
    return source[number - 1].strip() if 0 < number <= len(source) else ""


def _slots(static: Mapping[str, Any], counts: Mapping[str, float], issued: float, cores: int) -> tuple[list[Slot], str]:
    """Slots of the hot loop, and which loop that is."""
    capacity: dict[str, int] = static["capacity"]
    if not capacity or not issued:
        return [], ""
    if hot := static["hot"]:
        first, last = hot["bundles"]
        used = {name: n / (last - first + 1) for name, n in hot["used"].items()}
        lines = f", lines {hot['lines'][0]} to {hot['lines'][1]}" if hot["lines"] else ""
        described = f"inner loop of {last - first + 1} bundles{lines}"
    else:
        per_bundle = {
            column: counts.get(counter, 0.0) * static["busy"].get(counter, 1.0) / cores / issued
            for column, counter in _COLUMNS.items()
        }
        used = {name: per_bundle.get(name, 0.0) for name in capacity}
        described = "all bundles of the run"
    found = []
    for name, slots in capacity.items():
        mean = min(used[name], float(slots))
        found.append(Slot(name=name, capacity=slots, used=mean, occupancy=mean / slots))
    return found, described


def counters(
    runs: Sequence[Run], peaks: Mapping[str, float], us: float | None, *, eight_bit: bool, sized: bool
) -> dict[str, Count]:
    """Counters over all kernels and all their calls.

    peaks: of one device. us: what the kernels take together, the share of HBM's bandwidth is of it. eight_bit: whether
    matmuls have 8-bit operands, whose peak may be another. sized: whether the sizes of all transfers are known; without
    them there are no counters of bytes.
    """
    steps = sum(r.calls * math.prod(r.profile.grid) for r in runs)
    cycles = sum(r.calls * (r.profile.cycles or 0.0) for r in runs)

    def total(name: str) -> float:
        return sum(r.calls * r.counts[name] for r in runs)

    def share(name: str) -> float | None:
        """Of the slots that the cores which work have in the kernels' cycles, those that the counter's take."""
        slot = _SLOTS.get(name)
        if slot is None or not all(slot in r.capacity for r in runs):
            return None
        used = sum(r.calls * r.counts[name] * r.busy.get(name, 1.0) for r in runs)
        slots = sum(r.calls * (r.profile.cycles or 0.0) * r.capacity[slot] * r.cores for r in runs)
        return min(1.0, used / slots) if slots else None

    flops_per_cycle = peaks["eight_bit_ops_per_s" if eight_bit else "bf16_flops_per_s"] / peaks["clock_hz"]
    known: dict[str, tuple[float, str, float | None]] = {
        "executed_bundles": (sum(r.calls * (r.profile.executed_bundles or 0.0) for r in runs), "bundles", None),
        "stall_cycles": (sum(r.calls * (r.profile.stall_cycles or 0.0) for r in runs), "cycles", None),
    }
    if all("mxu_flops" in r.counts for r in runs):
        flops = total("mxu_flops")
        known["mxu_flops"] = (flops, "FLOP", min(1.0, flops / (cycles * flops_per_cycle)) if cycles else None)
    for name in runs[0].counts if runs else ():
        if name in ("unsized_transfers", "mxu_flops") or (not sized and name.endswith("_bytes")):
            continue
        if name.endswith("_bytes"):
            moved = total(name)
            of_peak = min(1.0, moved / (us * 1e-6 * peaks["hbm_bytes_per_s"])) if us else None
            known[name] = (moved, "bytes", of_peak)
        else:
            known[name] = (total(name), "count", share(name))
    return {
        name: Count(
            total=_rounded(value), per_step=_rounded(value / steps) if steps else None, unit=unit, peak_share=part
        )
        for name, (value, unit, part) in known.items()
    }


def _rounded(value: float) -> float:
    """Without the digits that extrapolation only seems to give."""
    return float(round(value)) if value >= 1000 else float(f"{value:.4g}")

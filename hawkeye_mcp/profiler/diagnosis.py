"""From figures to at most three plain findings, worst first, each with the figure that shows it."""

from collections.abc import Collection

from hawkeye_mcp.profile import Finding
from hawkeye_mcp.profiler import detect_blocks, detect_transfers, detect_units
from hawkeye_mcp.profiler.units import VALU_SLOTS
from hawkeye_mcp.profiler.view import ELEMENTS, View, finding, us

MOST = 3
NEAR = 0.06  # of the time: so close to the ceiling no cause is sought
WORTH = 0.03  # of the time: what costs less is left out


def diagnose(view: View, rows: Collection[str]) -> list[Finding]:
    """rows: those that exist for the chip; a finding names no other."""
    lost_us = view.total_us - view.ideal_us
    # no predicted time has in it what copies by hand may cost
    by_hand_us = sum(one.costs_us or 0.0 for one in detect_transfers.waiting_by_hand(view))
    if max(lost_us, by_hand_us) <= NEAR * view.total_us:
        return [_near(view)]
    found = [
        one
        for detect in (*detect_transfers.DETECTORS, *detect_units.DETECTORS, *detect_blocks.DETECTORS)
        for one in detect(view)
        if (one.costs_us or 0.0) >= WORTH * view.total_us
    ]
    rest_us = lost_us - sum(one.costs_us or 0.0 for one in found)
    if lost_us > 0.15 * view.total_us and rest_us > 0.5 * lost_us:
        found.append(_rest(view, rest_us))
    found.sort(key=lambda one: -(one.costs_us or 0.0))
    if not found:
        found = [_near(view)]
    for one in found:
        if one.taxonomy_row not in rows:
            one.taxonomy_row = None
    return found[:MOST]


def _rest(view: View, rest_us: float) -> Finding:
    """The distance to the ceiling, where no single cause stands out."""
    if view.mxu_floor_us > view.hbm_floor_us:
        share = view.mxu_floor_us / view.total_us
        return finding(
            f"The kernels take {us(view.total_us)} where the MXU needs {us(view.mxu_floor_us)} ({100 * share:.0f} % of its"
            f" peak){_step(view)}. Give each matmul larger blocks of bfloat16 operands, and take everything else out of the"
            " innermost loop.",
            "roofline.ceilings[mxu].us",
            view.mxu_floor_us,
            rest_us,
            "01_mxu_feed",
        )
    return finding(
        f"The kernels take {us(view.total_us)} where HBM needs {us(view.hbm_floor_us)} for the workload's inputs and outputs"
        f"{_step(view)}. Do less vector work per element, and move nothing else.",
        "roofline.ceilings[hbm].us",
        view.hbm_floor_us,
        rest_us,
    )


def _step(view: View) -> str:
    """What a step of the longest kernel is made of, as far as its own operations tell."""
    kernel = max(view.kernels, key=lambda kernel: kernel.total_us, default=None)
    if kernel is None or not kernel.anatomy.step or not kernel.profile.cycles:
        return ""
    work = kernel.anatomy.step
    cores = view.cores if kernel.anatomy.parallel_axes else 1
    cycles = kernel.profile.cycles / max(1, kernel.steps - kernel.anatomy.idle_steps) * cores
    per_cycle = view.peaks["bf16_flops_per_s"] / view.cores / view.peaks["clock_hz"]
    parts = {
        "matmuls": work.flops / per_cycle,
        "vector arithmetic": work.vector_elements / (VALU_SLOTS * ELEMENTS),
        "transcendentals": work.transcendental_elements / ELEMENTS,
    }
    told = ", ".join(f"{name} {part:,.0f}" for name, part in parts.items() if part >= 0.02 * cycles)
    if not told:
        return ""
    return f"; of the {cycles:,.0f} cycles of a step of {kernel.profile.name} the work at full speed is {told}"


def _near(view: View) -> Finding:
    if view.timing.lower_bound:
        return Finding(
            text="The time is a lower bound (the notes on it say why), so how far it is from the ceiling is not known."
        )
    above = max(0.0, view.total_us / view.ideal_us - 1)
    unit = "the MXU" if view.mxu_floor_us > view.hbm_floor_us else "HBM"
    return finding(
        f"Within {100 * above:.0f} % of what {unit} needs for this workload ({us(view.ideal_us)}): little is left to gain in"
        " these kernels.",
        "roofline.best_us",
        view.ideal_us,
        max(0.0, view.total_us - view.ideal_us),
    )

"""From figures to at most three plain findings, worst first, each with the figure that shows it."""

from collections.abc import Collection

from hawkeye_mcp.profile import Finding
from hawkeye_mcp.profiler import detect_transfers, detect_units
from hawkeye_mcp.profiler.view import View, finding, us

MOST = 3
WORTH = 0.03  # of the time: what costs less is left out


def diagnose(view: View, rows: Collection[str]) -> list[Finding]:
    """rows: those that exist for the chip; a finding names no other."""
    found = [
        one
        for detect in (*detect_transfers.DETECTORS, *detect_units.DETECTORS)
        for one in detect(view)
        if (one.costs_us or 0.0) >= WORTH * view.total_us
    ]
    explained = sum(one.costs_us or 0.0 for one in found)
    lost_us = view.total_us - view.ideal_us
    if lost_us > 0.15 * view.total_us and explained < 0.5 * lost_us:
        found.append(_rest(view))
    found.sort(key=lambda one: -(one.costs_us or 0.0))
    if not found:
        found = [_near(view)]
    return [one if one.taxonomy_row in rows else one.model_copy(update={"taxonomy_row": None}) for one in found[:MOST]]


def _rest(view: View) -> Finding:
    """The distance to the ceiling, where no single cause stands out."""
    lost_us = view.total_us - view.ideal_us
    if view.mxu_floor_us > view.hbm_floor_us:
        share = view.mxu_floor_us / view.total_us
        return finding(
            f"The kernels take {us(view.total_us)} where the MXU needs {us(view.mxu_floor_us)} ({100 * share:.0f} % of its peak):"
            " give each matmul larger blocks of bfloat16 operands, and take everything else out of the innermost loop.",
            "roofline.ceilings[mxu].us",
            view.mxu_floor_us,
            lost_us,
            "01_mxu_feed",
        )
    return finding(
        f"The kernels take {us(view.total_us)} where HBM needs {us(view.hbm_floor_us)} for the workload's inputs and outputs: do"
        " less vector work per element, and move nothing else.",
        "roofline.ceilings[hbm].us",
        view.hbm_floor_us,
        lost_us,
    )


def _near(view: View) -> Finding:
    above = view.total_us / view.ideal_us - 1
    unit = "MXU" if view.mxu_floor_us > view.hbm_floor_us else "HBM"
    return finding(
        f"Within {100 * above:.0f} % of what {unit} needs for this workload ({us(view.ideal_us)}): little is left to gain in these"
        " kernels.",
        "roofline.best_us",
        view.ideal_us,
        view.total_us - view.ideal_us,
    )

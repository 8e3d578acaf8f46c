"""How busy each unit of a core is while a candidate's kernels run, and which of them most of the time goes to."""

from hawkeye_mcp.profile import Unit
from hawkeye_mcp.profiler.view import View

# Slots of a bundle as the header of libtpu's utilisation dump gives them; of vector arithmetic and transcendentals
# see view.py.
VALU_SLOTS, EUP_SLOTS, LOAD_SLOTS, SCALAR_SLOTS = 4, 1, 3, 2
XLU_SLOTS = {"v5e": 3, "v5p": 3, "v6e": 2, "7x": 2}
STORE_SLOTS = {"v5e": 1, "v5p": 1, "v6e": 2, "7x": 2}
# Below this share of the time no unit is what the kernels wait for.
BUSY = 0.5


def shares(view: View) -> dict[str, float]:
    """Of the kernels' cycles, those that each unit's work takes at least, 0 to 1.

    mxu: the FLOPs, as many times as a matmul's precision passes them, at the bfloat16 peak. xlu: moves between lanes.
    vmem: loads and stores of vectors.
    """
    return {
        "mxu": min(1.0, _mxu(view)),
        "valu": view.share("valu_ops", VALU_SLOTS),
        "eup": view.share("eup_ops", EUP_SLOTS),
        "xlu": view.share("xlu_ops", XLU_SLOTS[view.tpu]),
        "vmem": max(view.share("vector_stores", STORE_SLOTS[view.tpu]), view.share("vector_loads", LOAD_SLOTS)),
    }


def _mxu(view: View) -> float:
    matmuls = [m for kernel in view.kernels for m in kernel.anatomy.matmuls]
    flops = sum(m.flops for m in matmuls)
    passes = sum(m.flops * m.passes for m in matmuls) / flops if flops else 0.0
    counted = view.counters.get("mxu_flops")
    if counted and counted.peak_share is not None:
        return counted.peak_share * passes
    return view.mxu_floor_us / view.kernels_us * passes if view.kernels_us else 0.0


def bound(view: View) -> Unit | None:
    """What most of the time waits for; "vpu" is all of the vector unit: arithmetic, moves between lanes, VMEM.

    None where the schedule was not counted and neither HBM nor the MXU stands out, and of a time that is a lower bound:
    what it leaves out may be what is waited for.
    """
    if view.timing.lower_bound:
        return None
    by_hbm_us = sum(op.us for op in view.timing.ops if op.bound == "hbm")
    if by_hbm_us >= BUSY * view.total_us:
        return "hbm"
    over_hbm_us = sum((op.hbm_floor_us or 0.0) * op.calls for op in view.timing.ops)
    busy = shares(view)
    units: dict[Unit, float] = {
        "hbm": over_hbm_us / view.total_us,
        "mxu": busy["mxu"],
        "vpu": max(busy["valu"], busy["xlu"], busy["vmem"]),
        "eup": busy["eup"],
    }
    busiest = max(units, key=lambda unit: units[unit])
    if not {"executed_bundles", "stall_cycles"} <= view.counters.keys():
        return busiest if units[busiest] >= BUSY else None
    stalls = view.counters["stall_cycles"].total
    waiting = stalls / max(stalls + view.counters["executed_bundles"].total, 1.0)
    return "latency" if waiting > units[busiest] else busiest

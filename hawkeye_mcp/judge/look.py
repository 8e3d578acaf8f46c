"""What a look into a candidate says beyond its time: memory, traffic, roofline, what binds, findings.

Put together from the plan of its kernels, the compiled program and, where they were counted, the executed schedules.
"""

import logging
from typing import Any

from hawkeye_mcp import taxonomy
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.profile import Count, Finding, KernelProfile
from hawkeye_mcp.profiler import diagnosis, roofline
from hawkeye_mcp.profiler.anatomy import Anatomy
from hawkeye_mcp.profiler.buffers import buffers, traffic
from hawkeye_mcp.profiler.timing import rounded
from hawkeye_mcp.profiler.view import Kernel, View

logger = logging.getLogger(__name__)


def fields(work: Work) -> dict[str, Any]:
    """Fields of the Profile; those of a candidate without a predicted time are those that need none."""
    timing = work.predicted or work.timing  # a measured time says nothing of where it goes
    if not timing or not work.peaks:
        return dict(work.look)
    kernels = _kernels(work)
    profiles = [kernel.profile for kernel in kernels]
    counters: dict[str, Count] = work.look.get("counters", {})
    totals = [kernel["vmem_bytes"] for kernel in work.kernels if kernel.get("vmem_bytes") is not None]
    moved = [(op.hbm_bytes or 0) * op.calls for op in timing.ops]
    found: dict[str, Any] = {
        **work.look,
        "kernels": profiles,
        "vmem_bytes": max(totals, default=None),
        "vmem_capacity_bytes": int(work.peaks["vmem_bytes"]),
        "hbm_bytes": sum(moved) if moved else None,
        "findings": findings(work),
    }
    if timing.candidate_us:
        found["roofline"] = line = roofline.roofline(
            work.workload,
            work.tpu,
            work.peaks,
            timing.candidate_us,
            moved_bytes=sum(moved),
            eight_bit=any(kernel["eight_bit_matmul"] for kernel in work.kernels),
            counters=counters,
        )
        found["bound"] = roofline.bound(timing, line, _stall_share(work.look))
    return found


def findings(work: Work) -> list[Finding]:
    timing = work.predicted or work.timing
    if not timing or not work.peaks:
        return []
    if not timing.candidate_us:
        return [Finding(text="No time could be predicted, so nothing is diagnosed; the notes on the time say why.")]
    try:
        rows = [cell.row for cell in taxonomy.rows(work.tpu)]
    except (OSError, ValueError):  # a damaged cell is no reason to judge nothing
        logger.exception("what addresses findings on %s cannot be read", work.tpu)
        rows = []
    return diagnosis.diagnose(
        View(
            tpu=work.tpu,
            workload=work.workload,
            timing=timing,
            total_us=timing.candidate_us,
            peaks=work.peaks,
            kernels=_kernels(work),
            counters=work.look.get("counters", {}),
        ),
        rows,
    )


def _stall_share(look: dict[str, Any]) -> float | None:
    bundles, stalls = look.get("executed_bundles"), look.get("stall_cycles")
    return None if bundles is None or stalls is None or not bundles + stalls else stalls / (bundles + stalls)


def _kernels(work: Work) -> list[Kernel]:
    counted = work.look.get("kernels") or [None] * len(work.kernels)
    return [_kernel(work, plan, seen) for plan, seen in zip(work.kernels, counted, strict=True)]


def _kernel(work: Work, plan: dict[str, Any], counted: KernelProfile | None) -> Kernel:
    """plan: the reply of the profiler on one kernel, with its cycles, its runs and the VMEM that libtpu gave it."""
    anatomy = Anatomy.model_validate(plan.get("anatomy", {}))
    runs = plan.get("runs") or [(plan["calls"], None)]
    calls, on_chip = sum(max(calls, 1) for calls, _ in runs), runs[0][1]
    crossing = traffic(anatomy, on_chip)
    schedule_us = None if plan["cycles"] is None else plan["cycles"] / work.peaks["clock_hz"] * 1e6
    moved = sum(each.bytes for each in crossing) + plan["own_hbm_bytes"]
    hbm_us = moved / work.peaks["hbm_bytes_per_s"] * 1e6
    known = {
        "name": plan["name"],
        "grid": plan["grid"],
        "calls": calls,
        "us": rounded(max(schedule_us, hbm_us)) if schedule_us is not None else None,
        "cycles": plan["cycles"],
        "buffers": buffers(anatomy, plan.get("vmem_bytes"), on_chip),
        "traffic": crossing,
    }
    profile = counted.model_copy(update=known) if counted else KernelProfile(**known)
    mxu_us = None
    if not anatomy.inner_loops and plan["grid"] is not None:
        steps = 1
        for n in plan["grid"]:
            steps *= n
        mxu_us = steps * sum(m.flops for m in anatomy.matmuls) / work.peaks["bf16_flops_per_s"] * 1e6
    return Kernel(profile, anatomy, schedule_us, hbm_us, mxu_us)

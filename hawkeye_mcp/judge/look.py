"""What a look into a candidate says beyond its time: memory, traffic, roofline, what binds, findings.

Put together from the plan of its kernels, the compiled program and, where they were counted, the executed schedules.
"""

import logging
import math
from typing import Any

from hawkeye_mcp import taxonomy
from hawkeye_mcp.evaluation import OpTime, Timing
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.profile import Finding, KernelProfile
from hawkeye_mcp.profiler import diagnosis, roofline, units
from hawkeye_mcp.profiler.anatomy import Anatomy
from hawkeye_mcp.profiler.buffers import buffers, traffic
from hawkeye_mcp.profiler.timing import MODELS, rounded
from hawkeye_mcp.profiler.view import Kernel, View, matmul_rate

logger = logging.getLogger(__name__)


def fields(work: Work) -> dict[str, Any]:
    """Fields of the Profile; of a candidate without a predicted time those that need none."""
    timing = work.predicted or work.timing  # a measured time says nothing of where it goes
    if not timing or not work.peaks:
        return dict(work.look)
    view = _view(work, timing)
    totals = [kernel["vmem_bytes"] for kernel in work.kernels if kernel.get("vmem_bytes") is not None]
    counted = work.kernels and all(kernel["window_bytes"] is not None for kernel in work.kernels)
    moved = sum((op.hbm_bytes or 0) * op.calls for op in timing.ops) if counted else None
    found: dict[str, Any] = {
        **work.look,
        "kernels": [kernel.profile for kernel in view.kernels],
        "vmem_bytes": max(totals, default=None),
        "vmem_capacity_bytes": int(work.peaks["vmem_bytes"]),
        "hbm_bytes": moved,
        "findings": findings(work),
    }
    if timing.candidate_us:
        found["bound"] = units.bound(view)
        found["roofline"] = roofline.roofline(
            work.workload,
            work.tpu,
            view.peaks,
            None if timing.lower_bound else timing.candidate_us,
            moved_bytes=moved,
            eight_bit=view.mxu_flops_per_s > view.peaks["bf16_flops_per_s"]
            or any(kernel["eight_bit_matmul"] for kernel in work.kernels),
            counters=view.counters,
        )
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
    return diagnosis.diagnose(_view(work, timing), rows)


def _view(work: Work, timing: Timing) -> View:
    return View(
        tpu=work.tpu,
        workload=work.workload,
        timing=timing,
        total_us=timing.candidate_us or 0.0,
        peaks=_lasting(work),
        kernels=_kernels(work, timing),
        counters=work.look.get("counters", {}),
    )


def _lasting(work: Work) -> dict[str, float]:
    """Peaks at the rates by which times are predicted: a ceiling and a time that rest on other rates do not compare."""
    model = MODELS[work.tpu]
    rates = ("clock_hz", "bf16_flops_per_s", "eight_bit_ops_per_s", "int8_ops_per_s", "int4_ops_per_s", "fp8_ops_per_s")
    by_clock = dict.fromkeys(rates, model.clock)
    shares = by_clock | {"hbm_bytes_per_s": model.hbm}
    return {name: peak * shares.get(name, 1.0) for name, peak in work.peaks.items()}


def _kernels(work: Work, timing: Timing) -> list[Kernel]:
    counted: list[KernelProfile | None] = work.look.get("kernels") or [None] * len(work.kernels)
    runs = [plan.get("runs") or [(plan["calls"], None)] for plan in work.kernels]
    times = [op for op in timing.ops if op.kind == "mosaic"]  # in the order of kernels, then of their runs
    known = len(times) == sum(len(each) for each in runs)  # of a kernel without cycles and bytes there is no time
    left = iter(times)
    return [
        _kernel(work, plan, [next(left) for _ in each] if known else [], each, seen)
        for plan, each, seen in zip(work.kernels, runs, counted, strict=True)
    ]


def _kernel(
    work: Work,
    plan: dict[str, Any],
    times: list[OpTime],
    runs: list[tuple[int, list[bool] | None]],
    counted: KernelProfile | None,
) -> Kernel:
    """plan: the reply of the profiler on one kernel, with its cycles and the VMEM that libtpu gave it. times: of the
    places where it runs, none if unknown. runs: how often in each, and which operands XLA keeps in VMEM there."""
    anatomy = Anatomy.model_validate(plan.get("anatomy", {}))
    on_chip = runs[0][1]
    crossing = traffic(anatomy, on_chip)
    calls = sum(max(times_run, 1) for times_run, _ in runs)
    us = sum(time.us for time in times) / calls
    model = MODELS[work.tpu]
    known = {
        "name": plan["name"],
        "grid": plan["grid"],
        "calls": calls,
        "us": None if plan["cycles"] is None or not times else rounded(us),
        "cycles": plan["cycles"],
        "buffers": buffers(anatomy, plan.get("vmem_bytes"), on_chip),
        "traffic": crossing,
    }
    profile = counted.model_copy(update=known) if counted else KernelProfile(**known)
    mxu_us = None
    if anatomy.step:
        rates = [matmul_rate(work.peaks, matmul.lhs, matmul.rhs) for matmul in anatomy.matmuls]
        peak = min(rates, default=work.peaks["bf16_flops_per_s"]) * model.clock
        mxu_us = (math.prod(plan["grid"]) - anatomy.idle_steps) * anatomy.step.flops / peak * 1e6
    first = times[0] if times else None
    return Kernel(
        profile=profile,
        anatomy=anatomy,
        us=us,
        schedule_us=first.static_us / model.clock if first and first.static_us is not None else None,
        hbm_us=(first.hbm_floor_us or 0.0) / model.hbm if first else 0.0,
        by_hbm=bool(first and first.bound == "hbm"),
        mxu_us=mxu_us,
    )

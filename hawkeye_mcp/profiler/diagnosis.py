"""From figures to at most three plain findings, worst first, each with the figure that shows it."""

from collections.abc import Collection

from hawkeye_mcp.evaluation import Timing
from hawkeye_mcp.profile import Finding
from hawkeye_mcp.workloads import Workload


def diagnose(timing: Timing, workload: Workload, peaks: dict[str, float], rows: Collection[str]) -> list[Finding]:
    """Findings from a candidate's predicted operations; thresholds are where the named change can pay at all.

    rows: the taxonomy rows that exist for the chip; no other is named.
    """
    total = timing.candidate_us
    if not total:
        return [Finding(text="No time could be predicted, so nothing is diagnosed.")]
    compute_floor_us = workload.flops / peaks["bf16_flops_per_s"] * 1e6
    least_hbm_us = workload.least_bytes / peaks["hbm_bytes_per_s"] * 1e6
    moved = sum((op.hbm_bytes or 0) * op.calls for op in timing.ops)
    found: list[tuple[float, str, str | None]] = []
    outside_us = sum(op.us for op in timing.ops if op.kind == "xla")
    if outside_us > 0.05 * total:
        found.append(
            (
                outside_us,
                f"{outside_us:.4g} of {total:.4g} us is spent in XLA operations outside the kernels: fuse them into a kernel"
                " that already has the data in VMEM.",
                "05_fused_epilogue",
            )
        )
    if moved > 1.3 * workload.least_bytes and any(op.bound == "hbm" for op in timing.ops):
        waste_us = (moved - workload.least_bytes) / peaks["hbm_bytes_per_s"] * 1e6
        found.append(
            (
                waste_us,
                f"HBM traffic is {moved / workload.least_bytes:.2f} times the least ({moved / 1e6:.4g} MB) and binds: use larger"
                " blocks so that operands are read fewer times, and keep intermediates in VMEM.",
                "05_fused_epilogue" if len([op for op in timing.ops if op.kind == "mosaic"]) > 1 else "01_mxu_feed",
            )
        )
    schedule_us = sum(op.us for op in timing.ops if op.kind == "mosaic" and op.bound == "static_schedule")
    ideal_us = max(compute_floor_us, least_hbm_us)
    if schedule_us > 1.15 * ideal_us:
        if compute_floor_us > least_hbm_us:
            text = (
                f"The kernels' schedule takes {schedule_us:.4g} us where the MXU needs {compute_floor_us:.4g} us"
                f" ({100 * compute_floor_us / total:.0f} % of peak): feed the MXU with larger blocks of bfloat16 operands and take"
                " everything else out of the inner loop."
            )
            row: str | None = "01_mxu_feed"
        else:
            text = (
                f"The kernels' schedule takes {schedule_us:.4g} us where HBM needs {least_hbm_us:.4g} us: use fewer, larger"
                " grid steps so that per-step latency is hidden, and do less vector work per element."
            )
            row = None
        found.append((schedule_us - ideal_us, text, row))
    if not found:
        text = f"Within {100 * (total / ideal_us - 1):.0f} % of the binding ceiling ({ideal_us:.4g} us): little is left to gain."
        return [Finding(text=text)]
    found.sort(key=lambda item: -item[0])
    return [
        Finding(text=text, costs_us=costs_us, taxonomy_row=row if row in rows else None)
        for costs_us, text, row in found[:3]
    ]

"""Candidates as the detectors see them, made by hand: round figures, each of which a test can change."""

import math

from hawkeye_mcp import workloads
from hawkeye_mcp.evaluation import OpTime, Timing
from hawkeye_mcp.profile import Buffer, Count, KernelProfile, Stall
from hawkeye_mcp.profiler.anatomy import Anatomy
from hawkeye_mcp.profiler.buffers import traffic
from hawkeye_mcp.profiler.view import Kernel, View

PEAKS = {
    "hbm_bytes_per_s": 800e9, "bf16_flops_per_s": 200e12, "eight_bit_ops_per_s": 400e12, "vmem_bytes": float(128 << 20),
    "clock_hz": 1.5e9,
}  # fmt: skip
GEMM, NORM = workloads.load("41k_Gemm_Add_ReLU"), workloads.load("12p_RMSNorm")  # 2749 us of MXU, 1342 us of HBM
MATMUL = {"lhs": "bf16", "rhs": "bf16", "flops": 1e9, "passes": 1}


def operand(**changed):
    """A bfloat16 matrix of 64 MiB that crosses HBM once."""
    return {
        "label": "operand 0 bf16[4096,8192]", "direction": "read", "item_bits": 16, "array_bytes": 64 << 20,
        "space": "vmem", "block": [512, 512], "block_bytes": 512 << 10, "tile_padding": 1.0, "overhang": 1.0,
        "copies": 2, "axes": [0], "moved_bytes": 64 << 20,
    } | changed  # fmt: skip


def counts(stall=0.0, **shares):
    """Counters of 6e6 cycles: this share of them stalls, and of the slots of each unit this share is used."""
    found = {name: Count(total=share * 1e6, unit="count", peak_share=share) for name, share in shares.items()}
    found["executed_bundles"] = Count(total=6e6 * (1 - stall), unit="bundles")
    found["stall_cycles"] = Count(total=6e6 * stall, unit="cycles")
    return found


def kernel(
    name="kernel", grid=(8, 8, 16), us=4000.0, schedule_us=None, hbm_us=100.0, mxu_us=2749.0, by_hbm=False, stalls=None,
    operands=None, matmuls=None, vmem=1 << 20, **anatomy,
) -> Kernel:  # fmt: skip
    """A kernel with matmuls whose schedule takes all its time, unless something else is said."""
    known = {
        "operands": [operand()] if operands is None else operands,
        "matmuls": [MATMUL] if matmuls is None else matmuls,
        "parallel_axes": [0],
    }
    made = Anatomy.model_validate(known | anatomy)
    schedule_us = us if schedule_us is None else schedule_us
    profile = KernelProfile(
        name=name,
        grid=list(grid),
        calls=1,
        us=us,
        cycles=schedule_us * 1500,
        stalls=[
            Stall(cause=cause, cycles=share * schedule_us * 1500, share=share)
            for cause, share in (stalls or {}).items()
        ],
        traffic=traffic(made, None),
        buffers=[Buffer(name="window", kind="window", space="vmem", bytes=vmem)],
    )
    return Kernel(profile, made, us, schedule_us, hbm_us, by_hbm, mxu_us)


def view(
    *kernels: Kernel, workload=GEMM, tpu="v5e", counters=None, outside_us=0.0, outside="fusion.1", lower_bound=False
) -> View:
    ops = [
        OpTime(
            name=k.profile.name, kind="mosaic", method="static_profile", static_us=k.schedule_us, hbm_floor_us=k.hbm_us,
            hbm_bytes=0, us=k.us, bound="hbm" if k.by_hbm else "static_schedule",
        )
        for k in kernels
    ]  # fmt: skip
    if outside_us:
        ops.append(
            OpTime(
                name=outside, kind="xla", method="xla_estimate", static_us=outside_us, hbm_floor_us=0, hbm_bytes=0,
                us=outside_us, bound="static_schedule",
            )
        )  # fmt: skip
    total = math.fsum(op.us for op in ops)
    timing = Timing(
        source="predicted", candidate_us=total, baseline_us=None, speedup=None, ops=ops, lower_bound=lower_bound
    )
    return View(tpu, workload, timing, total, PEAKS, list(kernels), counters or {})

"""Hand-made profiles in the form of real ones, for tests of how a profile is shown."""

from typing import Any

from hawkeye_mcp.evaluation import ArtifactInfo, OpTime, Timing, Versions
from hawkeye_mcp.profile import (
    Buffer,
    Ceiling,
    Count,
    Finding,
    KernelProfile,
    Phases,
    Profile,
    Region,
    Registers,
    Roofline,
    Slot,
    Stall,
    Traffic,
)

VERSIONS = Versions(hawkeye="0.1.0", jax="0.10.2", jaxlib="0.10.2", libtpu="0.0.52")
KIB, MIB = 1 << 10, 1 << 20


def of(**changed: Any) -> Profile:
    """A profile that has nothing but its frame and what is given."""
    frame: dict[str, Any] = {
        "status": "profiled",
        "message": "Profiled; whether its results are correct was not checked.",
        "next_step": "Address the first finding, then evaluate.",
        "workload": "8p_GEMM",
        "tpu": "v5e",
        "kernel_sha256": "c" * 64,
        "isolation": "bubblewrap",
        "versions": VERSIONS,
    }
    return Profile(**(frame | changed))


def timing(us: float, *ops: OpTime, **changed: Any) -> Timing:
    known: dict[str, Any] = {
        "source": "predicted",
        "candidate_us": us,
        "baseline_us": 722.0,
        "speedup": float(f"{722.0 / us:.4g}"),
        "ops": list(ops),
        "baseline_method": "static_profile_extrapolated",
    }
    return Timing(**(known | changed))


def op(name: str, us: float, hbm_us: float, **changed: Any) -> OpTime:
    known: dict[str, Any] = {
        "name": name,
        "kind": "mosaic",
        "method": "static_profile_sampled",
        "static_us": us,
        "hbm_floor_us": hbm_us,
        "hbm_bytes": round(hbm_us * 819e3),
        "us": max(us, hbm_us),
        "bound": "hbm" if hbm_us > us else "static_schedule",
    }
    return OpTime(**(known | changed))


def roofline(mxu_us: float, hbm_us: float, us: float, work_flops: float = 1.374e11) -> Roofline:
    best_us = max(mxu_us, hbm_us)
    return Roofline(
        ceilings=[
            Ceiling(
                unit="hbm", us=hbm_us, work=hbm_us * 819e3, work_unit="bytes", rate=819e9, source="datasheet of v5e"
            ),
            Ceiling(
                unit="mxu", us=mxu_us, work=work_flops, work_unit="FLOP", rate=197e12, source="bf16, jax's TpuInfo"
            ),
            Ceiling(unit="vpu", us=61.0, work=3.7e11, work_unit="operations", rate=6.15e12, source="4 slots x 1024"),
        ],
        binding="mxu" if mxu_us > hbm_us else "hbm",
        best_us=best_us,
        best_speedup=us / best_us,
        intensity=work_flops / (hbm_us * 819e3) / 1.2,
        achieved_flops_per_s=work_flops / us * 1e6,
    )


def matmul() -> Profile:
    """A well-fed MXU: one kernel, 8 x 8 x 8 steps, double-buffered windows, one operand read eight times."""
    cycles, bundles = 1_090_000.0, 1_010_000.0
    kernel = KernelProfile(
        name="matmul_kernel",
        grid=[8, 8, 8],
        calls=1,
        us=726.0,
        cycles=cycles,
        executed_bundles=bundles,
        stall_cycles=cycles - bundles,
        phases=Phases(prologue_cycles=3_500, step_cycles=2_120, epilogue_cycles=1_060, steps=512),
        stalls=[
            Stall(cause="DMA read of operand 0", cycles=50_000, share=50_000 / cycles),
            Stall(cause="MXU result", cycles=22_000, share=22_000 / cycles),
            Stall(cause="DMA write of result 0", cycles=8_000, share=8_000 / cycles),
        ],
        regions=[
            Region(line=21, text="    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)",
                   cycles=1_000_000, stall_cycles=22_000, share=1_000_000 / cycles),
            Region(line=25, text="        out_ref[...] = acc_ref[...].astype(out_ref.dtype)", cycles=40_000,
                   stall_cycles=0, share=40_000 / cycles),
            Region(line=None, cycles=50_000, stall_cycles=58_000, share=50_000 / cycles),
        ],
        hot_loop="bundles 120 to 2180, run 512 times",
        slots=[
            Slot(name="MATMUL", capacity=4, used=3.72, occupancy=0.93),
            Slot(name="MATPUSH", capacity=4, used=1.0, occupancy=0.25),
            Slot(name="XLU", capacity=3, used=0, occupancy=0),
            Slot(name="VALU", capacity=4, used=2.4, occupancy=0.6),
            Slot(name="VPOP", capacity=4, used=1.84, occupancy=0.46),
            Slot(name="EUP", capacity=1, used=0, occupancy=0),
            Slot(name="VLOAD", capacity=3, used=1.92, occupancy=0.64),
            Slot(name="VLOAD:FILL", capacity=3, used=0.03, occupancy=0.01),
            Slot(name="VSTORE", capacity=1, used=0.41, occupancy=0.41),
            Slot(name="VSTORE:SPILL", capacity=1, used=0.01, occupancy=0.01),
            Slot(name="SALU", capacity=2, used=0.14, occupancy=0.07),
        ],
        registers=Registers(pressure=61, capacity=64, spills=1_024, fills=2_048),
        buffers=[
            Buffer(name="operand 0 bf16[512,512]", kind="window", space="vmem", bytes=MIB, copies=2),
            Buffer(name="operand 1 bf16[512,512]", kind="window", space="vmem", bytes=MIB, copies=2),
            Buffer(name="result 0 bf16[512,512]", kind="window", space="vmem", bytes=MIB, copies=2),
            Buffer(name="scratch 0 f32[512,512]", kind="scratch", space="vmem", bytes=MIB),
            Buffer(name="spilled registers", kind="spill", space="vmem", bytes=64 * KIB),
        ],
        traffic=[
            Traffic(operand="operand 0 bf16[4096,4096]", direction="read", bytes=256 * MIB, least_bytes=32 * MIB, factor=8),
            Traffic(operand="operand 1 bf16[4096,4096]", direction="read", bytes=256 * MIB, least_bytes=32 * MIB, factor=8),
            Traffic(operand="result 0 bf16[4096,4096]", direction="written", bytes=32 * MIB, least_bytes=32 * MIB, factor=1),
        ],
    )  # fmt: skip
    return of(
        predicted_us=726.0,
        bound="mxu",
        artifact=ArtifactInfo(sha256="a" * 64, bytes=4_900),
        timing=timing(
            726.0,
            op("matmul_kernel", 726.0, 696.4),
            candidate_interval_us=(660.0, 799.0),
            baseline_interval_us=(670.0, 770.0),
            speedup_interval=(0.9, 1.1),
            indistinguishable=True,
        ),
        executed_bundles=bundles,
        stall_cycles=cycles - bundles,
        spills=1_024,
        vmem_bytes=4 * MIB + 64 * KIB,
        vmem_capacity_bytes=128 * MIB,
        hbm_bytes=544 * MIB,
        hbm_temp_bytes=0,
        counters={
            "mxu_matmuls": Count(total=2_097_152, per_step=4_096, unit="count", peak_share=0.962),
            "eup_ops": Count(total=0, per_step=0, unit="count"),
            "vector_spills": Count(total=1_024, per_step=2, unit="count"),
            "hbm_read_bytes": Count(total=512 * MIB, per_step=MIB, unit="bytes"),
            "executed_bundles": Count(total=bundles, per_step=bundles / 512, unit="bundles"),
        },
        kernels=[kernel],
        roofline=roofline(697.5, 122.9, 726.0),
        findings=[
            Finding(
                text="Operand 0 is read 8 times over: use taller blocks so that each read serves more rows.",
                counter="traffic factor of operand 0",
                value=8,
                costs_us=33.3,
                taxonomy_row="01_mxu_feed",
            ),
            Finding(text="Within 4 % of the MXU's ceiling (697.5 us): little is left to gain."),
        ],
    )


def rmsnorm() -> Profile:
    """Far too small steps: most cycles wait for HBM, the MXU has nothing to do, an XLA operation stands beside it."""
    cycles, bundles = 3_660_000.0, 999_533.0
    kernel = KernelProfile(
        name="kernel",
        grid=[4096],
        calls=1,
        us=2_434.6,
        cycles=cycles,
        executed_bundles=bundles,
        stall_cycles=cycles - bundles,
        phases=Phases(prologue_cycles=1_204, step_cycles=893, epilogue_cycles=740, steps=4_096),
        stalls=[
            Stall(cause="DMA read of operand 0", cycles=1_900_000, share=1_900_000 / cycles),
            Stall(cause="XLU result", cycles=430_467, share=430_467 / cycles),
            Stall(cause="DMA write of result 0", cycles=260_000, share=260_000 / cycles),
            Stall(cause="EUP result", cycles=70_000, share=70_000 / cycles),
        ],
        regions=[
            Region(line=10, text="    inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)",
                   cycles=900_000, stall_cycles=500_467, share=900_000 / cycles),
            Region(line=None, cycles=2_760_000, stall_cycles=2_160_000, share=2_760_000 / cycles),
        ],
        slots=[
            Slot(name="XLU", capacity=3, used=0.27, occupancy=0.09),
            Slot(name="VALU", capacity=4, used=1.58, occupancy=0.395),
            Slot(name="EUP", capacity=1, used=0.01, occupancy=0.01),
            Slot(name="VLOAD", capacity=3, used=0.36, occupancy=0.12),
            Slot(name="VSTORE", capacity=1, used=0.33, occupancy=0.33),
            Slot(name="SALU", capacity=2, used=0.38, occupancy=0.19),
        ],
    )  # fmt: skip
    return of(
        workload="12p_RMSNorm",
        predicted_us=2_436.2,
        bound="latency",
        timing=timing(
            2_436.2,
            op("kernel", 2_434.6, 1_309.4),
            op("reshape.1", 1.6267, 0.019981, kind="xla", method="xla_estimate"),
            baseline_us=1_964.2,
            speedup=0.8063,
        ),
        executed_bundles=bundles,
        stall_cycles=cycles - bundles,
        spills=196_608,
        vmem_bytes=688_128,
        vmem_capacity_bytes=128 * MIB,
        counters={"valu_ops": Count(total=1_581_056, per_step=386, unit="count", peak_share=0.1)},
        kernels=[kernel],
        roofline=roofline(4.1, 1_310.9, 2_436.2, work_flops=8.05e8),
        findings=[
            Finding(
                text="73 % of the cycles wait: a step of 8 rows is too little work to hide a transfer.",
                counter="stall_cycles",
                value=2_660_467,
                costs_us=1_125,
            )
        ],
    )


def unknown() -> Profile:
    """A kernel whose static profile is unavailable: no time, no counters, a reason."""
    return of(
        timing=Timing(
            source=None,
            candidate_us=None,
            baseline_us=722.0,
            speedup=None,
            ops=[op("matmul_kernel", 0.0, 122.9, static_us=None, method="hbm_floor")],
            notes=["kernel matmul_kernel: static profile unavailable: the compiler aborted"],
        ),
        kernels=[KernelProfile(name="matmul_kernel", grid=[], calls=1)],
    )

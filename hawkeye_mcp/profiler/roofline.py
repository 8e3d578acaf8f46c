"""The least time that each unit of the chip needs, and which of them most of the predicted time goes to.

Two ceilings are of the workload: the bytes that any correct kernel moves over HBM, and its FLOPs on the MXU. Two are of
the candidate: the vector operations and transcendentals that it executes, which another way to compute may avoid; so
only the first two bound what a change can gain.
"""

from collections.abc import Mapping

from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.profile import Ceiling, Count, Roofline, Unit
from hawkeye_mcp.profiler.timing import MODELS, rounded
from hawkeye_mcp.profiler.units import EUP_SLOTS, VALU_SLOTS
from hawkeye_mcp.profiler.view import ELEMENTS
from hawkeye_mcp.workloads import Workload


def roofline(
    workload: Workload,
    tpu: str,
    peaks: Mapping[str, float],
    candidate_us: float | None,
    *,
    moved_bytes: int | None,
    eight_bit: bool,
    counters: Mapping[str, Count],
) -> Roofline:
    """Ceilings of one device against a predicted time; None where that is a lower bound, which compares with nothing.

    peaks: at the rates that last, by which the time is predicted (see `timing.Model`).
    moved_bytes: what the candidate moves over HBM, None if unknown. eight_bit: whether it multiplies operands of at most 8 bits.
    counters: of the executed schedule; without them the candidate's two ceilings are unknown and left out.
    """
    lasting = MODELS[tpu]
    flops = workload.least_flops or workload.flops
    mxu, dtype = peaks["bf16_flops_per_s"], "bfloat16"
    if eight_bit and peaks["eight_bit_ops_per_s"] > mxu:
        mxu, dtype = peaks["eight_bit_ops_per_s"], "8-bit"
    ceilings = [
        _ceiling("hbm", workload.least_bytes, "bytes", peaks["hbm_bytes_per_s"],
                 f"inputs and outputs of the workload once; bandwidth from jax's TpuInfo{_times(lasting.hbm)}"),
        _ceiling("mxu", flops, "FLOP", mxu, f"FLOPs of the workload; {dtype} peak from jax's TpuInfo{_times(lasting.clock)}"),
    ]  # fmt: skip
    best = max(ceilings, key=lambda ceiling: ceiling.us)
    ceilings += _of_candidate(tpu, peaks, counters)
    return Roofline(
        ceilings=ceilings,
        binding=best.unit,
        best_us=best.us,
        # a time within its error of a ceiling may lie below it
        best_speedup=float(f"{max(1.0, candidate_us / best.us):.4g}") if candidate_us else None,
        intensity=float(f"{workload.flops / moved_bytes:.4g}") if moved_bytes else None,
        achieved_flops_per_s=float(f"{workload.flops / candidate_us * 1e6:.4g}") if candidate_us else None,
    )


def _of_candidate(tpu: str, peaks: Mapping[str, float], counters: Mapping[str, Count]) -> list[Ceiling]:
    found: list[Ceiling] = []
    units: list[tuple[Unit, str, int, str]] = [
        ("vpu", "valu_ops", VALU_SLOTS, "vector operations that the candidate executes; 4 slots"),
        ("eup", "eup_ops", EUP_SLOTS, "transcendentals that the candidate executes; 1 slot"),
    ]
    for unit, name, slots, source in units:
        if name in counters:
            rate = slots * ELEMENTS * peaks["clock_hz"] * CHIPS[tpu].cores
            work = counters[name].total * ELEMENTS
            found.append(
                _ceiling(
                    unit, work, "operations", rate, f"{source} x 1024 elements a cycle, {CHIPS[tpu].cores} core(s)"
                )
            )
    return found


def _times(share: float) -> str:
    return "" if share == 1 else f" x {share:.3g} that lasts"


def _ceiling(unit: Unit, work: float, work_unit: str, rate: float, source: str) -> Ceiling:
    return Ceiling(
        unit=unit, us=rounded(work / rate * 1e6), work=rounded(work), work_unit=work_unit, rate=rate, source=source
    )

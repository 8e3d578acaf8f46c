"""Profile a spread of small XLA programs, to say what XLA's estimates and the rooflines of baselines are worth."""

import json
import statistics
from collections.abc import Callable
from typing import Any

from hawkeye_mcp import workloads
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.judge.reason import reason
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.profiler import calibration
from hawkeye_mcp.profiler.calibration import Row
from hawkeye_mcp.profiler.xla_cost import REGISTER

LIMIT_S = 300.0
# Products with and without a contraction that fills the matrix units, reductions, elementwise work, copies. Sizes at
# which a profile takes seconds.
SPREAD: dict[str, dict[str, int]] = {
    "12p_RMSNorm": {"B": 1, "S": 2048},
    "50k_Matmul_GELU_Softmax": {"M": 1024, "K": 1024, "N": 4096},
    "5p_Flex_Attention": {"B": 1, "H": 1},
    "45k_Gemm_GroupNorm_Swish_Multiply_Swish": {"M": 512, "K": 1024, "N": 4096},
    "31k_Gemm_BatchNorm_GELU_ReLU": {"M": 2048, "K": 1024, "N": 1024},
    "15p_RetNet_Retention": {"B": 1, "H": 1, "S": 2048},
    "41k_Gemm_Add_ReLU": {"M": 4096, "K": 8192, "N": 512},
    "26k_restored": {"M": 512, "K": 1024, "N": 4096},
}


def current(versions: Versions) -> list[Row]:
    """The shipped rows that are of this compiler."""
    return [row for row in calibration.rows() if row.compiler == _compiler(versions)]


def _compiler(versions: Versions) -> str:
    return f"{versions.jax} {versions.jaxlib} {versions.libtpu}"


async def calibrate(
    tpus: list[str], versions: Versions, compilers: WorkerPool, progress: Callable[[str], None]
) -> list[Row]:
    """Add the rows that are missing and write each workload's as they come; what is there already is not repeated."""
    rows = current(versions)
    done = {(row.tpu, row.workload) for row in rows}
    for tpu in tpus:
        for name, at in SPREAD.items():
            if (tpu, name) in done:
                continue
            try:
                found = await _profile(workloads.load(name), tpu, at, versions, compilers)
            except (WorkerDied, WorkerError, WorkerTimeout) as error:
                progress(f"{tpu} {name}: {reason(error)}")
                continue
            progress(f"{tpu} {name}: {len(found)} operations")
            rows = sorted([*rows, *found], key=lambda row: (row.tpu, row.workload))
            lines = ",\n".join(json.dumps(row.model_dump(mode="json")) for row in rows)
            calibration.path().write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return rows


async def _profile(
    workload: workloads.Workload, tpu: str, at: dict[str, int], versions: Versions, compilers: WorkerPool
) -> list[Row]:
    reply = await baseline.compiled(workload, tpu, at, compilers)
    request = {"workload": workload.reference, "tpu": tpu, "at": at}
    profiles, _ = await baseline.profiled("compile_baseline", request, LIMIT_S)
    peaks = reply["peaks"]
    return [
        Row(
            tpu=tpu,
            workload=workload.name,
            at=at,
            op=op["name"],
            sort=op["sort"],
            profile_cycles=profiles[op["name"]],
            xla_cycles=op["xla_cycles"],
            flop_cycles=sum(p["flops"] for p in op["products"]) / peaks["bf16_flops_per_s"] * peaks["clock_hz"],
            hbm_cycles=op["hbm_bytes"] / peaks["hbm_bytes_per_s"] * peaks["clock_hz"],
            registers=op["elements"] / REGISTER,
            partial=op["partial"],
            compiler=_compiler(versions),
        )
        for op in reply["ops"]
        if op["name"] in profiles and not (op["small"] or op["mosaic"])
    ]


async def run(tpus: list[str], versions: Versions, progress: Callable[[str], None]) -> None:
    """The same with compilers of its own."""
    compilers = WorkerPool("compiler")
    try:
        await calibrate(tpus, versions, compilers, progress)
    finally:
        await compilers.close()


def table(versions: Versions) -> dict[str, Any]:
    """For each chip: XLA's estimate over the profile on products, cycles per vector register by sort, and all rows."""
    rows = current(versions)
    by_chip = {tpu: [row for row in rows if row.tpu == tpu] for tpu in TPUS}
    return {
        "estimate_over_profile": [
            {"tpu": tpu} | _spread(ratios)
            for tpu, found in by_chip.items()
            if (ratios := calibration.estimate_ratios(found))
        ],
        "cycles_per_register": [
            {"tpu": tpu, "sort": sort} | _spread(values)
            for tpu, found in by_chip.items()
            for sort, values in sorted(calibration.cycles_per_register(found).items())
        ],
        "rows": [row.model_dump(mode="json") for row in rows],
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {"n": len(values), "median": statistics.median(values), "least": min(values), "most": max(values)}

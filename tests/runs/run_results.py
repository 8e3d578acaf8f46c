"""Runs with made-up verdicts, for tests that need no judge."""

from pathlib import Path
from typing import Any

from hawkeye_mcp import kernels, workloads
from hawkeye_mcp.evaluation import Evaluation, Timing, Versions
from hawkeye_mcp.profile import Ceiling, Profile, Roofline
from hawkeye_mcp.runs import store

WORKLOAD = workloads.load("8p_GEMM")
VERSIONS = Versions(hawkeye="0", jax="0", jaxlib="0", libtpu="0")


def begun(folder: Path) -> store.Run:
    store.create(folder, WORKLOAD, "v5e")
    return store.find(folder)


def timing(candidate_us: float, source: str = "predicted", **changed: Any) -> Timing:
    given = {"source": source, "candidate_us": candidate_us, "baseline_us": 100.0, "speedup": 100.0 / candidate_us}
    return Timing(**(given | changed))


def evaluation(
    id: str, kernel: str, found: Timing | None = None, status: str = "correct", **changed: Any
) -> Evaluation:
    given = {
        "id": id,
        "status": status,
        "message": "",
        "next_step": "",
        "workload": WORKLOAD.name,
        "tpu": "v5e",
        "kernel_sha256": kernels.sha256(kernel),
        "isolation": "rlimits",
        "timing": found,
        "versions": VERSIONS,
        "created": "2026-01-01T00:00:00+00:00",
    }
    return Evaluation(**(given | changed))


def record(run: store.Run, id: str, candidate_us: float | None = None, *, kernel: str = "", **how: Any) -> Any:
    """Record a verdict; how: of `timing`, and status and fingerprint. Without a time it is incorrect unless told."""
    mark, status = how.pop("fingerprint", "f"), how.pop("status", "correct" if candidate_us else "incorrect")
    text = kernel or f"# {id}"
    found = timing(candidate_us, **how) if candidate_us else None
    return store.record_evaluation(run, text, evaluation(id, text, found, status), mark)


def profile(kernel: str, ceiling_us: float) -> Profile:
    ceiling = Ceiling(unit="mxu", us=ceiling_us, work=1.0, work_unit="FLOP", rate=1.0, source="eight-bit peak")
    return Profile(
        status="profiled",
        message="",
        next_step="",
        workload=WORKLOAD.name,
        tpu="v5e",
        kernel_sha256=kernels.sha256(kernel),
        isolation="rlimits",
        roofline=Roofline(ceilings=[ceiling], binding="mxu", best_us=ceiling_us, best_speedup=None),
        versions=VERSIONS,
    )

"""Inside the verifier: whether the program that is timed does the work of the program that was verified."""

import base64
import math
from typing import Any

from hawkeye_mcp import artifact, workloads
from hawkeye_mcp.mosaic_eval import census


def same_work(workload: str, artifacts: dict[workloads.Size, dict[str, str]]) -> dict[str, Any]:
    """artifacts: by size and platform, base64; the full size at least.

    The answer: {"problem": what is missing, or None; "note": what else is to be said, or None}.
    """
    declared = workloads.find(workload)
    tpu = {size: census.census(_read(pair["tpu"])) for size, pair in artifacts.items()}
    for size, pair in artifacts.items():
        if found := census.apart(tpu[size], census.census(_read(pair["cpu"]))):
            return _problem(
                f"The two artifacts of the kernel at {size} size are not one computation: {', '.join(found)}"
            )
    if "check" not in tpu:
        return {"problem": None, "note": None}
    check, full = tpu["check"], tpu["full"]
    if gone := census.lost(check, full):
        return _problem(
            f"At full size, where they are timed, the kernels do less work than at check size, where they are verified: "
            f"{', '.join(gone)}"
        )
    if not declared.outside.allow:
        share = census.too_little(check, full, declared.least_flops or declared.flops)
        if share is not None:
            return _problem(
                f"At full size the kernels can do {share:.2g} of the operations that the workload cannot be done without"
            )
    slow = ", ".join(f"{kind} {times:.3g} times" for kind, times in census.slow_growth(check, full, _growth(declared)))
    note = f"from check to full size the outputs grow {_growth(declared):.3g} times, but {slow}: look at why"
    return {"problem": None, "note": note if slow else None}


def _problem(text: str) -> dict[str, Any]:
    return {"problem": f"{text}.", "note": None}


def _read(data_b64: str) -> artifact.Program:
    return artifact.read(base64.b64decode(data_b64))


def _growth(workload: workloads.Workload) -> float:
    """How often as large the output that grows least is at the full size."""
    pairs = zip(workload.shapes(workload.outputs, "check"), workload.shapes(workload.outputs, "full"), strict=True)
    return min(math.prod(full) / math.prod(check) for (check, _), (full, _) in pairs)

"""What to profile of each kernel of a candidate, with the integers that steer it where blocks or branches depend on them."""

from typing import Any

from hawkeye_mcp.judge.reason import reason
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout

LIMITS_S = {"plan": 60.0, "draw": 60.0}
_REASONS = 3  # told of one kernel


async def plans(profilers: WorkerPool, work: Work) -> list[dict[str, Any]]:
    """The profiler's plan of each kernel, see `static_profile.plan_kernels`.

    Raises:
        WorkerDied, WorkerTimeout, WorkerError: a kernel is such as none of the readers expects.
    """
    artifact = {"artifact_b64": work.artifacts["full"]["tpu"], "tpu": work.tpu}
    kernels: list[dict[str, Any]] = (await profilers.call("plan", LIMITS_S["plan"], **artifact))["kernels"]
    if not any(kernel.get("steered") for kernel in kernels):
        return kernels
    try:
        drawn = await profilers.call(
            "draw_steering",
            LIMITS_S["draw"],
            artifact_b64=artifact["artifact_b64"],
            workload=work.workload.reference,
        )
        known = (await profilers.call("plan", LIMITS_S["plan"], **artifact, steering=drawn["steering"]))["kernels"]
    except (WorkerDied, WorkerTimeout, WorkerError) as error:
        for kernel in kernels:
            if kernel["steered"]:
                kernel["notes"].append(f"kernel {kernel['name']}: its values in SMEM are unknown: {reason(error)}")
        return kernels
    for kernel, by_draw, unknown in zip(known, drawn["drawn"], drawn["unknown"], strict=True):
        if not kernel["steered"]:
            continue
        if kernel["lower_bound"]:
            kernel["notes"] += [
                f"kernel {kernel['name']}: values in SMEM are unknown: {why}" for why in unknown[:_REASONS]
            ]
        elif by_draw:
            kernel["notes"].append(
                f"kernel {kernel['name']}: which blocks it moves and what its steps do depends on integers among the"
                " inputs; time and counters are those of one draw of them with a fixed seed"
            )
    return list(known)

"""A kernel file traced in a sandbox, and its artifact for the TPU evaluated in a worker. No jax in this process."""

from collections.abc import Callable
from typing import Any

import anyio

from hawkeye_mcp.candidate.sandbox import SandboxPool
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.judge.verdict import SandboxReply
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.mosaic_eval.result import Bound
from hawkeye_mcp.workloads import Size, Workload

LIMIT_S: dict[Size, float] = {"check": 180.0, "full": 1800.0}


class NotTraced(Exception):
    """There is no artifact to evaluate; the text says why."""


async def evaluate(
    source: str,
    workload: Workload,
    tpu: str,
    *,
    size: Size = "check",
    seeds: int = 1,
    progress: Callable[[str], None] = lambda stage: None,
) -> Bound:
    """Evaluate one kernel file for one workload, with processes that start and end with the call.

    Raises:
        NotTraced, WorkerUnavailable.
    """
    verifier = WorkerPool("verifier", 1)
    async with anyio.create_task_group() as tasks:
        sandboxes = SandboxPool(tasks)
        try:
            progress("trace")
            artifact = await _traced(sandboxes, source, workload, tpu, size)
            progress("evaluate")
            found = await bound(verifier, workload, size, artifact, seeds=seeds)
        finally:
            with anyio.CancelScope(shield=True):
                tasks.cancel_scope.cancel()
                await sandboxes.close()
                await verifier.close()
    return found


async def bound(verifier: WorkerPool, workload: Workload, size: Size, artifact: str, *, seeds: int) -> Bound:
    """What a worker finds of an artifact for the TPU (base64); it was audited before.

    What the evaluator itself trips over is no fault of the kernel: it counts as not supported.

    Raises:
        WorkerUnavailable.
    """
    try:
        reply: dict[str, Any] = await verifier.call(
            "bind", LIMIT_S[size], workload=workload.reference, size=size, tpu=artifact, seeds=seeds
        )
    except WorkerTimeout:
        return Bound(outcome="exhausted", message=f"Evaluating the kernel took longer than {LIMIT_S[size]:g} s.")
    except WorkerError as error:
        return Bound(outcome="unsupported", message=f"The evaluator could not run the kernel: {error}"[:1000])
    except WorkerDied as error:
        return Bound(outcome="exhausted", message=f"Evaluating the kernel ended its process: {error}")
    return Bound.model_validate(reply)


async def _traced(sandboxes: SandboxPool, source: str, workload: Workload, tpu: str, size: Size) -> str:
    chip = CHIPS[tpu]
    inputs = {str(size): workload.shapes(workload.inputs, size)}
    async with sandboxes.take(chip) as box:
        ended = await box.trace(source, inputs, chip, interpreted=False)
    if ended.reply is None:
        raise NotTraced(f"Tracing failed: {ended.why}. {ended.stderr_tail[-600:]}".strip())
    reply = SandboxReply(ended.reply, inputs.keys())
    for failure in (reply.failed, reply.failures.get(size)):
        if failure:
            raise NotTraced(failure.verdict(f"The file cannot be traced at {size} size").message)
    if size not in reply.artifacts:
        raise NotTraced("The sandbox sent back no artifact.")
    return reply.artifacts[size]["tpu"]

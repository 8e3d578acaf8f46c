"""The gates that a port goes through, each as one call: its values, and its structure."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
from anyio.to_thread import run_sync
from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.candidate.sandbox import SandboxPool
from hawkeye_mcp.intake import verify_port
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.captures import captured
from hawkeye_mcp.intake.compare_structure import Comparison, compare
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.trace_port import PortRefused, Traced, trace
from hawkeye_mcp.intake.verify_port import Verified
from hawkeye_mcp.judge.workers import WorkerPool
from hawkeye_mcp.workloads import Size

Progress = Callable[[str], None]
_ORDER = ("identical", "equivalent", "divergent")
_NEXT = {
    "identical": "Nothing is left to mend in its structure. Verify its values if that was not done.",
    "equivalent": "Nothing has to be mended: the differences are layout and spelling. Verify its values if that was not done.",
    "divergent": "Mend the first difference: write that operation as the program has it, then compare again.",
    "refused": "Write the port in plain jax.numpy and jax.lax, then compare again.",
    "no_reference": "Verify its values: they are all there is to hold it against.",
}


@dataclass(frozen=True)
class Gates:
    """Processes that gates need. Make it with `open_gates`."""

    sandboxes: SandboxPool
    verifiers: WorkerPool


class ComparedSize(BaseModel):
    """sizes: those at which this was found; programs of one text usually differ in the same way at each."""

    model_config = ConfigDict(extra="forbid")

    sizes: list[Size]
    comparison: Comparison


class Compared(BaseModel):
    """What the structure gate found of a port. no_reference: of the program there are recorded results alone."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["identical", "equivalent", "divergent", "refused", "no_reference"]
    message: str
    next_step: str
    compared: list[ComparedSize] = Field([], description="Worst first.")
    isolation: str

    @property
    def passed(self) -> bool:
        return self.status in ("identical", "equivalent")


@contextlib.asynccontextmanager
async def open_gates() -> AsyncIterator[Gates]:
    """Processes that all end with the context."""
    verifiers = WorkerPool("verifier", 1)
    async with anyio.create_task_group() as tasks:
        sandboxes = SandboxPool(tasks)
        try:
            yield Gates(sandboxes, verifiers)
        finally:
            with anyio.CancelScope(shield=True):
                tasks.cancel_scope.cancel()
                await sandboxes.close()
                await verifiers.close()


async def verified(source: str, job: Job, state: Path, progress: Progress) -> Verified:
    """Hold a port's results against the recorded ones of the job's program.

    Raises:
        NothingToRecord, CaptureFailed: of the program, not of the port. SandboxFailed, WorkerError, WorkerUnavailable.
    """
    capture, folder = await captured(job, state, progress)
    atol, rtol = job.correctness.atol, job.correctness.rtol
    async with open_gates() as gates:
        progress("trace the port")
        try:
            traced = await traced_port(source, capture, gates.sandboxes)
        except PortRefused as error:
            return Verified(
                status="refused", message=error.message, next_step=error.fix, problems=[error.message, *_lines(error)],
                trials=capture.trials, atol=atol, rtol=rtol, isolation=isolation.isolation(),
            )  # fmt: skip
        progress("run the port")
        return await verify_port.verify(traced, capture, folder, atol=atol, rtol=rtol, verifiers=gates.verifiers)


async def compared(source: str, job: Job, state: Path, progress: Progress) -> Compared:
    """Hold a port's structure against that of the job's program. Raises as `verified`."""
    capture, _ = await captured(job, state, progress)
    if not any(of.structure for of in capture.sizes.values()):
        return no_reference()
    async with open_gates() as gates:
        progress("trace the port")
        try:
            traced = await traced_port(source, capture, gates.sandboxes)
            progress("compare")
            return await run_sync(compare_port, capture, await verify_port.structures(traced, gates.verifiers))
        except PortRefused as error:
            return Compared(
                status="refused",
                message=" ".join([error.message, *_lines(error)]),
                next_step=error.fix,
                isolation=isolation.isolation(),
            )


async def traced_port(source: str, capture: Capture, sandboxes: SandboxPool) -> Traced:
    """A port traced with the arguments that were recorded. Raises PortRefused, SandboxFailed."""
    sizes = {size: [(array.shape, array.dtype) for array in of.arrays] for size, of in capture.sizes.items()}
    names = [array.name for array in capture.sizes["check"].arrays]
    try:
        return await trace(source, sizes, names, sandboxes)
    except PortRefused as error:
        given = ", ".join(f"{a.name}: {a.dtype}{list(a.shape)}" for a in capture.sizes["check"].arrays)
        fix = f"{error.fix} Its arguments, at the check size: workload({given})."
        raise PortRefused(error.message, fix, error.details) from None


def compare_port(capture: Capture, structures: dict[Size, dict[str, object]]) -> Compared:
    """structures: of the port, as `verify_port.structures` or `Verified.structures` has them."""
    found: list[ComparedSize] = []
    for size, of in capture.sizes.items():
        if of.structure is None or size not in structures:
            continue
        comparison = compare(of.structure, structures[size])
        same = next((one for one in found if one.comparison.verdict == comparison.verdict), None)
        if same and comparison.verdict != "divergent":
            same.sizes.append(size)
        else:
            found.append(ComparedSize(sizes=[size], comparison=comparison))
    if not found:
        return no_reference()
    found.sort(key=lambda one: -_ORDER.index(one.comparison.verdict))
    worst = found[0].comparison
    return Compared(
        status=worst.verdict,
        message=worst.message,
        next_step=_NEXT[worst.verdict],
        compared=found,
        isolation=isolation.isolation(),
    )


def no_reference() -> Compared:
    return Compared(
        status="no_reference",
        message="The program was not converted to JAX, so it has no structure to compare with: only results of it are known.",
        next_step=_NEXT["no_reference"],
        isolation=isolation.isolation(),
    )


def _lines(error: PortRefused) -> list[str]:
    return [error.details] if error.details else []

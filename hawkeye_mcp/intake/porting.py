"""A port through its gates, and the program that it is then worth. Imports no jax."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.candidate.sandbox import SandboxPool
from hawkeye_mcp.intake import compare_structure, one_program, precise, trace_port, verify_port
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.folder import Program, constants, itemsize
from hawkeye_mcp.intake.inputs_source import SIZES, NotWritten
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.trace_port import PortRefused
from hawkeye_mcp.judge.workers import WorkerPool
from hawkeye_mcp.workloads import Size


class PortFailed(NotWritten):
    """A gate refused the port. gate: which."""

    def __init__(self, gate: str, message: str, fix: str, details: list[str]) -> None:
        super().__init__(message, fix)
        self.gate, self.details = gate, details


async def ported(
    job: Job, capture: Capture, recorded: Path, progress: Callable[[str], None], verifiers: WorkerPool
) -> tuple[dict[Size, Program], dict[Size, dict[str, Any] | None], list[tuple[str, str]]]:
    """The port's program at each size, its structure, and what each gate said.

    recorded: the folder of `capture.json` and `goldens.npz`.

    Raises:
        PortFailed.
    """
    assert job.conversion.port
    try:
        text = Path(job.conversion.port).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PortFailed(
            "trace_port", f"{job.conversion.port} cannot be read: {error}.", "Mend the file.", []
        ) from None
    arrays = {size: [(array.shape, array.dtype) for array in capture.sizes[size].arrays] for size in SIZES}
    names = [array.name for array in capture.sizes["full"].arrays]
    progress("trace_port")
    traced: trace_port.Traced | PortRefused
    async with anyio.create_task_group() as tasks:
        sandboxes = SandboxPool(tasks, warm=0)
        try:
            traced = await trace_port.trace(text, arrays, names, sandboxes)
        except PortRefused as refused:
            traced = refused
        finally:
            with anyio.CancelScope(shield=True):
                await sandboxes.close()
    if isinstance(traced, PortRefused):
        details = [traced.details] if traced.details else []
        raise PortFailed("trace_port", traced.message, traced.fix, details)
    progress("verify_port")
    verified = await verify_port.verify(
        traced, capture, recorded, atol=job.correctness.atol, rtol=job.correctness.rtol, verifiers=verifiers
    )
    if not verified.passed:
        raise PortFailed("verify_port", verified.message, verified.next_step, verified.problems[1:20])
    gates = [("trace_port", f"traced in the sandbox ({traced.isolation})"), ("verify_port", verified.message)]
    programs: dict[Size, Program] = {}
    for size in SIZES:
        of = traced.sizes[size]
        own = {constant.name: _array(constant) for constant in of.constants}
        programs[size] = Program(of.source, own, {constant.name: constant.dtype for constant in of.constants})
    gates.append(("compare_structure", same_at_every_size(job, capture, verified.structures, programs)))
    return programs, {size: verified.structures[size] for size in SIZES}, gates


def same_at_every_size(
    job: Job, capture: Capture, structures: Mapping[Size, dict[str, Any]], programs: Mapping[Size, Program]
) -> str:
    """What holds of a port at the full size too, where no results were recorded.

    Its structure is that of the program at both sizes; without one, it must do the same at both but for lengths.

    Raises:
        PortFailed: neither can be said.
    """
    said = []
    for size in SIZES:
        reference = capture.sizes[size].structure
        if reference is None:
            break
        compared = compare_structure.compare(reference, structures[size])
        if compared.verdict == "divergent":
            raise PortFailed(
                "compare_structure",
                f"At {size} size the port is another program: {compared.message}",
                "Use the same operations, axes, constants and dtypes.",
                compared.differences,
            )
        said.append(f"{compared.verdict} at {size} size")
    if len(said) == len(SIZES):
        return ", ".join(said)
    shapes = {size: [(*array.shape,) for array in capture.sizes[size].arrays] for size in SIZES}
    for size in SIZES:
        shapes[size] += [value.shape for value in programs[size].constants.values()]
    texts = {size: programs[size].text for size in SIZES}
    if not one_program.are_one(texts, shapes, constants(job)):
        raise PortFailed(
            "compare_structure",
            "At full size the port does something else than at the check size, where its results were compared, and there "
            "is no program of PyTorch's to compare it with.",
            "Write it so that nothing but lengths hangs on the arguments' shapes: no branch or constant of its own.",
            [],
        )
    return (
        "not compared, as PyTorch's program cannot be converted; the port does the same at both sizes but for lengths"
    )


def _array(constant: trace_port.Constant) -> NDArray[Any]:
    """As it is stored: of a narrow type as unsigned integers. Raises PortFailed."""
    dtype = f"u{itemsize(constant.dtype)}" if precise.is_narrow(constant.dtype) else constant.dtype
    try:
        return np.frombuffer(base64.b64decode(constant.data), dtype).reshape(constant.shape)
    except (TypeError, ValueError) as error:
        fix = "Make it an argument, or compute it."
        raise PortFailed("emit", f"The array {constant.name} of the port does not read: {error}.", fix, []) from None

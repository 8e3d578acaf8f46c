"""A port through its gates, and the program that it is then worth. Imports no jax."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.candidate.sandbox import SandboxPool
from hawkeye_mcp.intake import compare_structure, precise, trace_port, verify_port
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.folder import SIZES, NotWritten, Program, itemsize
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
    gates += _structure(capture, verified.structures["check"])
    programs: dict[Size, Program] = {}
    for size in SIZES:
        of = traced.sizes[size]
        programs[size] = Program(
            of.source, {c.name: _array(c) for c in of.constants}, {c.name: c.dtype for c in of.constants}
        )
    return programs, {size: verified.structures[size] for size in SIZES}, gates


def _structure(capture: Capture, port: dict[str, Any]) -> list[tuple[str, str]]:
    """Raises PortFailed."""
    reference = capture.sizes["check"].structure
    if reference is None:
        return [("compare_structure", "not compared: PyTorch's program cannot be converted, so that there is no other")]
    compared = compare_structure.compare(reference, port)
    if compared.verdict == "divergent":
        raise PortFailed(
            "compare_structure",
            f"The port is another program: {compared.message}",
            "Use the same operations, axes, constants and dtypes.",
            compared.differences,
        )
    return [("compare_structure", f"{compared.verdict}: {compared.message}")]


def _array(constant: trace_port.Constant) -> NDArray[Any]:
    """As it is stored: of a narrow type as unsigned integers. Raises PortFailed."""
    dtype = f"u{itemsize(constant.dtype)}" if precise.is_narrow(constant.dtype) else constant.dtype
    try:
        return np.frombuffer(base64.b64decode(constant.data), dtype).reshape(constant.shape)
    except (TypeError, ValueError) as error:
        fix = "Make it an argument, or compute it."
        raise PortFailed("emit", f"The array {constant.name} of the port does not read: {error}.", fix, []) from None

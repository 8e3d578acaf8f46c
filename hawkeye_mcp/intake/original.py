"""A kernel beside the PyTorch module that it stands for: do they agree, and how long does each take where it ran?"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.intake import capture as capturing
from hawkeye_mcp.intake import values
from hawkeye_mcp.intake.capture import Capture, CaptureFailed, SizeCapture
from hawkeye_mcp.intake.captures import captured
from hawkeye_mcp.intake.job import Conversion, Input, Job
from hawkeye_mcp.intake.port_gates import open_gates
from hawkeye_mcp.intake.values import OutputAgreement
from hawkeye_mcp.judge import tracing
from hawkeye_mcp.judge.verdict import Verdict
from hawkeye_mcp.judge.workers import WorkerDied, WorkerTimeout
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.workloads import Workload

_RUN_S = 300.0
Progress = Callable[[str], None]
Shaped = tuple[tuple[int, ...], str]
_CHECK = "recorded"
_NOT_TIMED = "not timed: the time of a kernel that is wrong says nothing"


class NoTime(Exception):
    """The kernel's time cannot be had; the message says why."""


class Side(BaseModel):
    """How long one of the two takes. us: null with the reason in `note`."""

    model_config = ConfigDict(extra="forbid")

    us: float | None = None
    interval_us: tuple[float, float] | None = Field(
        None, description="Measured: quartiles of the runs. Predicted: four of five such predictions lie in it."
    )
    source: Literal["measured", "predicted"] | None = None
    on: str = Field("", description="The device and program that the time is of.")
    host: str = Field("", description="The registered host that has the device; empty: this machine.")
    note: str = ""


class Beside(BaseModel):
    """A kernel beside the original. ratio: original's time over the kernel's, only where one device ran both."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["agrees", "differs", "failed"]
    message: str
    next_step: str
    atol: float
    rtol: float
    trials: int
    outputs: list[OutputAgreement] = []
    original: Side
    kernel: Side
    ratio: float | None = None
    ratio_note: str
    notes: list[str] = []
    isolation: str


def job_of(torch_file: Path, entry: str) -> Job:
    """What a job file would say of a PyTorch module alone."""
    return Job(
        schema="hawkeye.job/1",
        name="original",
        input=Input(type="pytorch", path=str(torch_file.absolute()), entry_point=entry),
        has_reference=False,
        needs_jax_conversion=True,
        conversion=Conversion(method="torchax"),
    )


async def beside(
    kernel: str,
    job: Job,
    tpu: str,
    state: Path,
    progress: Progress,
    profile: Callable[[], Awaitable[Profile]] | None = None,
    workload: Workload | None = None,
) -> Beside:
    """Run the module of a job and a kernel on the same arguments, and tell how long each takes.

    profile: looks into the kernel for `workload`, which was imported from the module, or raises NoTime; without it the
    kernel has no time.

    Raises:
        CaptureFailed: the module cannot be run. SandboxFailed, WorkerError, WorkerUnavailable.
    """
    capture, folder, notes = await _recorded(job, state, progress)
    atol, rtol = job.correctness.atol, job.correctness.rtol
    found = Beside(
        status="agrees", message="", next_step="", atol=atol, rtol=rtol, trials=capture.trials, original=Side(),
        kernel=Side(), ratio_note="", notes=notes, isolation=isolation.isolation(),
    )  # fmt: skip
    if problems := await _agreement(kernel, capture, folder, tpu, found, progress):
        found.message, found.next_step = problems[0], "Mend the first problem, then compare again."
        found.notes += problems[1:]
        found.original = found.kernel = Side(note=_NOT_TIMED)
        found.ratio_note = _NOT_TIMED
        return found
    found.original = await _original(job, progress)
    if workload and workload.shapes(workload.inputs, "full") != (full := _shapes(capture.sizes["full"], folder)):
        found.kernel = Side(note=_other_sizes(workload, full))
    else:
        found.kernel = await _kernel(profile)
    found.ratio, found.ratio_note = _ratio(found.original, found.kernel)
    found.message = (
        f"The kernel agrees with PyTorch: {len(found.outputs)} output(s), {found.trials} set(s) of arguments, "
        f"|difference| <= {atol:g} + {rtol:g} * |PyTorch's|."
    )
    found.next_step = "Evaluate it: there the arguments are fresh and secret, and the time is held against XLA's."
    return found


async def _recorded(job: Job, state: Path, progress: Progress) -> tuple[Capture, Path, list[str]]:
    try:
        return *await captured(job, state, progress), []
    except CaptureFailed as error:
        if error.kind not in ("not_convertible", "eager_disagrees"):
            raise
        note = f"Its results alone are compared: {error.message}"
    results = job.model_copy(update={"conversion": Conversion(method="port", port=job.input.path)})
    return *await captured(results, state, progress), [note]


async def _agreement(
    kernel: str, capture: Capture, folder: Path, tpu: str, found: Beside, progress: Progress
) -> list[str]:
    """What is wrong with the kernel's results, in words; fills in the status and the outputs."""
    of = capture.sizes["check"]
    shapes = _shapes(of, folder)
    chip = CHIPS[tpu]
    async with open_gates() as gates:
        progress("trace the kernel")
        async with gates.sandboxes.take(chip) as box:
            ended = await box.trace(kernel, {_CHECK: shapes}, chip)
        try:
            artifacts = tracing.artifacts(ended, [_CHECK])
        except Verdict as verdict:
            found.status = "failed"
            arguments = ", ".join(array.name for array in of.arrays)
            return [f"{verdict.message} It must take {arguments}, then arrays that the module holds as constants."]
        progress("run the kernel")
        try:
            reply = await gates.verifiers.call(
                "run_kernel", _RUN_S, folder=str(folder), cpu=artifacts[_CHECK]["cpu"], atol=found.atol, rtol=found.rtol
            )
        except (WorkerDied, WorkerTimeout) as error:
            reply = {"failed": f"{error}"[:1000]}
    for outcome, said in (("refused", "is not run"), ("failed", "fails when it runs")):
        if outcome in reply:
            found.status = "failed"
            return [f"The kernel {said}: {reply[outcome]}"]
    found.outputs = [OutputAgreement.model_validate(one) for one in reply["outputs"]]
    problems = [text for one in found.outputs if (text := values.problem(one, found.atol, found.rtol))]
    found.status = "differs" if problems else "agrees"
    return problems


def _shapes(of: SizeCapture, folder: Path) -> list[Shaped]:
    """Of the arguments, and of the arrays that the program closes over, which an imported workload takes last."""
    with np.load(folder / "goldens.npz", allow_pickle=False) as arrays:
        own = [(arrays[key].shape, of.constant_dtypes[name]) for name, key in of.constants.items()]
    return [(array.shape, array.dtype) for array in of.arrays] + own


async def _original(job: Job, progress: Progress) -> Side:
    try:
        found = await capturing.timed(job, progress)
    except CaptureFailed as error:
        return Side(note=f"not measured: {error.message}")
    return Side(
        us=found.us, interval_us=(found.low_us, found.high_us), source="measured",
        on=f"{found.device}, torch {found.torch} eager, {found.runs} runs",
    )  # fmt: skip


async def _kernel(profile: Callable[[], Awaitable[Profile]] | None) -> Side:
    if profile is None:
        return Side(
            note="unknown: --workload names the workload that was imported from the module, which has its full size"
        )
    try:
        found = await profile()
    except NoTime as error:
        return Side(note=f"unknown: {error}")
    timing = found.timing
    if found.measured and found.measured.candidate_us is not None:
        timing = found.measured
    if timing is None or timing.candidate_us is None or timing.source is None:
        return Side(note=f"unknown: {found.message}")
    versions = f"jax {found.versions.jax}, libtpu {found.versions.libtpu}"
    return Side(
        us=timing.candidate_us, interval_us=timing.candidate_interval_us, source=timing.source,
        on=f"TPU {found.tpu}, {versions}" if timing.source == "predicted" else f"TPU {found.tpu}",
        host=found.judged_on or "",
        note="only a lower bound" if timing.lower_bound else "",
    )  # fmt: skip


def _other_sizes(workload: Workload, full: list[Shaped]) -> str:
    """Two times of different sizes would stand side by side."""
    named = "; ".join(
        f"{array.name} is {dtype}{list(shape)}, the module's {other[1]}{list(other[0])}"
        for array, (shape, dtype), other in zip(
            workload.inputs, workload.shapes(workload.inputs, "full"), full, strict=False
        )
        if (shape, dtype) != other
    )
    return (
        f"unknown: {workload.name} takes other arrays at full size than the module ({named or 'another number of them'}); "
        "give --job the job file that it was imported from"
    )


def _ratio(original: Side, kernel: Side) -> tuple[float | None, str]:
    """The original's time over the kernel's, and why there is none or what it is of."""
    if original.us is None or kernel.us is None:
        return None, "one of the two has no time"
    if kernel.host:
        return (
            None,
            f"the original was measured on this machine, and the kernel's time is {kernel.source} on {kernel.host}",
        )
    if kernel.source == "measured" and original.on.startswith("TPU "):
        return original.us / kernel.us, "both measured on this machine's TPU"
    return None, f"the original was measured on another device, and the kernel's time is {kernel.source}"


def text(found: Beside) -> str:
    """For people."""
    lines = [f"{found.status}: {found.message}"]
    for one in found.outputs:
        worst = "" if one.max_abs_error is None else f", largest |difference| {one.max_abs_error:.3g}"
        lines.append(
            f"  output {one.index} {one.dtype}{one.shape}: {one.failing} of {one.elements} elements wrong{worst}"
        )
    lines += [f"{name:<8} {_told(side)}" for name, side in (("original", found.original), ("kernel", found.kernel))]
    ratio = "no ratio" if found.ratio is None else f"{found.ratio:.4g} times as fast as the original"
    lines.append(f"{'together':<8} {ratio}: {found.ratio_note}")
    lines += [f"{'note':<8} {note}" for note in found.notes]
    return "\n".join([*lines, found.next_step])


def _told(side: Side) -> str:
    if side.us is None:
        return side.note
    ends = f" [{side.interval_us[0]:.4g} to {side.interval_us[1]:.4g}]" if side.interval_us else ""
    note = f" ({side.note})" if side.note else ""
    where = f", by {side.host}" if side.host else ""
    return f"{side.us:.4g} us{ends}, {side.source}: {side.on}{where}{note}"

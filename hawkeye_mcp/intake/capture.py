"""What a person's own program is, recorded: its arguments, its JAX program, and results to hold every other against.

The program is Python of the person who asks, so it may run, but in a process of its own (`inside`), whose memory and
time are limited and which has no network where bubblewrap works. What it prints is kept for error messages.
"""

import contextlib
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hawkeye_mcp.intake import child
from hawkeye_mcp.intake.inside.request import Request
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.judge.workers import memory_bytes
from hawkeye_mcp.workloads import Size

Route = Literal["torchax", "golden", "jax"]
Kind = Literal[
    "torch_missing",
    "source_fails",
    "no_entry_point",
    "not_convertible",
    "eager_disagrees",
    "non_deterministic",
    "too_big",
    "bad_sizes",
]
LARGEST_RECORD_BYTES = 256_000_000
_LEAST_MEMORY_BYTES = 8 << 30  # of address space: PyTorch and JAX together map several GiB that they do not use


class CaptureFailed(Exception):
    """The program could not be recorded, or what was recorded of it is not to be trusted.

    message: what happened and why. fix: what to do next. output: the end of what the program printed.
    """

    def __init__(self, kind: Kind, message: str, fix: str, output: str = "") -> None:
        super().__init__(f"{message} {fix}")
        self.kind, self.message, self.fix, self.output = kind, message, fix, output


def torch_install() -> str:
    """The command that brings what PyTorch modules need, at the versions that this package is written for."""
    stated = metadata.requires("hawkeye-mcp") or []
    wanted = [line.split(";")[0].strip() for line in stated if "extra" in line and re.match(r"torch(ax)?\b", line)]
    return shlex.join([sys.executable, "-m", "pip", "install", *(wanted or ["hawkeye-mcp[torch]"])])


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# The program might write capture.json itself, and these become parts of Python text.
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Dtype = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", description="jax's name for it.")]
Length = Annotated[int, Field(ge=0)]


class _Failed(_Record):
    """What the process says where it finds a fault."""

    kind: Kind
    message: str
    fix: str


class Normal(_Record):
    """Each element independent of the others."""

    kind: Literal["normal"] = "normal"
    mean: float
    std: float


class Uniform(_Record):
    """Each element independent of the others."""

    kind: Literal["uniform"] = "uniform"
    low: float
    high: float


class Kept(_Record):
    """Never drawn: the array stays what the program gave, such as indices and masks."""

    kind: Literal["kept"] = "kept"
    key: str = Field(description="Where goldens.npz has it.")


_Model = TypeVar("_Model", bound=_Record)
Draw = Annotated[Normal | Uniform | Kept, Field(discriminator="kind")]


class ArrayCapture(_Record):
    """One argument of the program."""

    name: Name
    role: Literal["input", "parameter", "buffer"]
    shape: tuple[Length, ...]
    dtype: Dtype
    draw: Draw = Field(description="How fresh values for it are drawn.")


class OutputCapture(_Record):
    shape: tuple[Length, ...]
    dtype: Dtype


class SizeCapture(_Record):
    """The program at one size. The order of `arrays` is that of the arguments, at every size."""

    arrays: tuple[ArrayCapture, ...]
    outputs: tuple[OutputCapture, ...]
    program: str | None = Field(None, description="Source of `workload`, made from the jaxpr. None on route `golden`.")
    structure: dict[str, Any] | None = Field(None, description="What the jaxpr consists of. None if there is none.")
    flops: float | None = Field(None, description="Of products and elementwise work, as jax counts; None if unknown.")
    constants: dict[Name, str] = Field(
        {}, description="Arrays that the program closes over: their keys in goldens.npz."
    )
    constant_dtypes: dict[Name, Dtype] = Field({}, description="Their types.")


class EagerCheck(_Record):
    """The JAX program held against PyTorch's own run, over all trials.

    worst_abs: largest |difference|. worst_rel: largest |difference| / |result| where the result is not negligible.
    """

    checked: int = Field(description="Elements compared.")
    ok: bool
    worst_abs: float
    worst_rel: float
    tolerance: str = Field(description="What was allowed, in words.")


class RecommendedTolerance(_Record):
    """From how far the program's own results lie from those in float64; advice, never a gate by itself."""

    atol: float
    rtol: float
    reason: str


class Capture(_Record):
    """What `capture.json` holds; the arrays that it speaks of are in `goldens.npz` beside it.

    Keys there: `<size>/<trial>/in/<name>`, `<size>/<trial>/out/<j>`, `<size>/<trial>/out64/<j>`. bfloat16 and float8
    are stored as unsigned integers of the same width; `dtype` here says what they are. Results are recorded at `check` only.
    """

    source_sha256: str
    imported: dict[str, str] = Field(
        {}, description="Other files of the person's that it imported, with their SHA-256."
    )
    route: Route
    versions: dict[str, str] = Field(description="Of torch, torchax and jax, where they were used.")
    sizes: dict[Size, SizeCapture]
    trials: int = Field(description="How many sets of arguments and results goldens.npz has, from 0.")
    notes: tuple[str, ...] = ()
    eager_check: EagerCheck | None = None
    tolerance: RecommendedTolerance | None = None
    deterministic: bool | None = Field(None, description="Whether two runs agreed in every bit.")


class Timed(_Record):
    """How long a module takes where it was run, measured. low_us, high_us: quartiles of the runs; us: their median."""

    us: float
    low_us: float
    high_us: float
    runs: int
    device: str
    torch: str = Field(description="Its version.")


@dataclass(frozen=True)
class Limits:
    """What the process may use. record_bytes: of goldens.npz."""

    wall_s: float = 900
    memory_bytes: int = field(default_factory=lambda: max(memory_bytes() * 3 // 4, _LEAST_MEMORY_BYTES))
    record_bytes: int = LARGEST_RECORD_BYTES


async def capture(
    job: Job,
    folder: Path,
    progress: Callable[[str], None] = lambda stage: None,
    limits: Limits | None = None,
) -> Capture:
    """Run a job's program in a process of its own; `folder` then has capture.json and goldens.npz.

    job: of type pytorch or jax, its paths absolute.

    Raises:
        CaptureFailed: see `Kind`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    await _ask(job, folder, progress, limits or Limits())
    return _read(Capture, folder / "capture.json")


async def timed(job: Job, progress: Callable[[str], None], limits: Limits | None = None) -> Timed:
    """Measure a PyTorch module at full size, in a process of its own, on this machine. Raises as `capture`."""
    with tempfile.TemporaryDirectory(prefix="hawkeye-timed-") as scratch:
        await _ask(job, Path(scratch), progress, limits or Limits(), timed=True)
        return _read(Timed, Path(scratch) / "timed.json")


def _read(model: type[_Model], file: Path) -> _Model:
    try:
        return model.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CaptureFailed(
            "source_fails", f"What was recorded does not read: {str(error)[:500]}.",
            f"Look for what writes {file.name} beside this package, or ends the process early.",
        ) from None  # fmt: skip


async def _ask(job: Job, folder: Path, progress: Callable[[str], None], limits: Limits, *, timed: bool = False) -> None:
    """What the process finds is in the folder afterwards."""
    assert job.input.path and job.input.type in ("pytorch", "jax")
    with tempfile.TemporaryDirectory(prefix="hawkeye-capture-") as scratch:
        request = Request(
            language=job.input.type,
            path=job.input.path,
            entry=job.input.entry,
            inputs_fn=job.input.inputs_fn,
            init_inputs_fn=job.input.init_inputs_fn,
            convert=job.conversion.method != "port",
            sizes=job.sizes,
            seed=job.correctness.seed,
            trials=job.correctness.trials,
            folder=str(folder),
            record_bytes=limits.record_bytes,
            memory_bytes=limits.memory_bytes,
            timed=timed,
        )
        file = Path(scratch) / "request.json"
        file.write_text(request.model_dump_json(), encoding="utf-8")
        ended = await child.run(file, folder, Path(job.input.path).parent, progress, limits.wall_s)
    if ended.how is None:
        raise CaptureFailed(
            "source_fails", f"It was still {ended.stage} after {limits.wall_s:g} s, and was ended.",
            "Give `sizes` smaller numbers, or look for what does not end.", ended.output,
        )  # fmt: skip
    if "failed" in ended.last:
        with contextlib.suppress(ValidationError):  # it is none of ours
            told = _Failed.model_validate(ended.last["failed"])
            raise CaptureFailed(told.kind, told.message, told.fix, ended.output)
    if "done" not in ended.last:
        raise CaptureFailed(
            "source_fails",
            f"While {ended.stage}, the process {ended.how}.",
            "Run the file by itself: it must neither end its process nor crash it.",
            ended.output,
        )

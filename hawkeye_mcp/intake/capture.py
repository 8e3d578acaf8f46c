"""What a person's own program is, recorded: its arguments, its JAX program, and results to hold every other against.

The program is Python of the person who asks, so it may run, but in a process of its own (`inside`), whose memory and
time are limited and which has no network where bubblewrap works. What it prints is kept for error messages.
"""

import re
import shlex
import sys
from importlib import metadata
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


Draw = Annotated[Normal | Uniform | Kept, Field(discriminator="kind")]


class ArrayCapture(_Record):
    """One argument of the program."""

    name: str
    role: Literal["input", "parameter", "buffer"]
    shape: tuple[int, ...]
    dtype: str = Field(description="jax's name for it.")
    draw: Draw = Field(description="How fresh values for it are drawn.")


class OutputCapture(_Record):
    shape: tuple[int, ...]
    dtype: str


class SizeCapture(_Record):
    """The program at one size. The order of `arrays` is that of the arguments, at every size."""

    arrays: tuple[ArrayCapture, ...]
    outputs: tuple[OutputCapture, ...]
    program: str | None = Field(None, description="Source of `workload`, made from the jaxpr. None on route `golden`.")
    structure: dict[str, Any] | None = Field(None, description="What the jaxpr consists of. None if there is none.")
    flops: float | None = Field(None, description="Of products and elementwise work, as jax counts; None if unknown.")
    constants: dict[str, str] = Field({}, description="Arrays that the program closes over: their keys in goldens.npz.")


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
    route: Route
    versions: dict[str, str] = Field(description="Of torch, torchax and jax, where they were used.")
    sizes: dict[Size, SizeCapture]
    trials: int = Field(description="How many sets of arguments and results goldens.npz has, from 0.")
    notes: tuple[str, ...] = ()
    eager_check: EagerCheck | None = None
    tolerance: RecommendedTolerance | None = None
    deterministic: bool | None = Field(None, description="Whether two runs agreed in every bit.")

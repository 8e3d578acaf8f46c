"""The verdict on one candidate: the same model for MCP, CLI, bench and store.

Every time is in microseconds and carries where it came from. What was not measured or predicted is null.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.sanitizer.model import Sanitized

Status = Literal[
    "correct",
    "incorrect",
    "rejected",
    "trace_error",
    "compile_error",
    "runtime_error",
    "timeout",
    "harness_error",
]
# A profile verifies nothing, so it is never "correct"; "incorrect" are outputs of the wrong shape or dtype. It runs the
# kernel only where the machine has the TPU.
ProfileStatus = Literal[
    "profiled",
    "incorrect",
    "rejected",
    "trace_error",
    "compile_error",
    "runtime_error",
    "timeout",
    "harness_error",
]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Kernel(Model):
    """One Mosaic kernel found in the artifact."""

    name: str
    grid: list[int]
    calls: int = Field(1, description="How often the program calls it; 0 when a loop makes that unknown.")


class OutsideOp(Model):
    """Work that the artifact does outside its Mosaic kernels."""

    op: str
    count: int


class Audit(Model):
    """What the artifact's MLIR shows, whatever the source text says."""

    ok: bool
    kernels: list[Kernel]
    outside: list[OutsideOp] = Field(description="Operations outside the kernels, matmuls and convolutions first.")
    problems: list[str]


class OutputError(Model):
    """One output against the oracle, worst over the seeds."""

    index: int
    shape: list[int]
    dtype: str
    error_e: float | None = Field(description="norm(out-ref) / norm(ref - mean of ref over axis 0)")
    error_r: float | None = Field(description="largest over last-axis rows of norm(out-ref) / norm(ref)")
    max_abs_error: float | None
    max_rel_error: float | None
    failing_fraction: float | None = Field(
        description="Share of elements outside |out-ref| <= rtol*|ref| + atol of the workload; reported beside the gate."
    )
    nonfinite: int = Field(description="Elements that are NaN or Inf where the oracle is finite.")
    worst_index: list[int] | None = None
    expected: float | None = None
    actual: float | None = None


class Correctness(Model):
    ok: bool
    size: Literal["check", "full"]
    seeds: int = Field(description="How many fresh secret seeds were tried.")
    gate: str = Field(description='The error that decides and its limit, for example "E <= 0.01".')
    outputs: list[OutputError]
    problem: str | None = None
    on_tpu: Literal["agrees", "rounding", "unsupported", "exhausted"] | None = Field(
        None,
        description="The kernels of the artifact for the TPU, run operation by operation at the check size. rounding: right "
        "only if float32 operands of matmuls at the default precision are not rounded to bfloat16, as a TPU does. "
        "unsupported, exhausted: not known. null: it was not tried.",
    )
    on_tpu_note: str | None = Field(None, description="What else is to be said of that.")


class OpTime(Model):
    """Predicted time of one operation: the larger of its two terms."""

    name: str
    kind: Literal["mosaic", "xla"]
    method: str = Field(description="static_profile, static_profile_sampled, xla_estimate or hbm_floor")
    calls: int = 1
    static_us: float | None
    hbm_floor_us: float | None
    hbm_bytes: int | None
    us: float
    bound: Literal["static_schedule", "hbm"]
    by_hand: bool = Field(
        False, description="A kernel that moves data by copies of its own; what they wait is a guess."
    )


class Interval(Model):
    """A median over the rounds with its percentile bootstrap interval at 95 %."""

    median: float
    low: float
    high: float


class Side(Model):
    """Device times of one program, one sample a round."""

    us: Interval
    samples_us: list[float] = Field(description="Device time per call, the mean over the calls of one round, by round.")
    wall_us: list[float] = Field(description="Wall-clock time per call of the same rounds, with dispatch.")
    started_s: list[float] = Field(description="When each round's calls began, in seconds after the first.")
    calls: int = Field(description="Calls per round.")
    compile_s: float | None = Field(description="Seconds to compile it; null for the control, which is the baseline.")


class Measurement(Model):
    """Candidate and XLA baseline timed in turn on one device. Nothing in here is predicted."""

    device: str = Field(description="What jax calls the device that ran both; times are per JAX device.")
    runtime: str = Field(description="Version of the runtime that ran them, in its own words.")
    verdict: Literal["faster", "slower", "indistinguishable", "void"]
    why: str
    candidate: Side
    baseline: Side
    control: Side = Field(description="The baseline once more, as if it were another program.")
    speedup: Interval = Field(description="baseline / candidate, paired by round; claimed only where verdict says so.")
    control_ratio: Interval = Field(description="control / baseline, paired by round: 1 but for noise.")
    noise: float = Field(description="Share by which a ratio may differ from 1 and mean nothing.")
    dispatch_us: float = Field(description="Wall-clock time of one call of a trivial program; no device time has it.")
    order: list[list[str]] = Field(description="The sides of each round in the order in which they ran.")
    seed: int = Field(description="Of the order and of the bootstrap.")
    input_seeds: list[int] = Field(description="Seeds of the sets of inputs that the calls went through in turn.")


class Timing(Model):
    source: Literal["predicted", "measured"] | None
    candidate_us: float | None
    baseline_us: float | None
    speedup: float | None = Field(
        description="baseline_us / candidate_us; of measured times the median over the rounds. Null unless both have the same "
        "source, and where noise explains a measured one.",
    )
    candidate_interval_us: tuple[float, float] | None = Field(
        None,
        description="where the true time lies in four of five cases, by the errors of such predictions so far; of a "
        "measured time its bootstrap interval at 95 %",
    )
    baseline_interval_us: tuple[float, float] | None = None
    speedup_interval: tuple[float, float] | None = None
    indistinguishable: bool = Field(
        False, description="speedup_interval holds 1, or what noise explains: neither is known to be faster"
    )
    lower_bound: bool = Field(False, description="candidate_us is only a lower bound; notes say why.")
    baseline_lower_bound: bool = Field(
        False, description="baseline_us is only a lower bound, and so is the speedup: both are at least that."
    )
    ops: list[OpTime] = []
    baseline_method: str | None = None
    notes: list[str] = []
    measurement: Measurement | None = Field(None, description="What a measured time rests on; also of a void one.")


class Versions(Model):
    hawkeye: str
    jax: str
    jaxlib: str
    libtpu: str


class ArtifactInfo(Model):
    sha256: str
    bytes: int


class Diagnosis(Model):
    """At most three plain findings, worst first."""

    findings: list[str]
    taxonomy_rows: list[str] = Field(
        [], description="Rows that address the findings; emptied where the taxonomy is withheld."
    )


class Evaluation(Model):
    """Everything the judge says of one candidate."""

    id: str
    status: Status
    message: str = Field(description="What happened and why, in one or a few lines.")
    next_step: str = Field(description="What to do now.")
    workload: str
    tpu: str
    kernel_sha256: str
    isolation: str = Field(description="bubblewrap or rlimits: what stood around the candidate's Python")
    artifact: ArtifactInfo | None = None
    audit: Audit | None = None
    correctness: Correctness | None = None
    sanitized: Sanitized | None = Field(
        None, description="The sanitizer's quick checks, which no status depends on; null: they came to no answer."
    )
    timing: Timing | None = None
    predicted: Timing | None = Field(
        None,
        description="The prediction, where the timing was measured; no figure of the one is set against the other.",
    )
    diagnosis: Diagnosis | None = None
    compiler_message: str | None = Field(None, description="The TPU compiler's own words, verbatim.")
    versions: Versions
    stages_s: dict[str, float] = Field({}, description="Seconds of wall clock by stage.")
    created: str = Field(description="ISO 8601, UTC")
    judged_on: str | None = Field(
        None, description="The registered host that judged it, or those of which none did; null: this machine."
    )

    @property
    def speedup(self) -> float | None:
        return self.timing.speedup if self.timing else None

"""What a search found: every point looked at, the winner as the judge sees it, and what it gains over the file as it is."""

from typing import Literal

from pydantic import Field

from hawkeye_mcp.evaluation import Evaluation, Model, ProfileStatus, Versions

Strategy = Literal["grid", "random", "halving", "tpe"]
STRATEGIES: tuple[Strategy, ...] = ("grid", "random", "halving", "tpe")
Rung = Literal["estimate", "prediction"]
RUNGS: dict[Rung, str] = {
    "estimate": "compiled by the TPU compiler; the time is an estimate from matmul FLOP at the peak, bytes moved step by step "
    "and what a grid step costs, without the schedule",
    "prediction": "compiled by the TPU compiler; the time is predicted from the compiler's own schedule, as in an evaluation",
}
Status = Literal[
    "better",
    "indistinguishable",
    "best_already",
    "no_comparison",
    "none_correct",
    "none_timed",
    "not_judged",
]
Source = Literal["predicted", "measured"]


class Looked(Model):
    """One point: the kernel file with these values, and what was found without verifying it."""

    parameters: dict[str, int]
    kernel_sha256: str = Field(description="of the file with these values")
    status: ProfileStatus = Field(description="profiled; compile_error is what the TPU compiler refuses")
    rung: Rung | None = Field(None, description="how far it was looked into; null if it did not compile")
    estimate_us: float | None = Field(None, description="of the first rung; null where that was not asked for")
    predicted_us: float | None = None
    interval_us: tuple[float, float] | None = Field(None, description="of predicted_us, see Timing")
    lower_bound: bool = False
    measured_us: float | None = Field(None, description="on this machine's own TPU, where it has one of the generation")
    vmem_bytes: int | None = None
    hbm_bytes: int | None = None
    message: str
    compiler_message: str | None = Field(None, description="the TPU compiler's own words, cut if long")
    took_s: float

    @property
    def refused(self) -> bool:
        return self.status == "compile_error"

    @property
    def timed(self) -> bool:
        return self.predicted_us is not None


class Judged(Model):
    """A point, or the file as it is, after a full evaluation."""

    parameters: dict[str, int]
    kernel_sha256: str
    evaluation_id: str
    status: str
    message: str
    seeds: int | None = Field(None, description="fresh draws of the inputs on which it was verified")
    source: Source | None
    us: float | None
    interval_us: tuple[float, float] | None
    lower_bound: bool

    @classmethod
    def of(cls, parameters: dict[str, int], found: Evaluation) -> "Judged":
        timing = found.timing
        return cls(
            parameters=parameters,
            kernel_sha256=found.kernel_sha256,
            evaluation_id=found.id,
            status=found.status,
            message=found.message,
            seeds=found.correctness.seeds if found.correctness else None,
            source=timing.source if timing else None,
            us=timing.candidate_us if timing else None,
            interval_us=timing.candidate_interval_us if timing else None,
            lower_bound=bool(timing and timing.lower_bound),
        )


class Gain(Model):
    """Time of the file as it is over that of the winner, both from the same source."""

    source: Source
    ratio: float
    interval: tuple[float, float] | None = Field(
        description="the ends of both times' intervals against each other; null if one has none"
    )
    indistinguishable: bool = Field(description="the intervals overlap: neither is known to be faster")


class Autotuned(Model):
    status: Status
    message: str
    next_step: str
    workload: str
    tpu: str
    kernel_sha256: str = Field(description="of the file as it is, which is never changed")
    parameters: dict[str, list[int]]
    constraints: list[str]
    own: dict[str, int] = Field(description="the file's own values")
    strategy: Strategy
    seed: int
    points: int = Field(description="that the search was to look at")
    allowed: int = Field(description="points of the space that fulfil the constraints")
    stopped_by: Literal["seconds", "faults", "budget"] | None = Field(
        None, description="what ended the search before that"
    )
    rungs: dict[Rung, str] = Field(RUNGS, description="what each rung measured")
    counts: dict[str, int] = Field(description="points by what became of them")
    from_store: int = Field(description="points that an earlier search of the same folder had looked at")
    ranked_by: Source = Field(description="the times that the points are ranked by")
    looked_at: list[Looked] = Field(description="best first; those without a time last")
    best: Judged | None = Field(None, description="the fastest point that was found correct")
    unchanged: Judged | None = None
    wrong: list[Judged] = Field([], description="faster points that the full evaluation did not find correct")
    gain: Gain | None = None
    folder: str
    best_file: str | None = Field(None, description="the winner's text; null if there is none or nothing to change")
    took_s: float
    versions: Versions

"""What the check of one workload finds."""

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.workloads import Size


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mutant(_Model):
    """A wrong program and what the judge's comparison says of it."""

    name: str
    gate: str
    error: float | None = Field(description="In the gate's metric; null if not finite.")
    failing: float | None = Field(description="Share of elements outside the workload's rtol and atol.")
    line: int = Field(0, description="Of workload.py, where the fault is in an operation.")
    reason: str = Field("", description="Why it may survive, if the workload says so.")


class Mutants(_Model):
    """equivalent: not told from the right program by a tenth of the honest one's own rounding."""

    caught: list[Mutant]
    survived: list[Mutant]
    allowed: list[Mutant] = Field(description="Survivors with a reason in workload.toml.")
    equivalent: list[str]


class Honest(_Model):
    """A right program and its error in the gate's metric, the worst over the seeds."""

    name: str
    error: float | None
    ok: bool


class Fit(_Model):
    """Does the baseline compile for a chip at full size? words: the compiler's, if it does not."""

    tpu: str
    fits: bool
    words: str = ""


class Roof(_Model):
    """What a chip's peaks allow: the least time of the workload at full size, and which peak says so."""

    bound: str = Field(description="FLOPs or bytes.")
    least_us: float


class Checked(_Model):
    """The audit of one workload. problems: why it is not ok, in words."""

    name: str
    ok: bool
    size: Size
    gate: str = Field(description="What the judge demands: metric and limit.")
    seeds: list[int] = Field(
        description="Draws: the first for mutants, the second for replays, all for the workload itself."
    )
    power: float | None = Field(description="Share of output elements that carry the verdict.")
    honest: list[Honest]
    mutants: Mutants
    roofline: dict[str, Roof] = Field({}, description="By chip.")
    fits: list[Fit] = []
    broken: bool = Field(False, description="The check did not come to an end; nothing is known but problems.")
    seconds: float | None = Field(
        description="Wall time of the check of this workload, at full size of one verification; null if it did not end."
    )
    cpu_seconds: float | None = Field(None, description="Processor time of its process, all threads, start included.")
    peak_bytes: int | None = Field(None, description="Most memory that its process held; null if it did not end.")
    notes: list[str] = Field([], description="What could not be done here, and why.")
    problems: list[str]

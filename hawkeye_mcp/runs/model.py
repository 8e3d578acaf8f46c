"""What a run's folder says of itself: the events it is made of, and the state that follows from them.

Every figure is finite or null: null is what was neither measured nor predicted.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.evaluation import ProfileStatus, Status
from hawkeye_mcp.pool import Source
from hawkeye_mcp.runs.idea import Idea, Ledger, Trusted

Figure = Annotated[float, Field(ge=0)]  # a time, or a ratio of two


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Created(_Strict):
    """The first event of a run. workload_folder: of a workload that is not shipped."""

    id: str
    workload: str
    workload_folder: str | None = None
    tpu: str


class Judged(_Strict):
    """One evaluation, with the figures that rank it; all of it is in evaluations/<id>.json."""

    id: str
    kernel_sha256: str
    status: Status
    source: Source | None = None
    candidate_us: Figure | None = None
    candidate_interval_us: tuple[Figure, Figure] | None = None
    baseline_us: Figure | None = None
    speedup: Figure | None = None
    speedup_interval: tuple[Figure, Figure] | None = None
    lower_bound: bool = False
    baseline_lower_bound: bool = False
    fingerprint: str = Field("", description="of the judge, its versions and the workload; only like ranks with like")


class Profiled(_Strict):
    """One profile; all of it is in artifacts/."""

    id: str
    kernel_sha256: str
    status: ProfileStatus
    predicted_us: Figure | None = None
    ceiling_us: Figure | None = Field(None, description="the least time that the binding unit needs for the workload")
    ceiling_unit: str | None = None
    ceiling_source: str | None = None
    fingerprint: str = ""


class Result(Judged):
    """An evaluation as the state lists it."""

    time: str
    improved: bool = Field(False, description="strictly better than all before it of the same source and judge")


class Best(_Strict):
    """The best kernel by times of one source."""

    evaluation_id: str
    kernel_sha256: str
    kernel_path: str = Field(description="absolute")
    evaluation_path: str = Field(description="absolute")
    candidate_us: float | None
    candidate_interval_us: tuple[float, float] | None
    lower_bound: bool = Field(description="candidate_us is only a lower bound")
    speedup: float | None
    speedup_interval: tuple[float, float] | None


class State(_Strict):
    """What state.json says; it follows from events.jsonl alone."""

    schema_: Literal["hawkeye.run/1"] = Field("hawkeye.run/1", alias="schema")
    id: str
    folder: str = Field(description="absolute")
    workload: str
    workload_folder: str | None
    tpu: str
    created: str
    best_predicted: Best | None = None
    best_measured: Best | None = None
    evaluations: list[Result] = Field([], description="in the order in which they were recorded")
    profiles: list[Profiled] = []
    ideas: list[Idea] = []
    reference_trust: list[Trusted] = []
    other_events: dict[str, int] = Field({}, description="how many of each kind that this state does not use")
    damaged_lines: int = Field(0, description="of events.jsonl: cut off by a crash, or changed by something else")

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, validate_by_name=True, serialize_by_alias=True)

    @property
    def ledger(self) -> Ledger:
        return Ledger(ideas=self.ideas, trust=self.reference_trust)

    def best(self, source: Source) -> Best | None:
        return self.best_measured if source == "measured" else self.best_predicted

    def summary(self) -> dict[str, Any]:
        """Short enough for a list of runs."""
        return {
            "id": self.id,
            "folder": self.folder,
            "workload": self.workload,
            "tpu": self.tpu,
            "created": self.created,
            "evaluations": len(self.evaluations),
            "correct": sum(result.status == "correct" for result in self.evaluations),
            "best_predicted_us": self.best_predicted.candidate_us if self.best_predicted else None,
            "best_measured_us": self.best_measured.candidate_us if self.best_measured else None,
        }

"""What verify_port, compare_structure and reference_facts answer: flat, with the whole as a resource."""

from typing import Any

from pydantic import BaseModel, Field

from hawkeye_mcp.intake.facts import ReferenceFacts
from hawkeye_mcp.intake.port_gates import Compared
from hawkeye_mcp.intake.verify_port import Verified
from hawkeye_mcp.jobs import Job

_FAULT = "The gate itself failed, which is no fault of the port. Nothing was found."


class NotRecorded(BaseModel):
    """The job's own program could not be recorded, so there is nothing to gate a port with."""

    message: str
    fix: str
    output: str = Field("", description="The end of what the program printed.")


class GateReport(BaseModel):
    """The answer of one gate."""

    status: str
    message: str
    next_step: str
    job_id: str = ""
    workload: str = ""
    tpu: str = ""
    kernel_sha256: str = ""
    problems: list[str] = []
    notes: list[str] = []
    outputs: list[dict[str, Any]] = Field([], description="verify_port: figures of each output")
    atol: float | None = None
    rtol: float | None = None
    trials: int | None = None
    differences: list[str] = Field([], description="compare_structure: - of the program alone, + of the port alone")
    counted: dict[str, Any] = Field({}, description="compare_structure: what each has more of")
    program: dict[str, Any] = Field({}, description="reference_facts: of the jaxpr")
    hlo: dict[str, Any] = Field({}, description="reference_facts: of what the TPU's compiler made")
    hlo_source: str = ""
    isolation: str = ""
    full: str = Field("", description="resource with the whole result")
    truncated: bool = False


def of_job(job: Job[Any], unfinished: tuple[str, str, str]) -> GateReport:
    """unfinished: status, message and next step if the job has no result."""
    found = job.result
    common: dict[str, Any] = {"job_id": job.id, **job.subject}
    if found is None:
        status, message, next_step = unfinished
        if job.state == "failed":
            message = _FAULT
        return GateReport(status=status, message=message, next_step=next_step, **common)
    common["full"] = f"gate://{job.id}"
    if isinstance(found, Verified):
        return _of_values(found, common)
    if isinstance(found, Compared):
        return _of_structure(found, common)
    if isinstance(found, ReferenceFacts):
        return _of_facts(found, common)
    assert isinstance(found, NotRecorded)
    problems = [found.output] if found.output else []
    return GateReport(status="not_recorded", message=found.message, next_step=found.fix, problems=problems, **common)


def _of_values(found: Verified, common: dict[str, Any]) -> GateReport:
    told = ("index", "ok", "dtype", "shape", "elements", "failing", "nonfinite", "max_abs_error")
    worst = ("worst_trial", "worst_index", "expected", "actual")
    return GateReport(
        status=found.status,
        message=found.message,
        next_step=found.next_step,
        problems=found.problems,
        notes=found.notes,
        outputs=[one.model_dump(mode="json", include={*told, *(() if one.ok else worst)}) for one in found.outputs],
        atol=found.atol,
        rtol=found.rtol,
        trials=found.trials,
        isolation=found.isolation,
        **common,
    )


def _of_structure(found: Compared, common: dict[str, Any]) -> GateReport:
    worst = found.compared[0].comparison if found.compared else None
    notes = [f"{one.comparison.verdict} at {' and '.join(one.sizes)} size" for one in found.compared]
    return GateReport(
        status=found.status,
        message=found.message,
        next_step=found.next_step,
        notes=notes,
        differences=worst.differences if worst else [],
        counted={kind: counts.model_dump() for kind, counts in worst.counted.items()} if worst else {},
        isolation=found.isolation,
        **common,
    )


def _of_facts(found: ReferenceFacts, common: dict[str, Any]) -> GateReport:
    hlo = found.hlo.model_dump(mode="json") if found.hlo else {}
    memory = {
        "argument_bytes": found.argument_bytes,
        "output_bytes": found.output_bytes,
        "temp_bytes": found.temp_bytes,
    }
    return GateReport(
        status="facts" if found.hlo else "no_hlo",
        message=f"{found.workload} at full size: its jaxpr, and what {found.hlo_source} made of it."
        if found.hlo
        else found.hlo_problem,
        next_step="Read what is fused and what crosses HBM: the whole optimised program is in the resource `full`."
        if found.hlo
        else "Plan from the jaxpr: there is no compiled program on this chip.",
        program={**found.program.model_dump(mode="json"), "jaxpr_tokens": found.jaxpr_tokens},
        hlo={**hlo, **memory} if hlo else {},
        hlo_source=found.hlo_source,
        **common,
    )


def whole(job: Job[Any]) -> dict[str, Any] | None:
    """Everything that a finished gate found; None if the job is none or has no result."""
    if not isinstance(job.result, Verified | Compared | ReferenceFacts | NotRecorded):
        return None
    found: dict[str, Any] = job.result.model_dump(mode="json")
    return found | ({"hlo_text": job.result.hlo_text} if isinstance(job.result, ReferenceFacts) else {})

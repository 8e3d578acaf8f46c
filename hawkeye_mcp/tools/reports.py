"""What evaluate_kernel, profile and job answer: flat, and always small enough for every client to show whole.

The text channel and the structured channel carry the same JSON. What does not fit is cut, `truncated` says
so, and the whole result is a resource. What a profile's answer says is in profile_report.py.
"""

import json
from typing import Any, TypeVar

from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic import BaseModel, Field

from hawkeye_mcp import calllog
from hawkeye_mcp.conditions import Condition, shows
from hawkeye_mcp.evaluation import Audit, Correctness, Evaluation, Timing
from hawkeye_mcp.hosts import errors
from hawkeye_mcp.profile import Profile

# Codex cuts the middle out of anything above about 12 kB; the rest is room for the client's own framing.
LARGEST_BYTES = 11_000


# What a client is told of a fault that is none of its own. How it came about is in the server's log: exception
# texts may name what a condition withholds.
FAULT = "The judge itself failed. The kernel was not judged and no evaluation was spent."
AFTER_FAULT = "Submit it again; if it fails again, tell the operator of this server: its log says why."


class Report(BaseModel):
    """What the answers about a kernel have in common."""

    status: str = Field(
        description="correct, incorrect, rejected, trace_error, compile_error, runtime_error, timeout, "
        "harness_error; or running, cancelled, budget_spent"
    )
    message: str
    next_step: str
    job_id: str = ""
    workload: str = ""
    tpu: str = ""
    kernel_sha256: str = ""
    speedup: float | None = Field(None, description="baseline_us / candidate_us")
    candidate_us: float | None = None
    baseline_us: float | None = None
    candidate_interval_us: list[float] | None = Field(None, description="four of five such predictions lie in it")
    speedup_interval: list[float] | None = None
    indistinguishable: bool = Field(False, description="speedup_interval holds 1")
    source: str | None = Field(None, description="predicted or measured")
    lower_bound: bool = Field(False, description="candidate_us is only a lower bound")
    baseline_lower_bound: bool = Field(False, description="baseline_us is only a floor")
    compiler_message: str = ""
    isolation: str = Field("", description="bubblewrap or rlimits")
    artifact_sha256: str = ""
    full: str = Field("", description="resource with the whole result")
    truncated: bool = Field(False, description="something was cut to fit")


class EvaluationReport(Report):
    """The verdict on one kernel file."""

    evaluation_id: str = ""
    cached: bool = Field(False, description="an earlier verdict on the same text")
    diagnosis: list[str] = []
    correctness: str = ""
    sanitizer: str = Field("", description="its quick checks; no verdict")
    audit: str = ""
    evaluations_left: int | None = None


class EvaluationReportWithRows(EvaluationReport):
    taxonomy_rows: list[str] = Field([], description="cells that address the diagnosis")


AnyReport = TypeVar("AnyReport", bound=Report)


def evaluation_model(condition: Condition) -> type[EvaluationReport]:
    return EvaluationReportWithRows if shows(condition, "taxonomy") else EvaluationReport


def of_evaluation(
    evaluation: Evaluation, condition: Condition, *, job_id: str, cached: bool, evaluations_left: int | None
) -> EvaluationReport:
    """The report of a finished evaluation, as the condition may see it."""
    found = evaluation.diagnosis
    fields: dict[str, Any] = {"taxonomy_rows": found.taxonomy_rows if found else []}
    return evaluation_model(condition)(
        **common(evaluation),
        **(fields if shows(condition, "taxonomy") else {}),
        job_id=job_id,
        evaluation_id=evaluation.id,
        cached=cached,
        diagnosis=found.findings if found else [],
        correctness=_correctness(evaluation.correctness),
        sanitizer=evaluation.sanitized.in_one_line() if evaluation.sanitized else "",
        audit=_audit(evaluation.audit),
        evaluations_left=evaluations_left,
        full=f"evaluation://{evaluation.id}",
    )


def whole_json(outcome: Evaluation | Profile, condition: Condition) -> str:
    """The whole result, without what the condition withholds."""
    whole = outcome.model_dump(mode="json") | _told(outcome)
    if not shows(condition, "taxonomy"):
        for told in (whole.get("diagnosis") or {}, *whole.get("findings", [])):
            told.pop("taxonomy_rows", None)
            told.pop("taxonomy_row", None)
    return json.dumps(whole, indent=1, ensure_ascii=False)


def _told(outcome: Evaluation | Profile) -> dict[str, str]:
    """The words on it for a client: the judge's own, unless they are of its own fault."""
    if outcome.status == "harness_error":
        message, next_step = (errors.NO_HOST, errors.AFTER_NO_HOST) if outcome.judged_on else (FAULT, AFTER_FAULT)
        return {"message": message, "next_step": next_step}
    return {"message": outcome.message, "next_step": outcome.next_step}


def common(outcome: Evaluation | Profile) -> dict[str, Any]:
    """The fields of a Report; none of them depends on the condition."""
    timing = outcome.timing or Timing(source=None, candidate_us=None, baseline_us=None, speedup=None)
    return {
        "status": outcome.status,
        **_told(outcome),
        "workload": outcome.workload,
        "tpu": outcome.tpu,
        "kernel_sha256": outcome.kernel_sha256,
        "speedup": timing.speedup,
        "candidate_us": timing.candidate_us,
        "baseline_us": timing.baseline_us,
        "candidate_interval_us": timing.candidate_interval_us,
        "speedup_interval": timing.speedup_interval,
        "indistinguishable": timing.indistinguishable,
        "source": timing.source,
        "lower_bound": timing.lower_bound,
        "baseline_lower_bound": timing.baseline_lower_bound,
        "compiler_message": outcome.compiler_message or "",
        "isolation": outcome.isolation,
        "artifact_sha256": outcome.artifact.sha256 if outcome.artifact else "",
    }


def _correctness(found: Correctness | None) -> str:
    """One line: the gate, and where the worst output stands against it."""
    if found is None:
        return ""
    lines = [f"{'ok' if found.ok else 'failed'}: {found.gate}, {found.seeds} seeds, {found.size} size"]
    if found.problem:
        lines.append(found.problem)
    if found.on_tpu_note:
        lines.append(f"The kernel for the TPU, evaluated: {found.on_tpu_note}")
    for output in found.outputs:
        errors = [
            f"{name}={value:.3g}"
            for name, value in (
                ("E", output.error_e),
                ("R", output.error_r),
                ("max_abs", output.max_abs_error),
                ("failing_fraction", output.failing_fraction),
            )
            if value is not None
        ]
        if output.nonfinite:
            errors.append(f"nonfinite={output.nonfinite}")
        if output.worst_index is not None and not found.ok:
            errors.append(f"at {output.worst_index}: expected {output.expected}, got {output.actual}")
        lines.append(f"output {output.index} {output.dtype}{output.shape}: {', '.join(errors)}")
    return "; ".join(lines)


def _audit(found: Audit | None) -> str:
    """One line: the kernels, the problems, and what is left outside the kernels."""
    if found is None:
        return ""
    kernels = ", ".join(f"{k.name} grid {k.grid} x{k.calls}" for k in found.kernels) or "none"
    parts = [f"{'ok' if found.ok else 'failed'}: kernels {kernels}", *found.problems]
    if found.outside:
        parts.append("outside: " + ", ".join(f"{op.op} x{op.count}" for op in found.outside))
    return "; ".join(parts)


def result(report: Report, *pictures: ContentBlock) -> CallToolResult:
    """The tool result: the report cut to size, the same in both channels, with a link to the whole."""
    report = fit(report)
    text = report.model_dump_json()
    structured = json.loads(text)  # one serialisation, so the channels cannot differ
    content: list[ContentBlock] = [TextContent(type="text", text=text)]
    full = structured.get("full")
    if full:
        content.append(ResourceLink(type="resource_link", uri=full, name="whole result", mime_type="application/json"))
    told = "status job_id evaluation_id kernel_sha256 workload tpu source speedup candidate_us cached".split()
    calllog.note(**{key: structured[key] for key in told if structured.get(key) not in (None, "")})
    return CallToolResult(content=[*content, *pictures], structured_content=structured)


def size_bytes(report: Report) -> int:
    """Size of the JSON in its longest form (every non-ASCII character escaped)."""
    return len(json.dumps(report.model_dump(mode="json"), ensure_ascii=True))


def fit(report: AnyReport) -> AnyReport:
    """The report itself if it is small enough, else a copy with its longest texts cut."""
    limit = 4_000
    while size_bytes(report) > LARGEST_BYTES:
        report = _cut(report, limit)
        limit //= 2
    return report


def _cut(report: AnyReport, limit: int) -> AnyReport:
    """A copy with no text longer than `limit` characters and no list or table larger than limit / 100."""
    entries = max(1, limit // 100)

    def shorter(value: Any) -> Any:
        if isinstance(value, str) and len(value) > limit:
            head, tail = value[: limit * 2 // 3], value[-limit // 3 :]
            return f"{head} [... {len(value) - limit} characters cut ...] {tail}"
        if isinstance(value, list):
            return [shorter(item) for item in value[:entries]]
        if isinstance(value, dict):
            return {key: shorter(value[key]) for key in list(value)[:entries]}
        return value

    whole = report.model_dump()
    return report.model_copy(update={key: shorter(value) for key, value in whole.items()} | {"truncated": True})

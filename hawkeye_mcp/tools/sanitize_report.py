"""What the sanitize tool answers: flat like the other answers, each finding with its line, its effect and its cure."""

from typing import Any

from pydantic import BaseModel, Field

from hawkeye_mcp.jobs import Job
from hawkeye_mcp.sanitizer.model import Sanitized


class SanitizeReport(BaseModel):
    """Findings on one kernel file; no verdict."""

    status: str = Field(description="silent, findings, failed; or running, cancelled, timeout, harness_error")
    message: str
    next_step: str
    job_id: str = ""
    workload: str = ""
    tpu: str = ""
    kernel_sha256: str = ""
    findings: list[dict[str, Any]] = Field([], description="kind, line, message, on_tpu, advice")
    checks: list[str] = Field([], description="those that ran")
    not_checked: list[str] = []
    isolation: str = ""
    truncated: bool = False


def of_job(job: Job[Any], unfinished: tuple[str, str, str]) -> SanitizeReport:
    """unfinished: status, message and next step if the job has no result."""
    found = job.result
    if not isinstance(found, Sanitized):
        status, message, next_step = unfinished
        return SanitizeReport(status=status, message=message, next_step=next_step, job_id=job.id, **job.subject)
    return SanitizeReport(
        status=found.status,
        message=found.message,
        next_step=found.next_step,
        job_id=job.id,
        workload=found.workload,
        tpu=found.tpu,
        kernel_sha256=found.kernel_sha256,
        findings=[finding.model_dump(mode="json") for finding in found.findings],
        checks=list(found.checks),
        not_checked=[f"{skip.check}: {skip.reason}" for skip in found.not_checked],
        isolation=found.isolation,
    )

"""From a job to the answer of a call: its report when it has finished in time, else "running" and its id."""

import math

from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult

from hawkeye_mcp import jobs
from hawkeye_mcp.evaluation import Evaluation, Profile
from hawkeye_mcp.jobs import Job
from hawkeye_mcp.judging import JudgeUnavailable
from hawkeye_mcp.submissions import App
from hawkeye_mcp.tools import reports

LONGEST_WAIT_S = 280.0
DEFAULT_WAIT_S = 45.0


def app_of(ctx: Context[App]) -> App:
    return ctx.request_context.lifespan_context


async def answer(ctx: Context[App], job: Job[Evaluation | Profile], wait_s: float) -> CallToolResult:
    """Wait for the job with heartbeats, then report it as it stands."""
    app = app_of(ctx)
    wait_s = 0.0 if math.isnan(wait_s) else min(max(wait_s, 0.0), LONGEST_WAIT_S)

    async def beat(value: float, stage: str) -> None:
        await ctx.report_progress(value, None, stage)

    await jobs.wait(app.jobs, job, wait_s, app.settings.heartbeat_s, beat)
    return reports.result(report(app, job))


def report(app: App, job: Job[Evaluation | Profile]) -> reports.Report:
    """The job as it stands now."""
    condition = app.settings.condition
    if isinstance(job.result, Evaluation):
        return reports.of_evaluation(
            job.result, condition, job_id=job.id, cached=False, evaluations_left=app.evaluations_left()
        )
    if isinstance(job.result, Profile):
        return reports.of_profile(job.result, condition, job_id=job.id)
    status, message, next_step = _unfinished(job)
    fields = {"status": status, "message": message, "next_step": next_step, "job_id": job.id, **job.subject}
    if job.kind == "profile":
        return reports.profile_model(condition).model_validate(fields)
    return reports.evaluation_model(condition).model_validate(fields | {"evaluations_left": app.evaluations_left()})


def _unfinished(job: Job[Evaluation | Profile]) -> tuple[str, str, str]:
    """Status, message and next step of a job that has no result."""
    if job.state == "running":
        return (
            "running",
            f"Still working after {job.elapsed_s:.0f} s, in stage {job.stage!r}.",
            f"Call job with job_id {job.id!r} and action wait.",
        )
    if job.state == "cancelled":
        return (
            "cancelled",
            "The work was cancelled before it had a result.",
            "Submit the kernel again if you need it.",
        )
    if job.state == "deadline":
        return (
            "timeout",
            f"No result within the server's deadline; the work was stopped in stage {job.stage!r}.",
            "Make the kernel cheaper to compile (fewer grid steps unrolled, smaller blocks) and submit it again.",
        )
    why = f": {job.fault}" if isinstance(job.fault, JudgeUnavailable) else ""
    return (
        "harness_error",
        f"The judge itself failed{why}. The kernel was not judged and no evaluation was spent.",
        "Submit it again; if it fails again, the server's log on stderr says why.",
    )

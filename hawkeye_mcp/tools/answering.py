"""From a job to the answer of a call: its report when it has finished in time, else "running" and its id."""

import base64
import math
from typing import cast

from anyio.to_thread import run_sync
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ImageContent

from hawkeye_mcp import jobs, picture
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.jobs import Job, UnknownJob
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.submissions import App
from hawkeye_mcp.tools import autotune_report, profile_report, reports, sanitize_report

DEFAULT_WAIT_S = 45.0
# Many clients give a call 60 s, and progress does not extend that.
CAUTIOUS_WAIT_S = 50.0
# For clients known by the name they give: they allow 300 s or more.
LONGEST_WAIT_S = 280.0
PATIENT_CLIENTS = frozenset({"claude-code", "codex-mcp-client", "hawkeye-bench"})

# The kinds of job that gate_report tells of.
GATES = ("verify_port", "compare_structure", "reference_facts")


def app_of(ctx: Context[App]) -> App:
    return ctx.request_context.lifespan_context


_TOO_SLOW = {
    "verify": "Make it traceable at the check size too, where verifying takes seconds: read every size from the "
    "arguments' shapes. If it is, make the kernel run fewer or shorter steps. Then submit it again.",
    "compile": "Make the kernel cheaper to compile (fewer grid steps unrolled, smaller blocks) and submit it again.",
}


async def answer(
    ctx: Context[App],
    job: Job[Evaluation | Profile],
    wait_s: float,
    *,
    drawn: bool = False,
    against: Profile | None = None,
) -> CallToolResult:
    """Wait for the job with heartbeats, then report it as it stands (see `answered`)."""
    app, client = app_of(ctx), ctx.session.client_params
    patient = client is not None and client.client_info.name in PATIENT_CLIENTS
    longest_s = LONGEST_WAIT_S if patient else CAUTIOUS_WAIT_S
    wait_s = 0.0 if math.isnan(wait_s) else min(max(wait_s, 0.0), longest_s)

    async def beat(value: float, stage: str) -> None:
        await ctx.report_progress(value, None, stage)

    await jobs.wait(app.jobs, job, wait_s, app.settings.heartbeat_s, beat)
    return await answered(app, job, drawn=drawn, against=against)


async def answered(app: App, job: Job[Evaluation | Profile], *, drawn: bool, against: Profile | None) -> CallToolResult:
    """The report of the job as it stands now.

    drawn: with the picture of a profile. against: an earlier profile to compare a profile with.
    """
    found, profile = report(app, job), job.result
    if not isinstance(profile, Profile) or profile.status != "profiled":
        return reports.result(found)
    rows = [("", profile)]
    if against:
        rows = [("this", profile), ("earlier", against)]
        found = found.model_copy(update={"ratios": profile_report.ratios(profile, against)})
    if not drawn:
        return reports.result(found)
    png = await run_sync(picture.png, rows)
    image = ImageContent(type="image", data=base64.b64encode(png).decode("ascii"), mime_type="image/png")
    return reports.result(found, image)


def earlier_profile(app: App, job_id: str, workload: str, tpu: str, reference: str | None) -> Profile | None:
    """The profile to compare with; None where no job_id is given. reference: of the workload, which others may be called as.

    Raises:
        ToolError: there is no such profile, or it is of another workload or chip.
    """
    if not job_id:
        return None
    try:
        earlier = app.jobs.read(job_id)
        found = earlier.result
    except UnknownJob:
        found = None
    if not isinstance(found, Profile) or found.status != "profiled":
        raise ToolError(f"against: this server holds no profile {job_id!r}. Profile that kernel first.")
    if (found.workload, found.tpu) != (workload, tpu):
        raise ToolError(
            f"against: {job_id!r} is of {found.workload} on {found.tpu}, this one of {workload} on {tpu}. "
            "Compare kernels of one workload on one TPU."
        )
    if reference is not None and earlier.key[-2] != reference:
        raise ToolError(
            f"against: {job_id!r} is of another workload that is called {workload} too. Profile it by this one."
        )
    return found


def report(app: App, job: Job[Evaluation | Profile]) -> reports.Report:
    """The job as it stands now."""
    condition = app.settings.condition
    if job.kind == "sanitize":
        return cast("reports.Report", sanitize_report.of_job(job, _unfinished(job)))
    if job.kind in GATES:
        from hawkeye_mcp.tools import gate_report  # a server without a job needs none of what it imports

        return cast("reports.Report", gate_report.of_job(job, _unfinished(job)))
    if job.kind == "autotune":
        return cast("reports.Report", autotune_report.of_job(job, _unfinished(job), app.evaluations_left()))
    if isinstance(job.result, Evaluation):
        return reports.of_evaluation(
            job.result, condition, job_id=job.id, cached=False, evaluations_left=app.evaluations_left()
        )
    if isinstance(job.result, Profile):
        return profile_report.of_profile(job.result, condition, job_id=job.id, full=f"profile://{job.id}")
    status, message, next_step = _unfinished(job)
    fields = {"status": status, "message": message, "next_step": next_step, "job_id": job.id, **job.subject}
    if job.kind == "profile":
        return profile_report.profile_model(condition).model_validate(fields)
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
            _TOO_SLOW.get(job.stage, _TOO_SLOW["compile"]),
        )
    return "harness_error", reports.FAULT, reports.AFTER_FAULT

"""What the tools on the server's job share: the job file, the port's text, and the work as a job of the server."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, cast

from anyio.to_thread import run_sync
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from hawkeye_mcp import kernels
from hawkeye_mcp.intake import job as job_file
from hawkeye_mcp.intake import report, rules
from hawkeye_mcp.intake.capture import CaptureFailed
from hawkeye_mcp.intake.captures import NothingToRecord
from hawkeye_mcp.jobs import Job, Jobs
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools.gate_report import NotRecorded

PortText = Annotated[str, Field(description="The port's text: JAX that defines workload(...). Give source or path.")]
PortPath = Annotated[str, Field(description="The port's path: a .py file inside the workspace.")]
Gate = Callable[[str, job_file.Job, Path, Callable[[str], None]], Awaitable[BaseModel]]


async def declared(settings: Settings) -> job_file.Job:
    """The server's job, read anew, so that a mended file counts.

    Raises:
        ToolError: it is not valid.
    """
    assert settings.job is not None
    path = settings.job
    try:
        return await run_sync(rules.load_program, path)
    except report.InvalidJob as error:
        raise ToolError(f"The server's job file is not valid: {error} Tell the operator of this server.") from None


def start_gate(app: App, kind: str, source: str, job: job_file.Job, gate: Gate) -> Job[Any]:
    """Start gating a port, or join the job that is at the same text."""

    async def work(running: Job[Any]) -> BaseModel:
        try:
            return await gate(source, job, app.settings.state, running.progress)
        except CaptureFailed as error:
            message = f"The job's own program could not be recorded: {error.message}"
            return NotRecorded(message=message, fix=error.fix, output=error.output[-2000:])
        except NothingToRecord as error:
            return NotRecorded(message=str(error), fix="Tell the operator of this server.")

    return start(app, kind, kernels.sha256(source), job.model_dump_json(), _subject(app, source, job), work)


def _subject(app: App, source: str, job: job_file.Job) -> dict[str, str]:
    return {"kernel_sha256": app.log.keep_kernel(source), "workload": job.name, "tpu": job.target.tpu}


def start(
    app: App, kind: str, what: str, how: str, subject: dict[str, str], work: Callable[[Job[Any]], Awaitable[BaseModel]]
) -> Job[Any]:
    """Start work, or join the job that is doing the same: `what`, as `how` says."""
    jobs = cast("Jobs[Any]", app.jobs)
    shared = jobs.is_in_flight(kind, (what, how))
    found = jobs.start(kind, (what, how), subject, work)
    app.log.write("submitted", job_id=found.id, kind=kind, shared=shared, **subject)
    return found

"""The sanitize tool."""

from typing import Any, cast

from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult, ToolAnnotations

from hawkeye_mcp import kernels
from hawkeye_mcp.jobs import Job, Jobs
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.submissions import App, Settings, which
from hawkeye_mcp.tools import arguments
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, app_of
from hawkeye_mcp.workloads import Workload

DESCRIPTION = (
    "Find what a TPU does wrong with a kernel that interpreters call right: memory read before it is written, unmasked "
    "edges, out-of-bounds accesses, races, missing waits, wrong parallel axes. No verdict; spends no evaluation."
)


def build(settings: Settings) -> arguments.FlatTool:
    async def sanitize(
        ctx: Context[App],
        workload: arguments.WorkloadName = "",
        source: arguments.KernelText = "",
        path: arguments.KernelPath = "",
        tpu: arguments.TpuName = "",
        wait_s: arguments.WaitSeconds = DEFAULT_WAIT_S,
    ) -> CallToolResult:
        subject = arguments.workload(settings, workload)
        chip = arguments.tpu(settings, tpu)
        kernel = arguments.kernel(settings, source, path)
        return await answer(ctx, start(app_of(ctx), kernel, subject, chip), wait_s)

    return arguments.flat_tool(
        sanitize,
        title="Sanitize a kernel",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )


def start(app: App, source: str, workload: Workload, tpu: str) -> Job[Any]:
    """Start sanitizing, or join the job that is at the same text."""

    async def work(job: Job[Any]) -> Sanitized:
        judge = await app.judge.get()
        return await judge.sanitize(source, workload, tpu, progress=job.progress)

    subject = {"kernel_sha256": app.log.keep_kernel(source), "workload": workload.name, "tpu": tpu}
    key = (kernels.sha256(source), workload.reference, tpu)
    job = cast("Jobs[Any]", app.jobs).start("sanitize", key, subject, work)
    shared = job.waiting > 0
    app.log.write("submitted", job_id=job.id, kind="sanitize", shared=shared, **subject, **which(app, workload))
    return job

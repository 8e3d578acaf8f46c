"""The profile tool."""

from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult, ToolAnnotations

from hawkeye_mcp.submissions import App, Settings, start_profile
from hawkeye_mcp.tools import arguments, profile_report
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, app_of, earlier_profile

DESCRIPTION = (
    "See where a kernel file's time goes on the TPU, from the compiler's own schedule: time per operation, "
    "cycles by source line and by wait, counters, memory, traffic, roofline, and findings on what to change. "
    "Verifies nothing and spends no evaluation. Answers within wait_s, else status running and a job_id for "
    "the job tool."
)


def build(settings: Settings) -> arguments.FlatTool:
    async def profile(
        ctx: Context[App],
        workload: arguments.WorkloadName = "",
        source: arguments.KernelText = "",
        path: arguments.KernelPath = "",
        tpu: arguments.TpuName = "",
        wait_s: arguments.WaitSeconds = DEFAULT_WAIT_S,
        picture: arguments.Picture = False,
        against: arguments.Against = "",
    ) -> CallToolResult:
        subject = arguments.workload(settings, workload)
        chip = arguments.tpu(settings, tpu)
        kernel = arguments.kernel(settings, source, path)
        app = app_of(ctx)
        earlier = earlier_profile(app, against, subject.name, chip, subject.reference)
        job = start_profile(app, kernel, subject, chip)
        return await answer(ctx, job, wait_s, drawn=picture, against=earlier)

    return arguments.flat_tool(
        profile,
        title="Profile a kernel",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        output=profile_report.published(settings.condition),
    )

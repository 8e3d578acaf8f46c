"""The profile tool."""

from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult, ToolAnnotations

from hawkeye_mcp.submissions import App, Settings, start_profile
from hawkeye_mcp.tools import arguments, profile_report
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, app_of

DESCRIPTION = (
    "See where a kernel file's time goes on the TPU, from the compiler's own schedule: time per operation, "
    "cycles by source line and by what is waited for, counters, memory, traffic, the roofline, and findings "
    "on what to change. Does not verify the result and spends no evaluation. Answers within wait_s, else "
    "status running and a job_id for the job tool."
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
    ) -> CallToolResult:
        subject = arguments.workload(settings, workload)
        chip = arguments.tpu(settings, tpu)
        kernel = arguments.kernel(settings, source, path)
        return await answer(ctx, start_profile(app_of(ctx), kernel, subject, chip), wait_s, drawn=picture)

    return arguments.flat_tool(
        profile,
        title="Profile a kernel",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        output=profile_report.published(settings.condition),
    )

"""The compare_structure tool."""

from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult, ToolAnnotations

from hawkeye_mcp.intake.port_gates import compared
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools import arguments, gating
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, app_of

DESCRIPTION = (
    "Hold a port's operations against those of this server's program: what values within a tolerance hide, such as "
    "another epsilon, axis, dtype or precision. Answers identical, equivalent (layout and roundings) or divergent with the "
    "operations at which the two part: - is the program's, + the port's. Spends no evaluation."
)


def build(settings: Settings) -> arguments.FlatTool:
    async def compare_structure(
        ctx: Context[App],
        source: gating.PortText = "",
        path: gating.PortPath = "",
        wait_s: arguments.WaitSeconds = DEFAULT_WAIT_S,
    ) -> CallToolResult:
        port = arguments.kernel(settings, source, path)
        job = await gating.declared(settings)
        return await answer(ctx, gating.start_gate(app_of(ctx), "compare_structure", port, job, compared), wait_s)

    return arguments.flat_tool(
        compare_structure,
        title="Compare a port's structure",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )

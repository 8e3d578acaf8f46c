"""The verify_port tool."""

from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult, ToolAnnotations

from hawkeye_mcp.intake.port_gates import verified
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools import arguments, gating
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, app_of

DESCRIPTION = (
    "Hold a port (plain JAX that defines workload(...), no Pallas) of this server's program against recorded results of it: "
    "shape, dtype, NaN, infinities and |difference| <= atol + rtol * |recorded|, at every element of every trial. A port that "
    "cannot be traced is told the arguments that it must take. Spends no evaluation."
)


def build(settings: Settings) -> arguments.FlatTool:
    async def verify_port(
        ctx: Context[App],
        source: gating.PortText = "",
        path: gating.PortPath = "",
        wait_s: arguments.WaitSeconds = DEFAULT_WAIT_S,
    ) -> CallToolResult:
        port = arguments.kernel(settings, source, path)
        job = await gating.declared(settings)
        return await answer(ctx, gating.start_gate(app_of(ctx), "verify_port", port, job, verified), wait_s)

    return arguments.flat_tool(
        verify_port,
        title="Verify a port's values",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )

"""The read_workload tool: text only, because a problem statement in escaped JSON is hard to read."""

from typing import Annotated

from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from hawkeye_mcp import workloads
from hawkeye_mcp.submissions import Settings
from hawkeye_mcp.tools import arguments

DESCRIPTION = (
    "Read the problem: what to compute, inputs and outputs with shapes and dtypes, how it is judged, and "
    "the plain JAX reference. Without a name: the server's own workload, or the list of all."
)


def listing() -> str:
    lines = ["Workloads (read one by its name):"]
    lines += [f"- {name}: {workloads.load(name).summary}" for name in workloads.names()]
    return "\n".join(lines)


def build(settings: Settings) -> arguments.FlatTool:
    def read_workload(
        name: Annotated[str, Field(description="Workload name; empty: the server's own, else a list.")] = "",
    ) -> CallToolResult:
        if name or settings.workload:
            text = workloads.statement(arguments.workload(settings, name))
        else:
            text = listing()
        return CallToolResult(content=[TextContent(type="text", text=text)])

    return arguments.flat_tool(
        read_workload,
        title="Read the workload",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )

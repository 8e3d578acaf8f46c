"""The job tool."""

from typing import Annotated, Literal

from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from hawkeye_mcp.jobs import UnknownJob
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools import arguments
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, answered, app_of, earlier_profile

DESCRIPTION = (
    "Get the result of a call that answered status running: action wait (default) waits up to wait_s for "
    "it, read answers at once with what there is, cancel stops the work. The answer has the form of the "
    "call that started it."
)


def build(settings: Settings) -> arguments.FlatTool:
    async def job(
        ctx: Context[App],
        job_id: Annotated[str, Field(description="From the answer that said running.")],
        action: Annotated[
            Literal["wait", "read", "cancel"], Field(description="wait (default), read or cancel.")
        ] = "wait",
        wait_s: arguments.WaitSeconds = DEFAULT_WAIT_S,
        picture: arguments.Picture = False,
        against: arguments.Against = "",
    ) -> CallToolResult:
        app = app_of(ctx)
        try:
            found = app.jobs.read(job_id)
        except UnknownJob:
            raise ToolError(
                f"This server knows no job {job_id!r}; jobs do not outlive the server. "
                "Call evaluate_kernel or profile again: a kernel judged before is answered at once."
            ) from None
        reference = found.key[-2] if found.kind == "profile" else None
        earlier = earlier_profile(app, against, found.subject["workload"], found.subject["tpu"], reference)
        if action == "wait":
            return await answer(ctx, found, wait_s, drawn=picture, against=earlier)
        if action == "cancel":
            found.cancel()
            await found.finished.wait()
        return await answered(app, found, drawn=picture, against=earlier)

    return arguments.flat_tool(
        job,
        title="Wait for, read or cancel a job",
        description=DESCRIPTION,
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )

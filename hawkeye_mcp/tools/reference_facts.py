"""The reference_facts tool."""

from typing import Any

from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult, ToolAnnotations

from hawkeye_mcp.intake.facts import ReferenceFacts, facts_of
from hawkeye_mcp.jobs import Job
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools import arguments, gating
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, app_of

DESCRIPTION = (
    "What a workload's plain JAX computes at full size (operations, reductions, contractions, constants, dtypes), and what "
    "the TPU's own compiler makes of it: fusions by kind, layouts, copies, custom calls and HBM bytes. Never of another "
    "compiler; where this one refuses, its words. Spends no evaluation."
)


def build(settings: Settings) -> arguments.FlatTool:
    async def reference_facts(
        ctx: Context[App],
        workload: arguments.WorkloadName = "",
        tpu: arguments.TpuName = "",
        wait_s: arguments.WaitSeconds = DEFAULT_WAIT_S,
    ) -> CallToolResult:
        subject = arguments.workload(settings, workload)
        chip = arguments.tpu(settings, tpu)

        async def work(job: Job[Any]) -> ReferenceFacts:
            return await facts_of(subject, chip, job.progress)

        told = {"workload": subject.name, "tpu": chip}
        job = gating.start(app_of(ctx), "reference_facts", subject.reference, chip, told, work)
        return await answer(ctx, job, wait_s)

    return arguments.flat_tool(
        reference_facts,
        title="Facts on the reference",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )

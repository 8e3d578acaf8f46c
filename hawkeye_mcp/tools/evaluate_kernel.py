"""The evaluate_kernel tool."""

from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult, ToolAnnotations

from hawkeye_mcp.hosts.health import FRESH
from hawkeye_mcp.submissions import App, BudgetSpent, Settings, earlier_verdict, start_evaluation
from hawkeye_mcp.tools import arguments, reports
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, app_of

DESCRIPTION = (
    "Judge a TPU Pallas kernel file: is it correct, and how fast against XLA. The file defines "
    "workload(*inputs) with the workload's signature, computes in Pallas TPU kernels and reads shapes from "
    "its arguments (see read_workload). It is traced, audited, verified on secret inputs against a high-"
    "precision reference, and compiled by the real TPU compiler. Answers the verdict with speedup, "
    "diagnosis and next_step within wait_s; if that is too short, status running and a job_id for the job "
    "tool. The same text is judged once; repeating a call is free."
)


def build(settings: Settings) -> arguments.FlatTool:
    async def evaluate_kernel(
        ctx: Context[App],
        workload: arguments.WorkloadName = "",
        source: arguments.KernelText = "",
        path: arguments.KernelPath = "",
        tpu: arguments.TpuName = "",
        wait_s: arguments.WaitSeconds = DEFAULT_WAIT_S,
    ) -> CallToolResult:
        app = app_of(ctx)
        subject = arguments.workload(settings, workload)
        chip = arguments.tpu(settings, tpu)
        kernel = arguments.kernel(settings, source, path)
        fresh = bool((ctx.request_context.meta or {}).get(FRESH))
        earlier = None if fresh else await earlier_verdict(app, kernel, subject, chip)
        if earlier is not None:
            left = app.evaluations_left()
            return reports.result(
                reports.of_evaluation(earlier, settings.condition, job_id="", cached=True, evaluations_left=left)
            )
        try:
            job = start_evaluation(app, kernel, subject, chip, fresh=fresh)
        except BudgetSpent:
            return reports.result(_spent(settings, subject.name, chip))
        return await answer(ctx, job, wait_s)

    return arguments.flat_tool(
        evaluate_kernel,
        title="Evaluate a kernel",
        description=DESCRIPTION,
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
        output=reports.evaluation_model(settings.condition),
    )


def _spent(settings: Settings, workload: str, tpu: str) -> reports.EvaluationReport:
    return reports.evaluation_model(settings.condition)(
        status="budget_spent",
        message=f"All {settings.max_evaluations} evaluations are spent; this kernel was not judged.",
        next_step="Finish with the fastest kernel found correct. Kernels judged before can be asked again.",
        workload=workload,
        tpu=tpu,
        evaluations_left=0,
    )

"""The autotune tool."""

import json
from typing import Annotated, Any, Literal, cast

from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import BeforeValidator, Field

from hawkeye_mcp import pool
from hawkeye_mcp.autotune.model import Autotuned
from hawkeye_mcp.autotune.outcome import NotJudged
from hawkeye_mcp.autotune.parameters import NoParameter
from hawkeye_mcp.autotune.request import Request
from hawkeye_mcp.autotune.search import Looks, search
from hawkeye_mcp.autotune.space import BadSpace, parse
from hawkeye_mcp.autotune.store import looked_at
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.jobs import Job, Jobs
from hawkeye_mcp.kernels import sha256
from hawkeye_mcp.submissions import App, BudgetSpent, Settings, earlier_verdict, start_evaluation
from hawkeye_mcp.tools import arguments, reports
from hawkeye_mcp.tools.answering import DEFAULT_WAIT_S, answer, app_of

DESCRIPTION = (
    "Search better values for module-level integer constants of a kernel file, such as BLOCK_M = 128. Each point is the file "
    "with other numbers, compiled for the TPU and predicted, which spends no evaluation; what the compiler refuses is left "
    "out. The best correct point and the file as it is are then evaluated in full: up to four evaluations, none for texts "
    "evaluated before. Answers like evaluate_kernel; the same call again goes on where it stopped."
)
_SEARCHING = 0.7  # of a job's deadline; the rest is for judging
_DEFAULT_S = 300


def _as_text(given: Any) -> Any:
    """Some clients send an object where its JSON is asked for."""
    return json.dumps(given) if isinstance(given, dict | list) else given


SpaceText = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(
        description='JSON: {"parameters": {"BLOCK_M": [128, 256]}, "constraints": ["BLOCK_M * BLOCK_K <= 65536"]}; '
        "constraints may be left out."
    ),
]


def build(settings: Settings) -> arguments.FlatTool:
    assert settings.run is not None

    async def autotune(
        ctx: Context[App],
        space: SpaceText,
        workload: arguments.WorkloadName = "",
        source: arguments.KernelText = "",
        path: arguments.KernelPath = "",
        tpu: arguments.TpuName = "",
        strategy: Annotated[
            Literal["grid", "random", "halving", "tpe"],
            Field(description="halving (default; predicts the best third of cheap estimates), grid, random or tpe."),
        ] = "halving",
        points: Annotated[int, Field(ge=0, description="Points to look at; none given: all of a grid, else 64.")] = 0,
        seconds: Annotated[
            int, Field(ge=1, description="Take up no new point after so long, default 300; then the best is judged.")
        ] = _DEFAULT_S,
        seed: Annotated[int, Field(ge=0, lt=2**32, description="Of the order of points.")] = 0,
        wait_s: arguments.WaitSeconds = DEFAULT_WAIT_S,
    ) -> CallToolResult:
        subject = arguments.workload(settings, workload)
        chip = arguments.tpu(settings, tpu)
        kernel = arguments.kernel(settings, source, path)
        if strategy == "halving" and settings.judge_hosts:
            raise ToolError(
                "strategy halving needs estimates, which the hosts that judge for this server do not make: "
                "choose grid, random or tpe."
            )
        longest = min(float(seconds), _SEARCHING * settings.deadline_s)
        try:
            request = Request(kernel, subject, chip, parse(space), strategy, points or None, seed, longest)
            request.planned()
        except (NoParameter, BadSpace) as error:
            raise ToolError(str(error)) from None
        return await answer(ctx, cast("Job[Any]", start(app_of(ctx), request)), wait_s)

    return arguments.flat_tool(
        autotune,
        title="Search block sizes of a kernel",
        description=DESCRIPTION,
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def start(app: App, request: Request) -> Job[Autotuned]:
    """Start searching, or join the job that is at the same search."""
    assert app.settings.run is not None
    searches, most = app.settings.run / "autotune", app.settings.max_points
    folder = searches / f"{request.workload.name}-{request.tpu}-{sha256(request.source)[:12]}"

    def may_look() -> bool:
        return not most or looked_at(searches) < most

    async def work(job: Job[Autotuned]) -> Autotuned:
        async def evaluate(source: str) -> Evaluation:
            return await _evaluated(app, request, source)

        judge = cast("Looks", await app.judge.get())
        # What was found elsewhere is looked at again: a host may measure what is predicted here.
        known = " ".join([pool.fingerprint(request.workload), *app.settings.judge_hosts])
        return await search(request, judge, evaluate, folder, known, progress=job.progress, may_look=may_look)

    search_of = (request.space.model_dump_json(), request.strategy, str(request.points), str(request.seed))
    key = (sha256(request.source), request.workload.name, request.tpu, *search_of, str(request.seconds))
    subject = {
        "kernel_sha256": app.log.keep_kernel(request.source),
        "workload": request.workload.name,
        "tpu": request.tpu,
    }
    jobs = cast("Jobs[Autotuned]", app.jobs)
    shared = jobs.is_in_flight("autotune", key)
    job = jobs.start("autotune", key, subject, work)
    app.log.write("submitted", job_id=job.id, kind="autotune", shared=shared, space=search_of[0], **subject)
    return job


async def _evaluated(app: App, request: Request, source: str) -> Evaluation:
    """By the way of every verdict of this server: budget, store, log.

    Raises:
        NotJudged: no evaluation is left, or the judge failed.
    """
    earlier = await earlier_verdict(app, source, request.workload, request.tpu)
    if earlier is not None:
        return earlier
    try:
        job = start_evaluation(app, source, request.workload, request.tpu)
    except BudgetSpent:
        raise NotJudged("no evaluations are left") from None
    async with app.jobs.waiting(job):
        await job.finished.wait()
    if not isinstance(job.result, Evaluation) or job.result.status == "harness_error":
        raise NotJudged(f"the evaluation ended as {job.state}" if job.result is None else reports.FAULT)
    return job.result

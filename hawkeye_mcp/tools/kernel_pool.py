"""The kernel_pool tool: correct kernels found so far, by anyone who shares the state folder."""

import json
from typing import Annotated, Any, Literal

from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ResourceLink, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from hawkeye_mcp.evaluation import Evaluation, Timing
from hawkeye_mcp.pool import Record, fingerprint
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools import arguments
from hawkeye_mcp.tools.answering import app_of
from hawkeye_mcp.workloads import Workload

# Both keep an answer below the 12 kB at which Codex cuts the middle out.
LARGEST_LISTING = 25
LONGEST_TEXT_BYTES = 9_000

DESCRIPTION = (
    "Correct kernels already found for the workload on this TPU by the judge as it is now. action list (default): best first, "
    "measured and predicted times apart, up to limit of each; action read: one kernel's text by its id. "
    "Every kernel that evaluate_kernel finds correct enters by itself."
)


class PoolEntry(BaseModel):
    """lower_bound: candidate_us is only one. at_least: XLA's time is only a floor, so the speedup is at least this.
    indistinguishable: by the interval of the speedup, from XLA; like_best: from the first entry.
    """

    id: str
    speedup: float | None
    candidate_us: float | None
    lower_bound: bool
    at_least: bool
    speedup_interval: tuple[float, float] | None
    indistinguishable: bool
    like_best: bool
    created: str


class PoolListing(BaseModel):
    """Correct kernels of one workload on one TPU; measured and predicted times are never ranked together."""

    workload: str
    tpu: str
    measured: list[PoolEntry]
    predicted: list[PoolEntry]
    next_step: str


def _entries(found: list[Evaluation]) -> list[PoolEntry]:
    """In the order given, best first."""
    return [_entry(evaluation, found[0]) for evaluation in found]


def _entry(evaluation: Evaluation, best: Evaluation) -> PoolEntry:
    timing = evaluation.timing
    return PoolEntry(
        id=evaluation.id,
        speedup=timing.speedup if timing else None,
        candidate_us=timing.candidate_us if timing else None,
        lower_bound=bool(timing and timing.lower_bound),
        at_least=bool(timing and timing.baseline_lower_bound),
        speedup_interval=timing.speedup_interval if timing else None,
        indistinguishable=bool(timing and timing.indistinguishable),
        like_best=evaluation is not best and _overlap(evaluation.timing, best.timing),
        created=evaluation.created,
    )


def _overlap(one: Timing | None, other: Timing | None) -> bool:
    """Whether the intervals of two candidates' times share a value."""
    if not one or not other or not one.candidate_interval_us or not other.candidate_interval_us:
        return False
    (low, high), (other_low, other_high) = one.candidate_interval_us, other.candidate_interval_us
    return low <= other_high and other_low <= high


def _listed(app: App, workload: Workload, tpu: str, limit: int) -> CallToolResult:
    mark = fingerprint(workload)
    measured = _entries(app.pool.best(workload.name, tpu, "measured", limit, mark))
    predicted = _entries(app.pool.best(workload.name, tpu, "predicted", limit, mark))
    next_step = "Read one with action read and its id." if measured or predicted else "None yet; yours may be first."
    listing = PoolListing(workload=workload.name, tpu=tpu, measured=measured, predicted=predicted, next_step=next_step)
    text = listing.model_dump_json()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=json.loads(text))


def pooled(app: App, settings: Settings, kernel_id: str) -> Record | None:
    """A kernel of the pool: no wrong one (the store has those too), and only the pinned workload's."""
    record = app.pool.read(kernel_id)
    if record is None or record.evaluation.status != "correct":
        return None
    if settings.workload and record.evaluation.workload != settings.workload:
        return None
    return record


def _one(app: App, settings: Settings, kernel_id: str) -> CallToolResult:
    record = pooled(app, settings, kernel_id)
    if record is None:
        raise ToolError(f"The pool holds no kernel {kernel_id!r}. List it to see the ids.")
    entry, kernel = _entry(record.evaluation, record.evaluation), record.kernel
    bounds = {"speedup": ">= " if entry.at_least else "", "candidate_us": ">= " if entry.lower_bound else ""}
    head = f"# {entry.id}: {record.evaluation.workload} on {record.evaluation.tpu}, " + ", ".join(
        f"{name} {bounds[name]}{value:.4g}"
        for name, value in (("speedup", entry.speedup), ("candidate_us", entry.candidate_us))
        if value is not None
    )
    content: list[Any] = []
    start = kernel.encode("utf-8")[:LONGEST_TEXT_BYTES].decode("utf-8", errors="ignore")
    if start != kernel:
        uri = f"kernel://{kernel_id}"
        content.append(ResourceLink(type="resource_link", uri=uri, name="whole kernel", mime_type="text/x-python"))
        kernel = f"{start}\n# ... cut here; the whole text is the resource {uri}"
    return CallToolResult(content=[TextContent(type="text", text=f"{head}\n{kernel}"), *content])


def build(settings: Settings) -> arguments.FlatTool:
    def kernel_pool(
        ctx: Context[App],
        action: Annotated[Literal["list", "read"], Field(description="list (default) or read.")] = "list",
        id: Annotated[str, Field(description="For read: an id from the list.")] = "",
        workload: arguments.WorkloadName = "",
        tpu: arguments.TpuName = "",
        limit: Annotated[int, Field(description="For list: how many, 1 to 25, default 10.")] = 10,
    ) -> CallToolResult:
        if action == "read":
            if not id:
                raise ToolError("Reading needs an id. Call kernel_pool with action list to see the ids.")
            return _one(app_of(ctx), settings, id)
        subject = arguments.workload(settings, workload)
        limit = min(max(limit, 1), LARGEST_LISTING)
        return _listed(app_of(ctx), subject, arguments.tpu(settings, tpu), limit)

    return arguments.flat_tool(
        kernel_pool,
        title="Pool of correct kernels",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )

"""The run_state tool: how the server's run stands, and whether more work is likely to pay."""

from collections import Counter
from typing import Any

from mcp.types import CallToolResult, ToolAnnotations

from hawkeye_mcp.runs import store
from hawkeye_mcp.runs.advice import stop_advice
from hawkeye_mcp.runs.model import State
from hawkeye_mcp.submissions import Settings
from hawkeye_mcp.tools import arguments
from hawkeye_mcp.tools.ideas import answered, result

DESCRIPTION = (
    "How this run stands: the best kernel by predicted and by measured time, what was judged, and advice to stop, continue "
    "or neither, with its figures: the distance to the ceiling that binds, tested ideas in a row without a gain, ideas "
    "still untested."
)
_LATEST = 20


def build(settings: Settings) -> arguments.FlatTool:
    assert settings.run is not None
    folder = settings.run

    async def run_state() -> CallToolResult:
        return result(await answered(lambda: summary(store.read(store.find(folder)))))

    return arguments.flat_tool(
        run_state,
        title="State of the run",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )


def summary(state: State) -> dict[str, Any]:
    """What fits into an answer: counts, the bests, the latest results and the advice."""
    shown = {"id", "status", "source", "candidate_us", "lower_bound", "speedup", "improved"}
    bests = state.model_dump(mode="json", include={"best_predicted", "best_measured"})
    return {
        "id": state.id,
        "folder": state.folder,
        "workload": state.workload,
        "tpu": state.tpu,
        **bests,
        "evaluations": len(state.evaluations),
        "by_status": dict(Counter(result.status for result in state.evaluations)),
        "by_idea_status": dict(Counter(idea.status for idea in state.ideas)),
        "latest": [result.model_dump(mode="json", include=shown) for result in state.evaluations[-_LATEST:]],
        "advice": stop_advice(state).model_dump(mode="json"),
    }

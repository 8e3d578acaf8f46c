"""Replays recorded kernels: each is submitted to the server as if an agent had written it, and judged anew."""

from collections.abc import Iterator
from pathlib import Path

from hawkeye_bench.agents import AgentMisconfigured, Emit, Stop, Task
from hawkeye_bench.agents.session import connect
from hawkeye_mcp import calllog, kernels
from hawkeye_mcp.kernels import UnreadableKernel


class Replay:
    """Submits the kernels that a folder holds for a run, in order; no model is asked.

    A run takes the first of these folders that holds any: FOLDER/<workload>/<condition>/<repeat>,
    FOLDER/<workload>/<condition>, FOLDER/<workload>. One with a server's call log (the folder of an earlier run of the
    bench) gives the texts that were submitted for judgement there, in that order; any other its *.py, sorted by name.
    """

    name = "replay"
    files = False

    def __init__(self, folder: Path) -> None:
        self.model = f"replay of {folder.resolve().name} (recorded kernels)"
        self._folder = folder

    async def run(self, task: Task, emit: Emit) -> Stop:
        """Raises:
        AgentMisconfigured: the folder is not there.
        """
        if not self._folder.is_dir():
            raise AgentMisconfigured(f"there is no folder {self._folder} to replay; give one that holds kernels.")
        recorded = recorded_kernels(self._folder, task.workload, task.condition, task.repeat)
        if not recorded:
            emit("note", {"text": f"{self._folder} holds no kernel for {task.workload} under {task.condition}."})
            return "finished"
        async with connect(task, emit) as session:
            for number, file in enumerate(recorded):
                try:
                    source = kernels.read(file)
                except UnreadableKernel as unreadable:
                    emit("note", {"text": f"Left out: {file.name} {unreadable}"})
                    continue
                emit("note", {"text": f"Replaying {file.name} ({number + 1} of {len(recorded)})."})
                answer = await session.call("evaluate_kernel", {"source": source})
                if answer.fields.get("status") == "budget_spent":
                    emit("note", {"text": f"The budget is spent: {len(recorded) - number} kernels are left out."})
                    break
        return "finished"


def recorded_kernels(folder: Path, workload: str, condition: str, repeat: int) -> list[Path]:
    """The kernel files for this run, in the order in which they are submitted; empty where the folder has none."""
    places = (folder / workload / condition / str(repeat), folder / workload / condition, folder / workload)
    return next((found for place in places if (found := list(_held(place)))), [])


def _held(place: Path) -> Iterator[Path]:
    log = place / "calls.jsonl"
    if not log.exists():
        yield from sorted(place.glob("*.py"))
        return
    submitted = (
        line["kernel_sha256"]
        for line in calllog.read(log)
        if line.get("event") == "submitted" and line.get("kind") == "evaluate"
    )
    for name in dict.fromkeys(submitted):
        yield place / calllog.KERNELS / f"{name}.py"

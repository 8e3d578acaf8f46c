"""Carries out what is left of a plan: several runs at once, and again what failed for no fault of the agent."""

import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from hawkeye_bench import journal, runs
from hawkeye_bench.driver import Progress
from hawkeye_bench.order import RunKey, pending
from hawkeye_bench.runs import Plan, Run

# Pauses before each further try of a run that says nothing. Other runs go on meanwhile.
RETRY_DELAYS_S = (10.0, 60.0, 300.0)

# Does one run and keeps its record in the folder; an executor gives one.
Do = Callable[[RunKey, Progress], Awaitable[Run]]
Sleep = Callable[[float], Awaitable[None]]


class WorkerLost(RuntimeError):
    """The process or the machine that did a run is gone or never came up: the run says nothing."""


async def run_all(
    plan: Plan,
    out: Path,
    do: Do,
    *,
    slots: int = 1,
    progress: Callable[[RunKey, str], None] = lambda key, text: None,
    on_run: Callable[[RunKey, Run | None, str], None] = lambda key, run, text: None,
    delays_s: Sequence[float] = RETRY_DELAYS_S,
    sleep: Sleep = anyio.sleep,
) -> None:
    """Do every pending run of the plan, at most `slots` at a time, started in the plan's order.

    on_run is told the end of each try: the record (None where there is none) and what went wrong or is to happen next.
    A run that is misconfigured ends the whole: every other would fail in the same way. Cancelling stops all runs.
    """
    _, to_do = pending(plan, out)
    if not to_do:
        return
    send, receive = anyio.create_memory_object_stream[tuple[RunKey, int]](math.inf)
    queue = _Queue(len(to_do), send)
    for key in to_do:
        send.send_nowait((key, 0))

    async def one(key: RunKey, tries: int, later: anyio.abc.TaskGroup) -> None:
        journal.write(out, "started", key, tries=tries + 1)
        run, problem = await _outcome(do, key, progress)
        facts = {"status": run.status, "stop": run.stop, "speedup": run.speedup} if run else {"status": "broken"}
        journal.write(out, "ended", key, tries=tries + 1, error=problem or None, **facts)
        if run and run.status != "broken":
            on_run(key, run, "")
            queue.done()
        elif run and run.stop == "misconfigured":
            on_run(key, run, f"{problem}; nothing more is started until that is mended")
            queue.abandon()
        elif tries < len(delays_s):
            journal.write(out, "retry", key, tries=tries + 2, delay_s=delays_s[tries])
            on_run(key, run, f"{problem}; tried again in {delays_s[tries]:.0f} s")
            later.start_soon(again, key, tries)
        else:
            on_run(key, run, f"{problem}; given up after {tries + 1} tries")
            queue.done()

    async def again(key: RunKey, tries: int) -> None:
        await sleep(delays_s[tries])
        queue.put(key, tries + 1)

    async def serve(mine: MemoryObjectReceiveStream[tuple[RunKey, int]], later: anyio.abc.TaskGroup) -> None:
        async with mine:
            async for key, tries in mine:
                if queue.open:
                    await one(key, tries, later)

    out.mkdir(parents=True, exist_ok=True)
    journal.write(out, "opened", slots=slots, to_do=len(to_do))
    try:
        async with send, anyio.create_task_group() as group, receive:
            for _ in range(min(slots, len(to_do))):
                group.start_soon(serve, receive.clone(), group)
    finally:
        journal.write(out, "closed")


class _Queue:
    """Counts what is outstanding; nothing is taken from it once it is closed."""

    def __init__(self, outstanding: int, send: MemoryObjectSendStream[tuple[RunKey, int]]) -> None:
        self.open = True
        self._outstanding = outstanding
        self._send = send

    def put(self, key: RunKey, tries: int) -> None:
        if self.open:
            self._send.send_nowait((key, tries))

    def done(self) -> None:
        self._outstanding -= 1
        if not self._outstanding:
            self.abandon()

    def abandon(self) -> None:
        self.open = False
        self._send.close()


async def _outcome(do: Do, key: RunKey, progress: Callable[[RunKey, str], None]) -> tuple[Run | None, str]:
    """The record, if there is one, and what went wrong."""

    def say(text: str) -> None:
        progress(key, text)

    try:
        run = await do(key, say)
    except WorkerLost as lost:
        return None, str(lost)
    return run, (run.error or "it was broken") if run.status == "broken" else ""


def ordered(plan: Plan, found: list[Run]) -> list[Run]:
    """By workload, then repeat, then condition, each in the order of the command line."""
    names = [runs.name_of(workload) for workload in plan.workloads]

    def position(run: Run) -> tuple[int, int, int]:
        return names.index(run.workload), run.repeat, plan.conditions.index(run.condition)

    return sorted(found, key=position)

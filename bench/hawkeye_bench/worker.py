"""One run in a process of its own: `python -m hawkeye_bench.worker` reads a Job from stdin and does it.

It writes the run's folder; its stdout carries a JSON line for each step, {"progress": text}. It stops, with all that it
has started, when its stdin ends: when whoever started it is gone.
"""

import fcntl
import json
import os
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict, Field

from hawkeye_bench import driver, hosts, runs
from hawkeye_bench.agents.choose import AgentSpec, make
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import Plan
from hawkeye_mcp.state import write_atomically

# Whoever started it allows less; this is for one that nobody ends any more.
_GRACE_S = 30.0
# What an agent or an endpoint says may be of any length.
_LONGEST_STEP = 2_000


class Job(BaseModel):
    """What a worker is told. judge, server: where the judge and the server's command come from."""

    model_config = ConfigDict(extra="forbid")

    plan: Plan
    agent: AgentSpec
    out: Path
    workload: str
    condition: str
    repeat: int
    judge: str = Field("hawkeye_bench.driver:open_judge", description="module:name of a JudgeFactory")
    server: list[str] = driver.SERVER

    @property
    def key(self) -> RunKey:
        return RunKey(self.workload, self.condition, self.repeat)


async def work(job: Job, progress: driver.Progress) -> None:
    """Do the run; its record is in its folder afterwards: run.json, or broken.json."""
    agent = make(job.agent)
    try:
        factory = hosts.judge_of(job.plan) if job.plan.hosts else pkgutil.resolve_name(job.judge)
    except hosts.HostsUnusable as error:
        folder = job.key.folder(job.out)
        folder.mkdir(parents=True, exist_ok=True)
        broken = driver.misconfigured(job.plan, agent, job.key, str(error))
        write_atomically(folder / "broken.json", broken.model_dump_json(indent=1))
        return
    await driver.run_one(job.plan, agent, job.out, job.key, progress, factory, job.server)


async def _leashed(job: Job, say: Callable[[str], None]) -> None:
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            await anyio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
            end = threading.Timer(_GRACE_S, os._exit, [1])
            end.daemon = True
            end.start()
            group.cancel_scope.cancel()

        group.start_soon(watch)
        await work(job, say)
        group.cancel_scope.cancel()


@contextmanager
def _alone(job: Job, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the run; the lock goes with the process."""
    path = job.out / "workers" / f"{runs.name_of(job.workload)}-{job.condition}-{job.repeat}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting until the process of an earlier bench has ended")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    # What prints, here or in a library, goes to stderr: stdout is ours alone.
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = Job.model_validate_json(sys.stdin.buffer.readline())

    def say(text: str) -> None:
        _tell(protocol, {"progress": text[:_LONGEST_STEP]})

    with _alone(job, say):
        anyio.run(_leashed, job, say)
    sys.stderr.flush()
    os._exit(0)  # the thread that reads stdin blocks, and nothing can cancel it


def _tell(stream: Any, message: dict[str, str]) -> None:
    try:
        stream.write(json.dumps(message) + "\n")
        stream.flush()
    except BrokenPipeError:
        pass  # whoever started us is gone; stdin says so too


if __name__ == "__main__":
    main()

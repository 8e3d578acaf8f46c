"""Runs on this machine, each in a fresh process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from hawkeye_bench import runs
from hawkeye_bench.agents.choose import AgentSpec
from hawkeye_bench.driver import Progress
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import Plan, Run
from hawkeye_bench.schedule import Do, WorkerLost
from hawkeye_bench.worker import Job

# A run's server and judge take about 1.7 GB and two cores while a kernel is judged (hawkeye_mcp/judge/README.md).
_CORES, _MEMORY_BYTES = 2, 3 * 2**30
# What a worker may take to end its agent and server by itself.
_GRACE_S = 20.0
_LONGEST_LINE_BYTES = 2**20


def slots() -> int:
    """How many runs this machine can do at once: by cores and by memory, at least one."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores // _CORES, memory // _MEMORY_BYTES))


def doing(plan: Plan, agent: AgentSpec, out: Path, **changed: object) -> Do:
    """The function that does one run of the plan in a worker process. changed: fields of the Job, for tests."""

    async def do(key: RunKey, progress: Progress) -> Run:
        job = Job.model_validate(
            {"plan": plan, "agent": agent, "out": out, **key._asdict(), **changed}  # what is not a field is refused
        )
        log = out / "workers" / f"{runs.name_of(key.workload)}-{key.condition}-{key.repeat}.log"
        async with _worker(log) as process:
            await _converse(process, job, progress)
            code = await process.wait()
        return _record(key.folder(out), code, log)

    return do


@asynccontextmanager
async def _worker(log: Path) -> AsyncIterator[Process]:
    """A worker in a process group of its own; when the block is left it has ended, with all that it started.

    Raises:
        WorkerLost: it cannot be started, for lack of memory or space, say.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stderr:
            process = await anyio.open_process(
                [sys.executable, "-m", "hawkeye_bench.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
    except OSError as error:
        raise WorkerLost(f"its process cannot be started: {error}") from error
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.stdin:
                await process.stdin.aclose()
            with anyio.move_on_after(_GRACE_S):
                await process.wait()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await process.aclose()


async def _converse(process: Process, job: Job, progress: Progress) -> None:
    """Give the worker its job and pass on what it says until it ends. Its stdin stays open: that is its leash."""
    assert process.stdin and process.stdout
    # A worker that died at once cannot read; its return code says so.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(job.model_dump_json().encode() + b"\n")
    lines = BufferedByteReceiveStream(process.stdout)
    with suppress(anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            line = await lines.receive_until(b"\n", _LONGEST_LINE_BYTES)
            with suppress(ValueError, TypeError, KeyError):
                progress(str(json.loads(line)["progress"]))


def _record(folder: Path, code: int, log: Path) -> Run:
    """The record that the worker has left.

    Raises:
        WorkerLost: there is none.
    """
    if run := runs.finished(folder):
        return run
    broken = folder / "broken.json"
    if code == 0 and broken.exists():
        return Run.model_validate_json(broken.read_bytes())
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    raise WorkerLost(f"its process {ended} and left no record; see {log.parent.name}/{log.name}")

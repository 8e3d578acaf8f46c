"""One run on a machine of a cluster: in a temporary folder there, handed back as bytes. Knows nothing of the cluster.

The worker that does the run is on a leash, so it ends with whoever called `perform`, also if that is killed.
"""

import fcntl
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import hawkeye_bench
import hawkeye_mcp
from hawkeye_bench import runs
from hawkeye_bench.agents.choose import Misfit, make
from hawkeye_bench.executors import parcel
from hawkeye_bench.worker import Job
from hawkeye_mcp import workloads
from hawkeye_mcp.pool import fingerprint, judge_code
from hawkeye_mcp.versions import versions

_FOLDER = "hawkeye-run-"
# A younger folder may be one that is only just being made.
_ABANDONED_AFTER_S = 60.0
# What a worker may take to end its agent and server by itself.
GRACE_S = 20.0
CODE = "code of bench and server"
# Between two lines of a worker: so often it is noticed that the run is to stop.
_PAUSE_S = 0.5
_LONGEST_LOG_BYTES = 64 * 2**10


@dataclass(frozen=True)
class Said:
    """A step of the run."""

    text: str


@dataclass(frozen=True)
class Unfit:
    """The machine cannot do this run as it would be done where it comes from."""

    problem: str


@dataclass(frozen=True)
class Ended:
    """code: of the worker. log: the end of its stderr, and what was left out of the parcel. parcel: None if it left no
    record.
    """

    code: int
    log: str
    parcel: bytes | None


def installation(workload: str) -> dict[str, str]:
    """What a run's result depends on besides its plan, as it is on this machine.

    Raises:
        workloads.UnknownWorkload: it is not here.
    """
    return {
        **versions().model_dump(),
        "judge": judge_code()[:12],
        "cells": runs.cells_hash(),
        CODE: code_hash(),
        "workload and all that its verdicts depend on": fingerprint(workloads.find(workload))[:12],
    }


def code_hash() -> str:
    """Of every Python file of both packages, by path and content; an installed package has its content files inside,
    a checkout beside, so those are left out.
    """
    found = hashlib.sha256()
    for package in (hawkeye_bench, hawkeye_mcp):
        top = Path(str(package.__file__)).parent
        for path in sorted(top.rglob("*.py")):
            below = path.relative_to(top)
            if below.parts[0] != "_content":
                found.update(f"{below} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:12]


def perform(
    job: Job, expected: dict[str, str], secrets: dict[str, str], worked: bytes | None
) -> Iterator[Said | Unfit | Ended]:
    """Do the run, telling its steps as they happen; the last message is Unfit or Ended. Closing the iterator, or an
    exception in it, ends the worker and removes all that was here.

    job.out is replaced. expected: `installation` of where the run comes from. secrets: environment variables that the
    agent's options name. worked: the run's folder if its agent's work is complete already.
    """
    os.environ.update(secrets)  # of a process that does this one run
    if problem := _unfit(job, expected):
        yield Unfit(problem)
        return
    remove_abandoned()
    with _folder() as (out, lock):
        job = job.model_copy(update={"out": out})
        folder = job.key.folder(out)
        if worked is not None:
            parcel.deliver(worked, out, job.key)
        log = out / "worker.log"
        with _worker(log, lock) as process:
            yield from map(Said, _conversation(process, job))
            code = process.wait()
        packed, left_out = None, list[str]()
        if (folder / "run.json").exists() or (code == 0 and (folder / "broken.json").exists()):
            packed, left_out = parcel.pack(folder)
        said = log.read_bytes()[-_LONGEST_LOG_BYTES:].decode(errors="replace")
        yield Ended(code, said + "".join(f"not brought along: {name}\n" for name in left_out), packed)


def _unfit(job: Job, expected: dict[str, str]) -> str:
    """What is not here as it is where the run comes from; empty if all is."""
    try:
        here = installation(job.workload)
    except workloads.UnknownWorkload as error:
        return str(error)
    if differing := [f"{name} is {here[name]}, not {value}" for name, value in expected.items() if here[name] != value]:
        return f"{'; '.join(differing)}. Install the same hawkeye-mcp there, with the same files"
    try:
        make(job.agent)
    except Misfit as error:
        return f"{error.option}: {error}"
    return ""


@contextmanager
def _folder() -> Iterator[tuple[Path, int]]:
    """A new folder, and a lock that is held while this process or the worker lives."""
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, lock
    finally:
        os.close(lock)
        _remove(folder)


def _remove(folder: Path) -> None:
    """The server of a worker that was killed ends a moment after it, and may write its log's last lines until then."""
    deadline = time.monotonic() + GRACE_S
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            time.sleep(_PAUSE_S / 10)


def remove_abandoned() -> None:
    """Remove the folders of runs whose processes were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError):  # somebody else's, locked, or just gone
            if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S:
                with (folder / "lock").open("r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)


@contextmanager
def _worker(log: Path, lock: int) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process group of its own; when the block is left it has ended, with all that it started."""
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "hawkeye_bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            pass_fds=(lock,),
        )
    try:
        yield process
    finally:
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _conversation(process: subprocess.Popen[bytes], job: Job) -> Iterator[str]:
    """Give the worker its job; what it says until it ends. Its stdin stays open: that is its leash."""
    assert process.stdin and process.stdout
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read(stream: Iterator[bytes]) -> None:
        for line in stream:
            lines.put(line)
        lines.put(b"")

    # A worker that died at once cannot read; its return code says so.
    with suppress(BrokenPipeError):
        process.stdin.write(job.model_dump_json().encode() + b"\n")
        process.stdin.flush()
    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    while True:
        # Only between two waits is this thread told to stop.
        with suppress(queue.Empty):
            line = lines.get(timeout=_PAUSE_S)
            if not line:
                return
            with suppress(ValueError, TypeError, KeyError):
                yield str(json.loads(line)["progress"])

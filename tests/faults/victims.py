"""Processes of this package that kill themselves with SIGKILL at a drawn point, and what a test sees of them.

A point is a line of Python of the files that write, counted from the start; or a step of SQLite's own machine.
"""

import itertools
import json
import os
import select
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from raw_server import INITIALIZE

import hawkeye_mcp

PATIENCE_S = 120
PACKAGE = Path(hawkeye_mcp.__file__).parent
WRITING = {str(PACKAGE / f"{name}.py") for name in ("calllog", "pool", "state", "submissions", "jobs", "server")}


def die_at_line(number: int, files: set[str], counted: Path | None = None) -> None:
    """From now on count the lines of these files, in all threads, and end this process with SIGKILL at a line.

    number: 0 for never. counted: a file that holds, in the end, how many there were.
    """
    lines = itertools.count(1)
    handle = os.open(counted, os.O_WRONLY | os.O_CREAT, 0o600) if counted else -1

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            at = next(lines)
            if handle >= 0:
                os.pwrite(handle, b"%12d" % at, 0)
            if at == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        return line if frame.f_code.co_filename in files else None

    threading.settrace(call)
    sys.settrace(call)


def die_in_sqlite(number: int) -> None:
    """From now on count the instructions of SQLite's machine and end this process with SIGKILL at one of them."""
    opened, steps = sqlite3.connect, itertools.count(1)

    def step() -> int:
        if next(steps) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def connect(*arguments: Any, **named: Any) -> sqlite3.Connection:
        db = opened(*arguments, **named)
        db.set_progress_handler(step, 1)
        return db

    sqlite3.connect = connect


class Forked:
    """A child of this process, without the seconds that a start of Python takes, with its stdin and stdout."""

    def __init__(self, work: Callable[[], None], stderr: Path) -> None:
        to_child, self.stdin = os.pipe()
        self.stdout, from_child = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                for end, wanted in ((to_child, 0), (from_child, 1)):
                    os.dup2(end, wanted)
                log = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.dup2(log, 2)
                os.closerange(3, 2**20)  # else it holds the writing end of its own stdin
                sys.stdin, sys.stdout, sys.stderr = (open(0), open(1, "w"), open(2, "w"))
                work()
                os._exit(0)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(70)
        os.close(to_child)
        os.close(from_child)
        self.received = b""
        self.code: int | None = None

    def send(self, line: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(self.stdin, line + b"\n")

    def lines(self) -> Iterator[bytes]:
        """What it writes, line by line, to the end of its stdout; fails where nothing comes for a minute."""
        while True:
            while b"\n" in self.received:
                line, _, self.received = self.received.partition(b"\n")
                yield line
            assert select.select([self.stdout], [], [], PATIENCE_S)[0], "it says nothing"
            chunk = os.read(self.stdout, 65536)
            if not chunk:
                return
            self.received += chunk

    def ask(self, number: int, method: str, **params: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())

    def evaluate(self, number: int, source: str) -> None:
        self.ask(number, "tools/call", name="evaluate_kernel", arguments={"source": source})

    def answer(self, number: int) -> dict[str, Any] | None:
        """The answer to a request; None when it ended before."""
        for line in self.lines():
            if (message := json.loads(line)).get("id") == number:
                return message
        return None

    def start(self) -> bool:
        """Shake hands; False when it ended meanwhile."""
        self.ask(1, "initialize", **INITIALIZE)
        if self.answer(1) is None:
            return False
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return True

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def wait(self, patience_s: float = PATIENCE_S) -> int | None:
        """Its return code, negative for a signal; None when it does not end."""
        if self.code is None:
            handle = os.pidfd_open(self.pid)
            ended = select.select([handle], [], [], patience_s)[0]
            os.close(handle)
            if not ended:
                return None
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def end(self) -> None:
        """Close its pipes and make sure that it is gone."""
        self.close_stdin()
        if self.stdout >= 0:
            os.close(self.stdout)
            self.stdout = -1
        if self.code is None:
            self.kill()
            self.wait()


def session(leader: int) -> list[int]:
    """Processes of the session that a process began, zombies left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def gone(pids: set[int]) -> set[int]:
    """Those that are still there when all have had the time to end."""
    deadline = time.monotonic() + PATIENCE_S
    left = pids
    while left and time.monotonic() < deadline:
        left = {pid for pid in left if _runs(pid)}
        if left:
            time.sleep(0.02)  # for what the kernel does on its own
    return left


def _runs(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False

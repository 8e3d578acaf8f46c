"""Throw-away processes in which a candidate's Python is traced; only bytes come back.

With bubblewrap: no network, nothing of the file system but Python itself, read-only, own PID namespace, empty
environment, limits on CPU, memory, processes, files and output. Elsewhere: a process with rlimits alone, and every
result says so. Sandboxes are started ahead, imported and warm, and used once, but for a `SharedSandbox`.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.abc
import anyio.to_thread

from hawkeye_mcp.candidate import isolation, supervisor, tracer
from hawkeye_mcp.chips import Chip


@dataclass(frozen=True)
class Limits:
    """What a candidate may use while it is traced. Tracing honest kernels takes under 1 s and 1 GB.

    start_s: until it has taken the candidate, which is of this machine and what else is going on there.
    """

    start_s: float = 180
    wall_s: float = 60
    cpu_s: int = 90
    memory_bytes: int = 8 << 30
    processes: int = 256
    file_bytes: int = 64 << 20
    output_bytes: int = 64 << 20
    reply_bytes: int = 32 << 20


@dataclass(frozen=True)
class Ended:
    """How a sandbox ended: its reply, or why there is none.

    started: whether it came as far as taking a candidate; if not, none is to blame. killed: by SIGKILL, which may have
    come from outside, as when the machine's memory ran out.
    """

    reply: dict[str, Any] | None
    why: str = ""
    timed_out: bool = False
    started: bool = True
    stderr_tail: str = ""
    killed: bool = False


def _threads_of_user() -> int:
    count = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, KeyError):  # it may have ended meanwhile
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            count += int(fields["Threads"]) if int(fields["Uid"].split()[0]) == os.getuid() else 0
    return count


class _Flooded(Exception):
    """More came back than a reply may have."""


_uids = itertools.count(200_000 + os.getpid() % 10_000 * 10)


class Sandbox:
    """One process, for one candidate. Close it whatever happens."""

    def __init__(self, process: anyio.abc.Process, limits: Limits, held: int) -> None:
        self._process, self._limits, self._held = process, limits, held
        self._noise = _Tail(limits.output_bytes)
        self._ready, self._unread = False, bytearray()
        self._asked = False

    @classmethod
    async def start(cls, chip: Chip, limits: Limits) -> "Sandbox":
        own = {
            "memory_bytes": limits.memory_bytes,
            "cpu_s": limits.cpu_s,
            "file_bytes": limits.file_bytes,
            "processes": limits.processes + 4 * (os.cpu_count() or 1),
        }
        if isolation.becomes_another_user():
            own["uid"] = next(_uids)
        else:  # the limit counts all threads of the user
            own["processes"] += _threads_of_user()
        setup = {"device": {"device_kind": chip.device_kind, "cores": chip.cores}, "limits": own}
        leash, held = os.pipe()
        command = [sys.executable, "-I", "-S", supervisor.__file__, str(leash), *isolation.tracer_command()]
        with anyio.CancelScope(shield=True):  # cut off in the middle, a start would leave half of itself behind
            try:
                process = await anyio.open_process(
                    [*command, json.dumps(setup)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env=isolation.environment(), cwd="/", start_new_session=True, pass_fds=[leash],
                )  # fmt: skip
            except BaseException:
                os.close(held)
                raise
            finally:
                os.close(leash)
        return cls(process, limits, held)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def free(self) -> bool:
        """Whether it has replied to all that it was asked, so that it can be asked again."""
        return self.alive and not self._asked

    async def trace(self, source: str, inputs: Mapping[Any, Any], chip: Chip, *, interpreted: bool = True) -> Ended:
        """Trace one candidate at each size of `inputs` ({size: [(shape, dtype), ...]}).

        interpreted: also export for the CPU interpreter, which only verification needs.
        """
        return await self.ask({"source": source, "inputs": dict(inputs), "interpreted": interpreted}, chip)

    async def ask(self, request: Mapping[str, Any], chip: Chip, *, wall_s: float | None = None) -> Ended:
        """Send a request and take the reply. The first request holds at least the source; others may follow its reply.

        wall_s: a limit of its own, instead of that on tracing. It begins when the candidate can.
        """
        request = {**request, "device": {"device_kind": chip.device_kind, "cores": chip.cores}}
        assert self._process.stdin and self._process.stderr
        wall_s = self._limits.wall_s if wall_s is None else wall_s
        answered, flooded, self._asked = b"", False, True
        with anyio.move_on_after(wall_s if self._ready else self._limits.start_s) as clock:
            async with anyio.create_task_group() as tasks:

                async def drain(stream: anyio.abc.ByteReceiveStream) -> None:
                    nonlocal flooded
                    async for chunk in stream:
                        if not self._noise.add(chunk):
                            flooded = True
                            tasks.cancel_scope.cancel()

                tasks.start_soon(drain, self._process.stderr)
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._process.stdin.send(json.dumps(request).encode() + b"\n")
                try:
                    if not self._ready:
                        self._ready = await self._line() == tracer.READY
                        clock.deadline = anyio.current_time() + wall_s
                    answered = await self._line() if self._ready else b""
                except _Flooded:
                    flooded = True
                tasks.cancel_scope.cancel()
        tail = self._noise.text()
        if not self._ready:
            with anyio.move_on_after(5):
                await self._process.wait()
            return Ended(
                None, _ending(self._process.returncode), stderr_tail=tail, started=False, killed=self._killed()
            )
        if clock.cancelled_caught:
            why = f"the candidate was still running after {wall_s:g} s"
            return Ended(None, why, timed_out=True, stderr_tail=tail)
        if flooded:
            return Ended(None, f"the candidate wrote more than {self._limits.output_bytes >> 20} MiB of output")
        # a forked child may have answered too; parsing takes time, which the event loop does not have
        parsed = await anyio.to_thread.run_sync(_parsed, answered)
        if parsed is not None:
            self._asked = False
            return Ended(parsed, stderr_tail=tail)
        with anyio.move_on_after(5):
            await self._process.wait()
        return Ended(None, _ending(self._process.returncode), stderr_tail=tail, killed=self._killed())

    async def _line(self) -> bytes:
        """What comes back up to the end of a line, or the rest.

        Raises:
            _Flooded.
        """
        assert self._process.stdout
        looked = 0
        while (end := self._unread.find(b"\n", looked)) < 0:
            looked = end = len(self._unread)
            try:
                self._unread += await self._process.stdout.receive()
            except anyio.EndOfStream:
                break
            if len(self._unread) > self._limits.reply_bytes:
                raise _Flooded
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line

    def _killed(self) -> bool:
        return self._process.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            if self._held >= 0:
                os.close(self._held)
                self._held = -1
            await self._process.aclose()


# An honest reply has a few dozen; its artifacts are base64, which has none.
_MOST_CONTAINERS = 10_000


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A reply, or None where the line is none. A candidate may have written it."""
    if line.count(b"[") + line.count(b"{") > _MOST_CONTAINERS:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        reply = json.loads(line)
        if isinstance(reply, dict):
            # JSON may hold halves of surrogate pairs, which nothing that comes after could write out again
            cleaned: dict[str, Any] = json.loads(json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace"))
            return cleaned
    return None


class _Tail:
    """Counts what passes and keeps its end."""

    def __init__(self, limit: int) -> None:
        self._left, self._kept = limit, bytearray()

    def add(self, chunk: bytes) -> bool:
        self._left -= len(chunk)
        self._kept = (self._kept + chunk)[-4000:]
        return self._left >= 0

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


def _ending(code: int | None) -> str:
    if code is None:
        return "the process was killed before the trace finished"
    number = code - 128 if code > 128 else -code
    if number > 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
            hints = {
                "SIGSEGV": "a native crash",
                "SIGKILL": "killed, most likely for memory",
                "SIGXCPU": "out of CPU time",
                "SIGABRT": "aborted, most likely out of memory or a failed native check",
            }
            return f"the process died of {name} ({hints.get(name, 'a signal')}) before the trace finished"
    return f"the process ended by itself with exit code {code} before the trace finished"


@dataclass
class _Shelf:
    """One chip's sandboxes: those that are warm, and those that are starting."""

    ready: deque[Sandbox] = field(default_factory=deque)
    starting: int = 0
    changed: anyio.Event = field(default_factory=anyio.Event)

    def tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class Sandboxes(Protocol):
    """Where sandboxes come from."""

    limits: Limits

    def take(self, chip: Chip) -> contextlib.AbstractAsyncContextManager[Sandbox]:
        """A sandbox, for as long as the context lasts."""

    def refill(self, chip: Chip) -> None:
        """Start what may be taken next."""


class SharedSandbox:
    """One sandbox for kernels that are traced in it one after the other; another once it has ended.

    A kernel can change what is traced after it: only for kernels of one author, which are judged together.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._box: Sandbox | None = None

    @contextlib.asynccontextmanager
    async def take(self, chip: Chip) -> AsyncIterator[Sandbox]:
        if self._box and not self._box.free:
            await self.close()
        self._box = self._box or await Sandbox.start(chip, self.limits)
        yield self._box

    def refill(self, chip: Chip) -> None:
        """Nothing: the sandbox is there, or starts when it is taken."""

    async def close(self) -> None:
        if self._box:
            await self._box.close()
        self._box = None


class SandboxPool:
    """Warm sandboxes for each chip in use; `refill` starts the next ones, off the agent's path."""

    def __init__(self, tasks: anyio.abc.TaskGroup, *, warm: int = 1, limits: Limits | None = None) -> None:
        self._tasks, self._warm, self.limits = tasks, warm, limits or Limits()
        self._shelves: defaultdict[str, _Shelf] = defaultdict(_Shelf)
        self._closed = False

    @contextlib.asynccontextmanager
    async def take(self, chip: Chip) -> AsyncIterator[Sandbox]:
        """A sandbox of one's own: a warm one, else the one that is starting, else a new one."""
        sandbox = await self._next(chip)
        try:
            yield sandbox
        finally:
            await sandbox.close()

    async def _next(self, chip: Chip) -> Sandbox:
        shelf = self._shelves[chip.name]
        while shelf.ready or shelf.starting:
            if not shelf.ready:
                await shelf.changed.wait()
                continue
            sandbox = shelf.ready.popleft()
            if sandbox.alive:
                return sandbox
            await sandbox.close()  # when memory runs out, waiting sandboxes are the first to be killed
        return await Sandbox.start(chip, self.limits)

    def refill(self, chip: Chip) -> None:
        shelf = self._shelves[chip.name]
        while not self._closed and len(shelf.ready) + shelf.starting < self._warm:
            shelf.starting += 1
            self._tasks.start_soon(self._start_one, chip, shelf)

    async def _start_one(self, chip: Chip, shelf: _Shelf) -> None:
        try:
            sandbox = await Sandbox.start(chip, self.limits)
            if self._closed:
                await sandbox.close()
            else:
                shelf.ready.append(sandbox)
        except OSError:
            pass  # the next trace starts its own and reports what is wrong
        finally:
            shelf.starting -= 1
            shelf.tell()

    async def close(self) -> None:
        self._closed = True
        for shelf in self._shelves.values():
            while shelf.ready:
                await shelf.ready.popleft().close()

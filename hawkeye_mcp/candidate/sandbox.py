"""Throw-away processes in which a candidate's Python is traced; only bytes come back.

With bubblewrap: no network, nothing of the file system but Python itself, read-only, own PID namespace, empty
environment, limits on CPU, memory, processes, files and output. Elsewhere: a process with rlimits alone, and every
result says so. Sandboxes are started ahead, imported and warm, and used once.
"""

import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.abc

from hawkeye_mcp import content
from hawkeye_mcp.candidate import tracer
from hawkeye_mcp.chips import Chip

Isolation = Literal["bubblewrap", "rlimits"]


@dataclass(frozen=True)
class Limits:
    """What a candidate may use while it is traced. Tracing honest kernels takes under 1 s and 1 GB."""

    wall_s: float = 60
    cpu_s: int = 90
    memory_bytes: int = 8 << 30
    processes: int = 256
    file_bytes: int = 64 << 20
    output_bytes: int = 64 << 20
    reply_bytes: int = 64 << 20


@dataclass(frozen=True)
class Ended:
    """How a sandbox ended: its reply, or why there is none."""

    reply: dict[str, Any] | None
    why: str = ""
    timed_out: bool = False
    stderr_tail: str = ""


@functools.cache
def isolation() -> Isolation:
    """The strongest isolation that works here, found by trying it."""
    if not shutil.which("bwrap"):
        return "rlimits"
    probe = [*_bubblewrap(), "--", sys.executable, "-I", "-c", "pass"]
    done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    return "bubblewrap" if done.returncode == 0 else "rlimits"


def _bubblewrap() -> list[str]:
    command = [
        "bwrap",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    if os.geteuid() == 0:  # root sets up the mounts without a user namespace, then the tracer becomes another user
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user"]
    command += ["--die-with-parent", "--new-session", "--clearenv"]
    for name, value in _environment().items():
        command += ["--setenv", name, value]
    visible = [Path(sys.prefix), Path(sys.base_prefix), Path("/usr")]
    for path in map(Path, ("/bin", "/lib", "/lib64", "/lib32")):
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            visible.append(path)
    for path in dict.fromkeys(visible):
        for parent in reversed(path.parents[:-1]):  # bubblewrap's own are closed to the user the tracer becomes
            command += ["--perms", "0755", "--dir", str(parent)]
        command += ["--ro-bind", str(path), str(path)]
    for file in ("/etc/ld.so.cache", "/etc/localtime"):
        command += ["--ro-bind-try", file, file]
    for private in content.private_paths():
        if any(private.is_relative_to(path) for path in visible):
            command += ["--tmpfs", str(private)]
    return [
        *command,
        *("--proc", "/proc", "--dev", "/dev", "--size", str(64 << 20), "--perms", "1777", "--tmpfs", "/tmp"),
        *("--ro-bind", tracer.__file__, "/tracer.py", "--chdir", "/tmp"),
    ]


def _environment() -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "JAX_PLATFORMS": "cpu",
        "LANG": "C.UTF-8",
        "JAX_TRACEBACK_FILTERING": "off",
    }


def _threads_of_user() -> int:
    count = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, KeyError):  # it may have ended meanwhile
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            count += int(fields["Threads"]) if int(fields["Uid"].split()[0]) == os.getuid() else 0
    return count


_uids = itertools.count(200_000 + os.getpid() % 10_000 * 10)


class Sandbox:
    """One process, for one trace. Close it whatever happens."""

    def __init__(self, process: anyio.abc.Process, limits: Limits, watch_fd: int) -> None:
        self._process, self._limits, self._watch_fd = process, limits, watch_fd

    @classmethod
    async def start(cls, chip: Chip, limits: Limits) -> "Sandbox":
        read_fd, write_fd = os.pipe()  # the child ends when the write end closes, however this process goes
        bubblewrap = isolation() == "bubblewrap"
        another_user = bubblewrap and os.geteuid() == 0
        setup = {
            "device": {"device_kind": chip.device_kind, "cores": chip.cores},
            "watch_fd": read_fd,
            "limits": {
                "memory_bytes": limits.memory_bytes,
                "cpu_s": limits.cpu_s,
                "file_bytes": limits.file_bytes,
                # the limit counts all threads of a user: only another user starts from none
                "processes": limits.processes + 4 * (os.cpu_count() or 1) + (0 if another_user else _threads_of_user()),
                "uid": next(_uids) if another_user else 0,
            },
        }
        command = [*_bubblewrap(), "--"] if bubblewrap else []
        command += [sys.executable, "-I", "-B", "-X", "utf8"]
        command += ["/tracer.py" if bubblewrap else tracer.__file__, json.dumps(setup)]
        try:
            process = await anyio.open_process(
                command,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=_environment(), cwd="/", start_new_session=True, pass_fds=[read_fd],
            )  # fmt: skip
        except BaseException:
            os.close(write_fd)
            raise
        finally:
            os.close(read_fd)
        return cls(process, limits, write_fd)

    async def trace(self, source: str, inputs: Mapping[Any, Any], chip: Chip, *, interpreted: bool = True) -> Ended:
        """Trace one candidate at each size of `inputs` ({size: [(shape, dtype), ...]}).

        interpreted: also export for the CPU interpreter, which only verification needs.
        """
        request = {
            "source": source,
            "inputs": dict(inputs),
            "interpreted": interpreted,
            "device": {"device_kind": chip.device_kind, "cores": chip.cores},
        }
        reply, noise = bytearray(), _Tail(self._limits.output_bytes)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        flooded = False
        with anyio.move_on_after(self._limits.wall_s) as clock:
            async with anyio.create_task_group() as tasks:

                async def drain(stream: anyio.abc.ByteReceiveStream) -> None:
                    nonlocal flooded
                    async for chunk in stream:
                        if not noise.add(chunk):
                            flooded = True
                            tasks.cancel_scope.cancel()

                tasks.start_soon(drain, self._process.stderr)
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._process.stdin.send(json.dumps(request).encode() + b"\n")
                async for chunk in self._process.stdout:
                    reply += chunk
                    if len(reply) > self._limits.reply_bytes:
                        flooded = True
                        break
                tasks.cancel_scope.cancel()
        tail = noise.text()
        if clock.cancelled_caught:
            why = f"the candidate was still running after {self._limits.wall_s:g} s of tracing"
            return Ended(None, why, timed_out=True, stderr_tail=tail)
        if flooded:
            return Ended(None, f"the candidate wrote more than {self._limits.output_bytes >> 20} MiB of output")
        if (parsed := _parsed(bytes(reply).split(b"\n")[0])) is not None:  # a forked child may have answered too
            return Ended(parsed, stderr_tail=tail)
        with anyio.move_on_after(5):
            await self._process.wait()
        return Ended(None, _ending(self._process.returncode), stderr_tail=tail)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            if self._watch_fd >= 0:
                os.close(self._watch_fd)
                self._watch_fd = -1
            await self._process.aclose()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A reply, or None where the line is none. A candidate may have written it."""
    with contextlib.suppress(ValueError, RecursionError):
        # JSON may hold halves of surrogate pairs, which nothing that comes after could write out again
        text = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
        reply = json.loads(text)
        return reply if isinstance(reply, dict) else None
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


class SandboxPool:
    """Warm sandboxes for each chip in use; `refill` starts the next ones, off the agent's path."""

    def __init__(self, tasks: anyio.abc.TaskGroup, *, warm: int = 1, limits: Limits | None = None) -> None:
        self._tasks, self._warm, self.limits = tasks, warm, limits or Limits()
        self._ready: dict[str, deque[Sandbox]] = {}
        self._starting: dict[str, int] = {}
        self._closed = False

    @contextlib.asynccontextmanager
    async def take(self, chip: Chip) -> AsyncIterator[Sandbox]:
        ready = self._ready.setdefault(chip.name, deque())
        sandbox = ready.popleft() if ready else await Sandbox.start(chip, self.limits)
        try:
            yield sandbox
        finally:
            await sandbox.close()

    def refill(self, chip: Chip) -> None:
        have = len(self._ready.get(chip.name, ())) + self._starting.get(chip.name, 0)
        for _ in range(self._warm - have):
            self._starting[chip.name] = self._starting.get(chip.name, 0) + 1
            self._tasks.start_soon(self._start_one, chip)

    async def _start_one(self, chip: Chip) -> None:
        try:
            sandbox = await Sandbox.start(chip, self.limits)
        except OSError:
            return  # the next trace starts its own and reports what is wrong
        finally:
            self._starting[chip.name] -= 1
        if self._closed:
            await sandbox.close()
        else:
            self._ready.setdefault(chip.name, deque()).append(sandbox)

    async def close(self) -> None:
        self._closed = True
        for ready in self._ready.values():
            while ready:
                await ready.popleft().close()

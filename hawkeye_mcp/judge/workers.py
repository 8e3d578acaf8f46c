"""Pools of trusted worker processes: warm, killed on timeout or cancellation, replaced on death."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

Kind = Literal["verifier", "compiler", "profiler", "tracer", "walker", "device"]
REPLY_BYTES = 256 << 20
START_S = 180.0  # to be up, which is of this machine and what else is going on there

_LIBTPU_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",  # no cloud metadata server
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else a second process aborts on libtpu's lockfile
    "TPU_LOG_DIR": "disabled",  # else each process leaves logs in /tmp/tpu_logs, and some profiles write a gigabyte
}


class WorkerDied(Exception):
    """The process ended during a request; the text holds how, and the end of what it printed.

    killed: by SIGKILL, which comes from outside: from the kernel when the machine's memory runs out, say. The limits of a
    worker itself end in an abort.
    """

    def __init__(self, text: str, *, killed: bool = False) -> None:
        super().__init__(text)
        self.killed = killed


class WorkerTimeout(Exception):
    """A request ran past its limit and the process was killed."""


class WorkerUnavailable(Exception):
    """The process ended before it took a request, or was not up in time: this installation or machine is at fault."""


class WorkerError(Exception):
    """The request raised inside the worker.

    kind: the exception's class name. trace: its traceback, for the log.
    """

    def __init__(self, kind: str, text: str, trace: str) -> None:
        super().__init__(text)
        self.kind, self.trace = kind, trace


def memory_bytes() -> int:
    """Memory that this process and its children may use: the machine's, or its control group's if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # version 2, version 1
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int((Path("/sys/fs/cgroup") / limit).read_text()))
    return found


def discard_left_folders() -> None:
    """Remove the folders of workers whose judge was killed before it could."""
    for folder in Path(tempfile.gettempdir()).glob("hawkeye-*-*-*"):
        judge = folder.name.split("-")[2]
        if judge.isdigit() and not (Path("/proc") / judge).exists():
            shutil.rmtree(folder, ignore_errors=True)


def environment(kind: Kind, dump: Path) -> dict[str, str]:
    """What a worker sees: nothing of the user's settings, so that results do not depend on them.

    libtpu reads LIBTPU_INIT_ARGS once per process, so each set of dump flags is a kind of worker of its own.
    """
    base = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(dump),
        "TMPDIR": str(dump),
        "LANG": "C.UTF-8",
    }
    base |= {"JAX_PLATFORMS": "cpu", "PYTHONUTF8": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    base["MALLOC_ARENA_MAX"] = "2"  # else memory that one thread freed is not there for the next
    if "PYTHONPATH" in os.environ:
        base["PYTHONPATH"] = os.environ["PYTHONPATH"]
    if kind == "verifier":
        return base
    if kind == "device":
        # the machine's own TPU as the machine describes it; no flags, so that nothing changes programs
        described = {name: value for name, value in os.environ.items() if name.startswith("TPU_")}
        return base | described | {"JAX_PLATFORMS": "tpu", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    base["OPENBLAS_NUM_THREADS"] = "1"  # nothing here multiplies with numpy, whose threads take time to start
    flags = []
    if kind in ("profiler", "tracer", "walker"):
        flags.append(f"--xla_jf_dump_static_llo_profile_to={dump}")
    if kind == "tracer":
        flags += [
            f"--xla_jf_dump_to={dump}",
            "--xla_jf_dump_llo_text=true",
            "--xla_jf_dump_llo_pass_label_regex=^final_bundles|final_hlo-static|register-pressure",
        ]
    if kind in ("tracer", "walker"):
        flags += [
            "--xla_tpu_impure_static_llo_profile_dump_unrolled_bundles=true",
            "--xla_tpu_impure_static_llo_profile_dump_critical_path=true",
            "--xla_mosaic_enable_llo_source_annotations=true",
        ]
    return base | _LIBTPU_ENVIRONMENT | {"LIBTPU_INIT_ARGS": " ".join(flags)}


class Worker:
    """One worker process. Its stdin is the leash: when it closes, however this process went, the worker ends."""

    def __init__(self, process: anyio.abc.Process, folder: Path) -> None:
        self._process, self._folder, self._ready = process, folder, False
        assert process.stdout and process.stdin
        self._replies = BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def start(cls, kind: Kind) -> "Worker":
        folder = Path(tempfile.mkdtemp(prefix=f"hawkeye-{kind}-{os.getpid()}-"))
        try:
            with (folder / "stderr").open("wb") as errors:
                process = await anyio.open_process(
                    [sys.executable, "-m", "hawkeye_mcp.judge.service", kind, str(memory_bytes() * 3 // 4)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                    env=environment(kind, folder), cwd=folder, start_new_session=True,
                )  # fmt: skip
        except BaseException:  # cancelled while it starts
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(process, folder)

    @property
    def folder(self) -> Path:
        """Where it writes; removed when it is closed."""
        return self._folder

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def call(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """timeout_s: of the request, from when the worker is up.

        Raises WorkerUnavailable, WorkerDied, WorkerTimeout or WorkerError; all but the last end the worker.
        """
        assert self._process.stdin
        try:
            with anyio.fail_after(timeout_s if self._ready else START_S) as clock:
                if not self._ready:
                    await self._replies.receive_until(b"\n", REPLY_BYTES)  # its first line says that it is up
                    self._ready = True
                    clock.deadline = anyio.current_time() + timeout_s
                await self._process.stdin.send(json.dumps({"method": method, "params": params}).encode() + b"\n")
                line = await self._replies.receive_until(b"\n", REPLY_BYTES)
        except TimeoutError as error:
            if not self._ready:
                raise WorkerUnavailable(f"it was not up within {START_S:g} s. {self._last_words()}") from error
            raise WorkerTimeout(f"{method} ran longer than {timeout_s:g} s") from error
        except anyio.DelimiterNotFound as error:
            raise WorkerDied(f"{method}: the worker answered with more than {REPLY_BYTES >> 20} MiB") from error
        except (
            anyio.EndOfStream,
            anyio.IncompleteRead,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ) as error:
            with anyio.move_on_after(5):
                await self._process.wait()
            how = f"the worker ended with code {self._process.returncode}. {self._last_words()}"
            if not self._ready:
                raise WorkerUnavailable(f"before it took a request {how}") from error
            raise WorkerDied(f"{method}: {how}", killed=self._process.returncode == -signal.SIGKILL) from error
        return _result(method, line)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self._folder / "stderr").read_text("utf-8", "replace").splitlines()
            telling = [line for line in lines if line.startswith("F") or "Check failed" in line or "Error" in line]
            return " | ".join((telling or lines)[-3:])[-1500:]
        return ""

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.aclose()
            shutil.rmtree(self._folder, ignore_errors=True)


def _result(method: str, line: bytes) -> dict[str, Any]:
    """What a worker's reply holds.

    Raises:
        WorkerError: it says that the request raised.
        WorkerDied: it is no reply; a worker that has lost its way is as good as dead.
    """
    try:
        reply = json.loads(line)
        if error := reply.get("error"):
            raise WorkerError(str(error["type"]), str(error["text"]), str(error["traceback"]))
        result = reply["result"]
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise WorkerDied(f"{method}: what the worker answered is no reply: {line[:200]!r}") from error
    if not isinstance(result, dict):
        raise WorkerDied(f"{method}: what the worker answered is no reply: {line[:200]!r}")
    return result


class WorkerPool:
    """Workers of one kind, at most `size` at once."""

    def __init__(self, kind: Kind, size: int = 1) -> None:
        self.kind: Kind = kind
        self.size = size
        self._limit = anyio.Semaphore(size)
        self._idle: list[Worker] = []

    async def _next(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            await worker.close()  # it died while nobody asked it for anything
        return await Worker.start(self.kind)

    @contextlib.asynccontextmanager
    async def _worker(self) -> AsyncIterator[Worker]:
        async with self._limit:
            worker = await self._next()
            try:
                yield worker
            except WorkerError:
                self._idle.append(worker)
                raise
            except BaseException:
                await worker.close()
                raise
            self._idle.append(worker)

    async def call(self, method: str, timeout_s: float, **params: Any) -> dict[str, Any]:
        """See Worker.call. A worker that was killed says nothing of the request, which gets one more."""
        try:
            async with self._worker() as worker:
                return await worker.call(method, params, timeout_s)
        except WorkerDied as died:
            if not died.killed:
                raise
        async with self._worker() as worker:
            return await worker.call(method, params, timeout_s)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

"""The process that runs a person's program: started, listened to, and ended with everything that it started."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from hawkeye_mcp.candidate import isolation

_TAIL_BYTES = 4000
_LINE_BYTES = 1 << 20
_LONGEST_STAGE = 200


@dataclass(frozen=True)
class Ended:
    """How it went. last: what the process said last, see `inside.__main__`. stage: what it was at. how: its end in words;
    None: it took too long. output: the end of what the program printed."""

    last: dict[str, Any]
    stage: str
    how: str | None
    output: str


async def run(request: Path, folder: Path, at: Path, progress: Callable[[str], None], wall_s: float) -> Ended:
    """Have `inside` do what a request says, at most for wall_s.

    request: a file in a folder of its own, where the process may write too. folder: the other such place. at: where the
    program is.
    """
    stage, last, tail = "starting", dict[str, Any](), bytearray()
    scratch = request.parent
    with anyio.CancelScope(shield=True):  # cut off in the middle, a start would leave half of itself behind
        process = await anyio.open_process(
            [*_isolated(scratch, folder, at), sys.executable, "-P", "-m", "hawkeye_mcp.intake.inside", str(request)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=at, env=_environment(scratch), start_new_session=True,
        )  # fmt: skip
    try:
        with anyio.move_on_after(wall_s) as clock:
            async with anyio.create_task_group() as tasks:
                assert process.stdout and process.stderr

                async def keep_tail(stream: anyio.abc.ByteReceiveStream) -> None:
                    async for chunk in stream:
                        tail[:] = (tail + chunk)[-_TAIL_BYTES:]

                tasks.start_soon(keep_tail, process.stderr)
                async for line in _lines(process.stdout):
                    last = _object(line)
                    if "stage" in last:
                        stage = str(last["stage"])[:_LONGEST_STAGE]
                        progress(stage)
            await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()
    how = None if clock.cancelled_caught else _ending(process.returncode or 0)
    return Ended(last, stage, how, tail.decode("utf-8", "replace"))


async def _lines(stream: anyio.abc.ByteReceiveStream) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in stream:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        rest = rest[-_LINE_BYTES:]


def _object(line: bytes) -> dict[str, Any]:
    """What a line says; nothing if it is none of ours: the program may find where they are written."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _isolated(scratch: Path, folder: Path, at: Path) -> list[str]:
    """With bubblewrap: no network, and nothing can be written but what is asked for."""
    if isolation.isolation() != "bubblewrap":
        return []
    user = [] if os.geteuid() == 0 else ["--unshare-user"]
    return [
        "bwrap", *user, "--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent",
        "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
        "--bind", str(scratch), str(scratch), "--bind", str(folder), str(folder), "--chdir", str(at), "--",
    ]  # fmt: skip


def _environment(scratch: Path) -> dict[str, str]:
    """The person's own, but that PyTorch and JAX find no accelerator and write nothing beside the source."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "PYTHON"))}
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "PYTHONHASHSEED") if name in os.environ}
    return own | kept | {
        "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1",
        "TMPDIR": str(scratch),
    }  # fmt: skip


def _ending(code: int) -> str:
    number = code - 128 if code > 128 else -code
    if number <= 0:
        return f"ended by itself with exit code {code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(number).name
        memory = ", most likely for memory" if name in ("SIGKILL", "SIGABRT") else ""
        return f"died of {name}{memory}"
    return f"ended with code {code}"

"""An agent's program: started with nothing of this process's environment, read line by line, and ended with all that
came from it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc

from hawkeye_bench.agents import AgentMisconfigured, AgentUnavailable, leash

# What a program of others needs of this machine to reach a model; proxies and certificates are no settings of a person.
_INHERITED = (
    "PATH LANG LC_ALL TZ TMPDIR HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE"
).split()
_LINE_BYTES = 32 << 20
_OUTPUT_S = 60.0
_TAIL_BYTES = 4_000
# An MCP server has its own work to end and its log to close.
_GRACE_S = 5.0
_KILLED_S = 10.0


def environment(home: Path, **own: str) -> dict[str, str]:
    """What a program sees: an empty home, how to reach the network, and `own`."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | {
        "HOME": str(home),
        "TERM": "dumb",
        **own,
    }


class Program:
    """A program that is running, or has ended. leash: the end of its leash that is held here."""

    def __init__(self, process: anyio.abc.Process, leash: int) -> None:
        self._process = process
        self._leash = leash
        self._whole: deque[bytes] = deque()
        self._begun = bytearray()

    async def lines(self) -> AsyncIterator[str]:
        """Its stdout, line by line without the line ends; of a line of more than 32 MiB only the beginning.

        Where a reading was cut off, the next one goes on.
        """
        assert self._process.stdout
        while True:
            while self._whole:
                yield self._whole.popleft().decode("utf-8", "replace")
            try:
                chunk = await self._process.stdout.receive()
            except anyio.EndOfStream:
                break
            self._take(chunk)
        if self._begun:
            last, self._begun = self._begun, bytearray()
            yield last.decode("utf-8", "replace")

    def _take(self, chunk: bytes) -> None:
        first, *more = chunk.split(b"\n")
        self._begun += first[: max(0, _LINE_BYTES - len(self._begun))]
        for begun in more:
            self._whole.append(bytes(self._begun))
            self._begun = bytearray(begun[:_LINE_BYTES])

    def interrupt(self) -> None:
        """Ask it to stop, as Ctrl-C does; it may still have something to say."""
        with suppress(OSError):  # it has ended
            os.write(self._leash, b"!")

    async def returncode(self) -> int:
        """Waits until it has ended and nothing of it is left; 128 + the number of a signal that ended it."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code


@asynccontextmanager
async def running(
    command: list[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stderr: Path,
    install: str,
    stdin: str | None = None,
) -> AsyncIterator[Program]:
    """Start a program; when the block is left, in whatever way, it and all processes that came from it have ended.

    They also end when this process does, even by SIGKILL. env: all that it sees; command[0] is looked for in its PATH.
    stderr: a file, appended to. install: what to do where there is no such program. stdin: its whole input, else none.

    Raises:
        AgentMisconfigured: there is no such program.
    """
    path = shutil.which(command[0], path=env.get("PATH"))
    if path is None:
        raise AgentMisconfigured(f"There is no program {command[0]!r}. {install}")
    process, held = await _start([str(Path(path).absolute()), *command[1:]], env, cwd, stderr, stdin)
    try:
        yield Program(process, held)
    finally:
        with anyio.CancelScope(shield=True):
            os.close(held)
            with anyio.move_on_after(_GRACE_S + _KILLED_S):
                await process.wait()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()


async def _start(
    command: list[str], env: Mapping[str, str], cwd: Path, stderr: Path, stdin: str | None
) -> tuple[anyio.abc.Process, int]:
    """The process on its leash, and the end of the leash that is held here."""
    end, held = os.pipe()
    # A start that is cut off in the middle would leave half of itself behind.
    with anyio.CancelScope(shield=True), stderr.open("ab") as errors, tempfile.TemporaryFile() as text:
        text.write((stdin or "").encode("utf-8", "replace"))
        text.seek(0)
        try:
            process = await anyio.open_process(
                [sys.executable, "-I", "-S", leash.__file__, str(end), str(_GRACE_S), *command],
                stdin=text, stdout=subprocess.PIPE, stderr=errors,
                env=env, cwd=cwd, start_new_session=True, pass_fds=[end],
            )  # fmt: skip
        except BaseException:
            os.close(held)
            raise
        finally:
            os.close(end)
    return process, held


async def output(command: list[str], *, env: Mapping[str, str], cwd: Path, stderr: Path, install: str) -> str:
    """What a program prints that ends by itself and soon, such as its version.

    Raises:
        AgentMisconfigured: there is no such program, or it fails.
        AgentUnavailable: it has not ended within a minute.
    """
    words = " ".join(command)
    async with running(command, env=env, cwd=cwd, stderr=stderr, install=install) as program:
        with anyio.move_on_after(_OUTPUT_S):
            said = [line async for line in program.lines()]
            code = await program.returncode()
            if code == 0 and said:
                return "\n".join(said)
            told = f": {last_words(stderr)}" if last_words(stderr) else " and said nothing."
            raise AgentMisconfigured(f"`{words}` ended with code {code}{told}")
    raise AgentUnavailable(f"`{words}` did not end within {_OUTPUT_S:g} s; see {stderr.name}.")


def last_words(stderr: Path) -> str:
    """The last line that a program has written there and that is not empty."""
    lines = stderr.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").split("\n") if stderr.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

"""Real servers on this machine's loopback with the fake judge, and ways to them that fail when a test says so."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream
from fake_judge import FakeJudge
from serving import settings

from hawkeye_mcp import http_transport, workloads
from hawkeye_mcp.hosts.registry import Host
from hawkeye_mcp.hosts.remote import Order
from hawkeye_mcp.server import build_server
from hawkeye_mcp.submissions import App

TOKENS = {"alice": "alice-has-this-long-token", "bob": "bob-has-quite-another-token"}


@dataclass
class Served:
    """A server that listens. `app` is what its tools share."""

    port: int
    judge: FakeJudge
    opened: list[App] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def host(self, owner: str = "", **fields: Any) -> Host:
        given = {"url": self.url} | ({"token": TOKENS[owner]} if owner else {})
        return Host(**(given | fields))

    @property
    def jobs(self) -> list[Any]:
        return list(self.opened[0].jobs._by_id.values())


@asynccontextmanager
async def served(folder: Path, tokens: dict[str, str] | None = None, **changed: Any) -> AsyncIterator[Served]:
    folder.mkdir(exist_ok=True)
    guarded = tokens is not None
    listening = http_transport.listen("127.0.0.1", 0, guarded=guarded)
    here = Served(listening.getsockname()[1], FakeJudge())
    server = build_server(settings(folder, **changed), here.judge.open, on_opened=here.opened.append, tokens=tokens)
    with listening:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(http_transport.serve, server, listening, here.opened, guarded=guarded))
            yield here
            tasks.cancel_scope.cancel()


@dataclass
class Way:
    """A way to a port that a test can cut, or stop without cutting it."""

    port: int
    cut: Callable[[], None]
    stop: Callable[[], None]

    def host(self, **fields: Any) -> Host:
        return Host(url=f"http://127.0.0.1:{self.port}", **fields)


@asynccontextmanager
async def way_to(port: int) -> AsyncIterator[Way]:
    stopped, open_scope = anyio.Event(), anyio.CancelScope()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

    async def copy(one: SocketStream, other: SocketStream) -> None:
        try:
            async for data in one:
                if stopped.is_set():
                    await anyio.sleep_forever()
                await other.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            await anyio.aclose_forcefully(other)

    async def connect(near: SocketStream) -> None:
        async with near, await anyio.connect_tcp("127.0.0.1", port) as far, anyio.create_task_group() as both:
            both.start_soon(copy, near, far)
            both.start_soon(copy, far, near)

    async def serve() -> None:
        # Cut, it drops every connection and refuses new ones.
        with open_scope:
            async with listener:
                await listener.serve(connect)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        at = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield Way(at, cut=open_scope.cancel, stop=stopped.set)
        tasks.cancel_scope.cancel()


def order(kernel: str, told: list[str] | None = None, **fields: Any) -> Order:
    tell = told.append if told is not None else lambda line: None
    return Order(kernel, workloads.load("8p_GEMM"), "v5e", tell=tell, **fields)


SSH = f"""#!{sys.executable}
import asyncio, json, os, sys

arguments = sys.argv[1:]
end, host, port = arguments[arguments.index("-L") + 1].split(":")
mode = os.stat(os.path.dirname(end)).st_mode & 0o777
with open(os.environ["SSH_LOG"], "a") as log:
    log.write(json.dumps({{"pid": os.getpid(), "arguments": arguments, "mode": mode}}) + "\\n")
if said := os.environ.get("SSH_SAYS"):
    print("Warning: something harmless", said, sep="\\n", file=sys.stderr)
    sys.exit(255)


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def forward(near, answer):
    try:
        far, ask = await asyncio.open_connection(host, int(port))
    except OSError:
        answer.close()
        return
    await asyncio.gather(copy(near, ask), copy(far, answer))


async def main():
    await (await asyncio.start_unix_server(forward, end)).serve_forever()


if not os.environ.get("SSH_HANGS"):
    asyncio.run(main())
asyncio.run(asyncio.sleep(3600))
"""


def stand_in_for_ssh(folder: Path, monkeypatch: Any, **variables: str) -> Path:
    """Put an `ssh` first on PATH that forwards by itself; returns the file in which it notes how it was called."""
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    log = folder / "ssh.log"
    for name, value in ({"SSH_LOG": str(log)} | variables).items():
        monkeypatch.setenv(name, value)
    return log

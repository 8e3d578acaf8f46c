"""A server as a real process, spoken to line by line, with nothing between the test and its pipes."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hawkeye_mcp import calllog

FAKE = [sys.executable, str(Path(__file__).with_name("fake_judge_server.py"))]
REAL = [sys.executable, "-m", "hawkeye_mcp.server"]
PATIENCE_S = 180  # ends a test that is broken; no slow machine comes near
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


class Raw:
    """The process; `folder` holds its workspace, state, log and stderr."""

    def __init__(self, folder: Path, *arguments: str, program: list[str], **variables: str) -> None:
        (folder / "workspace").mkdir(exist_ok=True)
        # Unbuffered output would hide what Python's own buffer drains at exit.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | variables
        self.log = folder / "log" / "calls.jsonl"
        self.process = subprocess.Popen(
            command(folder, *arguments, program=program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("wb"),
            env=environment,
            start_new_session=True,
        )
        self.received = b""

    def send(self, line: bytes) -> None:
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, **params: Any) -> None:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.send(json.dumps(request).encode())

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        self.ask(number, "tools/call", name=tool, arguments=arguments, _meta={"progressToken": number})

    def initialize(self, client: str = "raw") -> dict[str, Any]:
        """client: the name that it gives itself, by which the server knows how long it may be kept waiting."""
        self.ask(1, "initialize", **INITIALIZE | {"clientInfo": {"name": client, "version": "1"}})
        answer = self.until(lambda message: message.get("id") == 1)
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return answer

    def until(self, wanted: Any) -> dict[str, Any]:
        """The next message that is wanted; every line before it must be JSON too."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            while b"\n" in self.received:
                line, _, self.received = self.received.partition(b"\n")
                message = json.loads(line)
                if wanted(message):
                    return message
            if select.select([self.process.stdout], [], [], 1)[0]:
                chunk = os.read(self.process.stdout.fileno(), 65536)
                assert chunk, "the server closed its stdout"
                self.received += chunk
        raise TimeoutError

    def answer(self, number: int) -> dict[str, Any]:
        return self.until(lambda message: message.get("id") == number)

    def rest(self) -> list[dict[str, Any]]:
        """Everything up to the end of stdout, which must be JSON lines to the last byte."""
        self.received += self.process.stdout.read()
        assert self.received in (b"",) or self.received.endswith(b"\n")
        return [json.loads(line) for line in self.received.splitlines()]

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in calllog.read(self.log) if line["event"] == event]


def command(folder: Path, *arguments: str, program: list[str] = FAKE) -> list[str]:
    paths = ["--workspace", "workspace", "--state", "state", "--call-log", "log/calls.jsonl"]
    given = [str(folder / x) if not x.startswith("--") else x for x in paths]
    pins = ["--condition", "full", "--tpu", "v5e", "--workload", "8p_GEMM"]
    return [*program, *pins, *given, *arguments]


@contextmanager
def raw(folder: Path, *arguments: str, program: list[str] = FAKE, **variables: str) -> Iterator[Raw]:
    server = Raw(folder, *arguments, program=program, **variables)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        server.process.stdout.close()
        try:
            server.process.stdin.close()
        except BrokenPipeError:
            pass

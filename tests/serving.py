"""A server with the fake judge and a client connected to it in memory."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from fake_judge import FakeJudge
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, Implementation

from hawkeye_mcp.server import build_server
from hawkeye_mcp.submissions import App, Settings

ERAS = ("auto", "legacy")
FAIL_AFTER_S = 120  # ends a test that is broken; no slow machine comes near


def settings(folder: Path, **changed: Any) -> Settings:
    """Settings whose every path is inside `folder`: workspace, state and call log apart from each other."""
    (folder / "workspace").mkdir(exist_ok=True)
    given: dict[str, Any] = {
        "tpu": "v5e",
        "workload": "8p_GEMM",
        "workspace": folder / "workspace",
        "state": folder / "state",
        "call_log": folder / "log" / "calls.jsonl",
        "heartbeat_s": 0.01,
    }
    return Settings(**(given | changed))


def server(
    folder: Path, judge: FakeJudge, on_opened: Callable[[App], None] = lambda app: None, **changed: Any
) -> MCPServer[App]:
    return build_server(settings(folder, **changed), judge.open, on_opened=on_opened)


@asynccontextmanager
async def connected(
    folder: Path, judge: FakeJudge | None = None, mode: str = "auto", client_name: str = "mcp", **changed: Any
) -> AsyncIterator[Client]:
    info = Implementation(name=client_name, version="1")
    with anyio.fail_after(FAIL_AFTER_S):
        async with Client(server(folder, judge or FakeJudge(), **changed), mode=mode, client_info=info) as client:
            yield client


class Waiting:
    """A call in a task of its own; once `waits` is set its kernel is being judged and it waits for the verdict."""

    def __init__(self, client: Client, tool: str, arguments: dict[str, Any]) -> None:
        self.client, self.tool, self.arguments = client, tool, arguments
        self.waits = anyio.Event()
        self.result: CallToolResult | None = None

    async def _heartbeat(self, value: float, total: float | None, message: str | None) -> None:
        if message != "queued":
            self.waits.set()

    async def __call__(self) -> None:
        self.result = await self.client.call_tool(self.tool, self.arguments, progress_callback=self._heartbeat)


def data(result: CallToolResult) -> dict[str, Any]:
    """The answer of a tool that is not an error, after checking that both channels say the same."""
    assert not result.is_error, text(result)
    found = json.loads(text(result))
    assert found == result.structured_content
    return found


def text(result: CallToolResult) -> str:
    return result.content[0].text


def refusal(result: CallToolResult) -> str:
    """The text of an answer that must be an error."""
    assert result.is_error, text(result)
    assert "pydantic.dev" not in text(result)
    return text(result)

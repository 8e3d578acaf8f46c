"""An agent's connection to the MCP server: every call is told to the transcript, and long work is waited
for.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp import Client, MCPError
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, Implementation, TextContent, Tool

from hawkeye_bench.agents import AgentUnavailable, Emit, Task
from hawkeye_mcp import __version__
from hawkeye_mcp.tools.answering import LONGEST_WAIT_S

# By this name the server knows a client that it may keep waiting for LONGEST_WAIT_S.
CLIENT = Implementation(name="hawkeye-bench", version=__version__)
_CALL_TIMEOUT_S = 330.0


@dataclass(frozen=True)
class Answer:
    """A tool's answer: what the model reads, and the same as fields (empty for text-only tools)."""

    text: str
    is_error: bool = False
    fields: dict[str, Any] = field(default_factory=dict)


class Session:
    """The tools of one server, called by name."""

    def __init__(self, client: Client, tools: list[Tool], emit: Emit) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self._client = client
        self._emit = emit

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        """Call a tool; work that answers "running" is waited for through the `job` tool.

        Raises:
            AgentUnavailable: the server is gone or does not answer.
        """
        if "wait_s" in self.tools[name].input_schema.get("properties", {}) if name in self.tools else False:
            arguments = {"wait_s": LONGEST_WAIT_S} | arguments
        answer = await self._call_once(name, arguments)
        while answer.fields.get("status") == "running" and name != "job":
            wait = {"job_id": answer.fields["job_id"], "action": "wait", "wait_s": LONGEST_WAIT_S}
            answer = await self._call_once("job", wait)
        return answer

    async def _call_once(self, name: str, arguments: dict[str, Any]) -> Answer:
        self._emit("tool_call", {"tool": name, "arguments": arguments})
        try:
            result = await self._client.call_tool(name, arguments, read_timeout_seconds=_CALL_TIMEOUT_S)
        except MCPError as error:
            raise AgentUnavailable(f"the MCP server failed in {name}: {error}") from error
        assert isinstance(result, CallToolResult)
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        fields = result.structured_content if isinstance(result.structured_content, dict) else {}
        self._emit("tool_result", {"tool": name, "is_error": result.is_error, "text": text})
        return Answer(text=text, is_error=bool(result.is_error), fields=fields)


@asynccontextmanager
async def connect(task: Task, emit: Emit) -> AsyncIterator[Session]:
    """Start the task's server and connect to it; the server is gone when the block is left.

    Raises:
        AgentUnavailable: the server does not start or does not answer.
    """
    with task.server_log.open("a", encoding="utf-8") as log:
        try:
            client = Client(stdio_client(task.server, errlog=log), client_info=CLIENT)
            await client.__aenter__()
        except (OSError, MCPError) as error:
            raise AgentUnavailable(f"the MCP server did not start ({error}); see {task.server_log.name}") from error
        try:
            tools = (await client.list_tools()).tools
            emit("note", {"server": str(client.server_info), "tools": [tool.name for tool in tools]})
            yield Session(client, tools, emit)
        finally:
            await client.__aexit__(None, None, None)

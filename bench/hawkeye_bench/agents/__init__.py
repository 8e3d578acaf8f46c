"""Agents: who writes the kernels. Each is an MCP client of a server that it starts from the command it is
given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from mcp import StdioServerParameters

EventKind = Literal["note", "model", "tool_call", "tool_result"]
Emit = Callable[[EventKind, dict[str, Any]], None]

Stop = Literal["finished", "turn_limit", "unknown_family"]


class AgentFailed(RuntimeError):
    """The agent could not go on, for a reason of its own run; what it had submitted still counts."""


class AgentUnavailable(RuntimeError):
    """The agent could not work at all (no endpoint, no key, no server): the run says nothing and is to be
    repeated.
    """


@dataclass(frozen=True)
class Task:
    """What an agent gets for one run.

    workspace: an empty folder that it may fill; the server reads kernel files from it. server: how to start
    the MCP server. server_log: where that server's stderr goes. max_turns: model calls it may make.
    """

    workload: str
    tpu: str
    workspace: Path
    server: StdioServerParameters
    server_log: Path
    prompt: str
    max_turns: int


class Agent(Protocol):
    """One way to work on a task. `model` names what thinks, as shown in every result."""

    name: str
    model: str

    async def run(self, task: Task, emit: Emit) -> Stop:
        """Work until there is nothing left to do; cancelling the call stops the agent and its server.

        `emit` is told what happens, for the transcript: "model" events carry prompt_tokens and
        completion_tokens.

        Raises:
            AgentFailed, AgentUnavailable: see there.
        """
        ...

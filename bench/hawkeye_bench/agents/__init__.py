"""Agents: who writes the kernels. Each is an MCP client of a server that it starts from the command it is
given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from mcp import StdioServerParameters

from hawkeye_bench.budget import Budget

EventKind = Literal["note", "client", "model", "usage", "tool_call", "tool_result", "edit"]
Emit = Callable[[EventKind, dict[str, Any]], None]

Stop = Literal["finished", "turn_limit", "token_limit", "cost_limit", "unknown_family"]


class AgentFailed(RuntimeError):
    """The agent could not go on, for a reason of its own run; what it had submitted still counts."""


class AgentUnavailable(RuntimeError):
    """The agent could not work at all (endpoint away, no server): the run says nothing and is to be repeated."""


class AgentMisconfigured(AgentUnavailable):
    """It will not work the next time either (no client, a refused key): nothing is repeated until a person acts."""


@dataclass(frozen=True)
class Task:
    """What an agent gets for one run.

    workspace: an empty folder that it may fill; the server reads kernel files from it. home: an empty folder for
    the client's own settings and logs, which the model does not see. server: how to start the MCP server. server_log:
    where that server's stderr goes. budget: what it may spend; the driver watches over it and cancels the agent, and an
    agent hands it to a client that can watch by itself. condition and repeat: which run this is, for an agent that looks
    up a record of it; no model is ever shown them.
    """

    workload: str
    tpu: str
    workspace: Path
    home: Path
    server: StdioServerParameters
    server_log: Path
    prompt: str
    budget: Budget
    condition: str = "none"
    repeat: int = 1


class Agent(Protocol):
    """One way to work on a task. `model` names what thinks, as shown in every result.

    files: whether its client can write files in the workspace; if not, kernels are passed as text.
    """

    name: str
    model: str
    files: bool

    async def run(self, task: Task, emit: Emit) -> Stop:
        """Work until there is nothing left to do; cancelling the call stops the agent and its server.

        `emit` is told what happens as it happens, for the transcript and the budget, by kind:
        - "client", once, as soon as it is known: name, version, and command (the list of arguments, without secrets);
        - "model", for each model call: prompt_tokens, completion_tokens and cost_usd where the client says, and the
          message;
        - "usage": prompt_tokens, completion_tokens and cost_usd that no "model" event has told and none will, where a
          client tells them only as a total; it counts as no model call;
        - "tool_call" (tool, arguments) and "tool_result" (tool, is_error, text), for every tool of the client;
        - "edit" (path), when it has written a file of its workspace by a tool of its own;
        - "note", for anything else (text is also shown as progress).

        Raises:
            AgentFailed, AgentUnavailable, AgentMisconfigured: see there.
        """
        ...

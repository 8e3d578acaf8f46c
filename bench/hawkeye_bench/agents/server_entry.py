"""How a client of others is told to start a run's MCP server."""

from typing import Any

from mcp.client.stdio import get_default_environment

from hawkeye_bench.agents import Task

SERVER_NAME = "hawkeye"


def server_entry(task: Task) -> dict[str, Any]:
    """command, args and env as in the configuration of any MCP client.

    The server gets the environment that it has under the bench's own agents, whatever the client has, and its stderr
    goes to the run's log, which the client cannot be told.
    """
    return {
        "command": "/bin/sh",
        "args": ["-c", 'exec "$@" 2>>"$0"', str(task.server_log), task.server.command, *task.server.args],
        "env": get_default_environment() | (task.server.env or {}),
    }

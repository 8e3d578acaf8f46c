"""What each MCP client needs to register the server: one definition, rendered in that client's own format."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hawkeye_mcp import __version__, conditions
from hawkeye_mcp.chips import DEFAULT_TPU

NAME = "hawkeye"
COMMAND = "hawkeye-mcp"
DEFAULT_CONDITION = "full"  # what the server takes without --condition
CALL_LIMIT_S = 900  # one evaluation's own deadline; the server answers earlier, after wait_s
START_LIMIT_S = 60
_ABOUT = "Judge TPU Pallas kernels with the real TPU compiler, with no TPU."


class UnknownClient(ValueError):
    """No such client; the message names all of them."""


@dataclass(frozen=True)
class Client:
    """How one client is told of the server.

    title: its own name. goes_to: where its file belongs. files: (server arguments, condition) to file texts.
    command: server arguments to the shell line that registers it. limit: how long a call may last.
    """

    title: str
    goes_to: str
    files: Callable[[list[str], str], dict[str, str]]
    command: Callable[[list[str]], str]
    limit: str


def render(client: str, *, tpu: str = DEFAULT_TPU, condition: str = DEFAULT_CONDITION) -> dict[str, str]:
    """Path to text, for the folder agent_configs/<client>/.

    Raises:
        UnknownClient: naming the clients there are.
    """
    return _client(client).files(_arguments(tpu, condition), condition)


def command(client: str, *, tpu: str = DEFAULT_TPU, condition: str = DEFAULT_CONDITION) -> str:
    """The one shell line, run in the project's folder, that registers the server with the client.

    Raises:
        UnknownClient: naming the clients there are.
    """
    return _client(client).command(_arguments(tpu, condition))


def _client(name: str) -> Client:
    if name not in CLIENTS:
        raise UnknownClient(f"There is no client {name!r}. Clients: {', '.join(CLIENTS)}.")
    return CLIENTS[name]


def _arguments(tpu: str, condition: str) -> list[str]:
    chosen = ["--tpu", tpu]
    return chosen if condition == DEFAULT_CONDITION else [*chosen, "--condition", conditions.parse(condition)]


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _stdio(arguments: list[str]) -> dict[str, Any]:
    return {"type": "stdio", "command": COMMAND, "args": arguments}


def _claude_code(arguments: list[str], _: str) -> dict[str, str]:
    # alwaysLoad: without it the model must search for the tools before it can see them.
    server = _stdio(arguments) | {"env": {}, "timeout": CALL_LIMIT_S * 1000, "alwaysLoad": True}
    return {".mcp.json": _json({"mcpServers": {NAME: server}})}


def _claude_code_plugin(arguments: list[str], condition: str) -> dict[str, str]:
    # The folder is the plugin and the marketplace that offers it, so that it can be installed from where it lies.
    manifest = {
        "name": NAME,
        "version": __version__,
        "description": _ABOUT,
        "author": {"name": "hawkeye-mcp"},
        "license": "Apache-2.0",
        "keywords": ["tpu", "pallas", "jax", "kernels"],
    }
    marketplace = {
        "name": NAME,
        "description": _ABOUT,
        "owner": {"name": "hawkeye-mcp"},
        "plugins": [{"name": NAME, "source": "./", "description": _ABOUT}],
    }
    return {
        ".claude-plugin/plugin.json": _json(manifest),
        ".claude-plugin/marketplace.json": _json(marketplace),
        **_claude_code(arguments, condition),
        "README.md": f"""# Hawkeye

{_ABOUT} The plugin registers the MCP server `{COMMAND}` with Claude Code: its tools check that a kernel is correct, say
how long it takes on the chip and what bounds it.

The program itself does not come with the plugin: `{COMMAND}` must be on the PATH of Claude Code. `hawkeye doctor` says
whether everything that it needs is there. The plugin starts it with `{shlex.join(arguments)}`, and lets a call last
{CALL_LIMIT_S} s; `hawkeye install claude_code_plugin --help` says how to make the plugin for another chip.
""",
    }


def _codex(arguments: list[str], condition: str) -> dict[str, str]:
    # JSON strings and lists of strings are valid TOML.
    tools = json.dumps(conditions.tools(conditions.parse(condition)))
    return {
        "config.toml": f"""[mcp_servers.{NAME}]
command = {json.dumps(COMMAND)}
args = {json.dumps(arguments)}
startup_timeout_sec = {START_LIMIT_S}
# Progress does not extend this limit.
tool_timeout_sec = {CALL_LIMIT_S}
# Without it the first turn starts before the server is up and sees no tools.
required = true
# To offer only some of the tools, list them:
# enabled_tools = {tools}
"""
    }


def _openhands(arguments: list[str], _: str) -> dict[str, str]:
    server = {"command": COMMAND, "args": arguments}
    return {
        "mcp.json": _json({"mcpServers": {NAME: server}}),
        "agent.py": f'''"""OpenHands SDK: what to pass to Agent; no "mcpServers" around the servers here."""

MCP_CONFIG = {{
    {json.dumps(NAME)}: {{"command": {json.dumps(COMMAND)}, "args": {json.dumps(arguments)}}},
}}

# agent = Agent(llm=llm, tools=[...], mcp_config=MCP_CONFIG)
''',
    }


def _cursor(arguments: list[str], _: str) -> dict[str, str]:
    return {"mcp.json": _json({"mcpServers": {NAME: {"command": COMMAND, "args": arguments}}})}


def _vscode(arguments: list[str], _: str) -> dict[str, str]:
    return {"mcp.json": _json({"servers": {NAME: _stdio(arguments)}})}


def _gemini_cli(arguments: list[str], _: str) -> dict[str, str]:
    server = {"command": COMMAND, "args": arguments, "timeout": CALL_LIMIT_S * 1000}
    return {"settings.json": _json({"mcpServers": {NAME: server}})}


def _add(program: str) -> Callable[[list[str]], str]:
    return lambda arguments: f"{program} {NAME} -- {shlex.join([COMMAND, *arguments])}"


CLIENTS: dict[str, Client] = {
    "claude_code": Client(
        "Claude Code", ".mcp.json", _claude_code, _add("claude mcp add"), f"{CALL_LIMIT_S} s, set by the file"
    ),
    "claude_code_plugin": Client(
        "Claude Code (plugin)",
        "hawkeye-plugin/",
        _claude_code_plugin,
        lambda arguments: (
            f"hawkeye install claude_code_plugin {shlex.join(arguments)} --dir hawkeye-plugin"
            f" && claude plugin marketplace add ./hawkeye-plugin && claude plugin install {NAME}@{NAME}"
        ),
        f"{CALL_LIMIT_S} s, set by the file",
    ),
    "codex": Client(
        "Codex", "~/.codex/config.toml", _codex, _add("codex mcp add"), f"{CALL_LIMIT_S} s, set by the file"
    ),
    "openhands": Client(
        "OpenHands",
        "~/.openhands/mcp.json",
        _openhands,
        lambda arguments: f"openhands mcp add {NAME} --transport stdio {COMMAND} -- {shlex.join(arguments)}",
        "300 s, not configurable in the file",
    ),
    "cursor": Client(
        "Cursor",
        ".cursor/mcp.json",
        _cursor,
        lambda arguments: "mkdir -p .cursor && " + _printed(_cursor(arguments, "")["mcp.json"], ".cursor/mcp.json"),
        "about 300 s by users' reports, no setting",
    ),
    "vscode": Client(
        "VS Code",
        ".vscode/mcp.json",
        _vscode,
        lambda arguments: "code --add-mcp " + shlex.quote(json.dumps({"name": NAME} | _stdio(arguments))),
        "none, no setting",
    ),
    "gemini_cli": Client(
        "Gemini CLI",
        ".gemini/settings.json",
        _gemini_cli,
        # What follows -- are the server's arguments; the command itself stands before it.
        lambda arguments: f"gemini mcp add --timeout {CALL_LIMIT_S * 1000} {NAME} {COMMAND} -- {shlex.join(arguments)}",
        f"{CALL_LIMIT_S} s, set by the file",
    ),
}


def _printed(text: str, path: str) -> str:
    return f"printf '%s\\n' {shlex.quote(json.dumps(json.loads(text)))} > {path}"

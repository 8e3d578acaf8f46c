"""Claude Code, without a person: its file tools inside the workspace, the run's MCP server, and nothing else."""

import json
from pathlib import Path

import anyio

from hawkeye_bench.agents import Emit, Stop, Task, api_key, process
from hawkeye_bench.agents.api_key import ApiKey
from hawkeye_bench.agents.claude_events import FILE_TOOLS, Reading
from hawkeye_bench.agents.server_entry import SERVER_NAME, server_entry

_INSTALL = "Install Claude Code (npm install --global @anthropic-ai/claude-code), or name its program."
_STDERR = "claude.stderr"
_CALL_LIMIT_MS = 900_000
_START_LIMIT_MS = 60_000
_LAST_WORDS_S = 10.0

_SETTINGS = {
    # Without it the model must search for the server's tools before it sees them.
    "ENABLE_TOOL_SEARCH": "false",
    "MCP_TIMEOUT": str(_START_LIMIT_MS),
    "MCP_TOOL_TIMEOUT": str(_CALL_LIMIT_MS),
    # Else it tells the model the last commits and changes of a repository that the workspace happens to lie in.
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}


class ClaudeCode:
    """Runs `claude -p` for each run, with a home of its own, so no setting of a person has a part in it.

    base_url: an endpoint of Anthropic's Messages API, without /v1; empty for the client's own. api_key_env: name of the
    environment variable with the key, empty for an endpoint that wants none. program: name or path.

    --restricted keeps its file tools inside the workspace and its settings out of what lies above it; --tools leaves it
    no shell, no web and no other agents. Usage is told for each call of the model, dollars only as the client's total
    at the end: a client that is stopped is interrupted first, so that it tells them. They are unknown where the client
    has no price of the model.
    """

    name = "claude-code"
    files = True

    def __init__(self, model: str, base_url: str = "", api_key_env: str = "", program: str = "claude") -> None:
        self.model = model
        self._base_url = base_url.rstrip("/").removesuffix("/v1")
        self._api_key_env = api_key_env
        self._program = program

    async def run(self, task: Task, emit: Emit) -> Stop:
        key = api_key.read(self._api_key_env)
        command = self._command(task)
        stderr = task.home / _STDERR
        reading = Reading(emit, command, task.workspace)
        async with process.running(
            command,
            env=self._environment(task.home, key),
            cwd=task.workspace,
            stderr=stderr,
            install=_INSTALL,
            stdin=task.prompt,
        ) as program:
            try:
                async for line in program.lines():
                    reading.take(key.hide(line))
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                    program.interrupt()
                    async for line in program.lines():
                        reading.take(key.hide(line))
                raise
            code = await program.returncode()
        return reading.stop(code, key.hide(process.last_words(stderr)))

    def _command(self, task: Task) -> list[str]:
        """Its command line, which holds no secret; writes the file that it names. The prompt comes on its stdin."""
        # The client would hand its own key on to the server.
        entry = server_entry(task)
        entry["env"] |= {"ANTHROPIC_API_KEY": ""}
        server = {"type": "stdio", **entry, "timeout": _CALL_LIMIT_MS, "alwaysLoad": True}
        config = task.home / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {SERVER_NAME: server}}, indent=1), encoding="utf-8")
        limits = ["--max-turns", str(task.budget.turns)]
        if task.budget.cost_usd is not None:
            limits += ["--max-budget-usd", str(task.budget.cost_usd)]
        return [
            *(self._program, "--print", "--model", self.model, *limits),
            *("--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", f"mcp__{SERVER_NAME}"),
            *("--tools", ",".join(FILE_TOOLS), "--restricted", "--permission-mode", "acceptEdits"),
            *("--output-format", "stream-json", "--include-partial-messages", "--verbose", "--no-session-persistence"),
        ]

    def _environment(self, home: Path, key: ApiKey) -> dict[str, str]:
        # It does not start without a key, even for an endpoint that wants none.
        own = {**_SETTINGS, "ANTHROPIC_API_KEY": key.value or "none", "CLAUDE_CODE_TMPDIR": str(home)}
        if self._base_url:
            own["ANTHROPIC_BASE_URL"] = self._base_url
        return process.environment(home, **own)

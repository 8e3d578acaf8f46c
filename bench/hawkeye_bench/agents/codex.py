"""Codex, without a person: its tool that writes files, inside the workspace, and the run's MCP server."""

import json
from pathlib import Path

from hawkeye_bench.agents import Emit, Stop, Task, api_key, codex_models, process
from hawkeye_bench.agents.codex_events import Reading
from hawkeye_bench.agents.server_entry import SERVER_NAME, server_entry

_INSTALL = "Install Codex (npm install --global @openai/codex), or name its program."
_STDERR = "codex.stderr"
_CALL_LIMIT_S = 900
_START_LIMIT_S = 60

_SETTINGS = """\
approval_policy = "never"
sandbox_mode = "workspace-write"
web_search = "disabled"
check_for_update_on_startup = false
# Instructions above the workspace are not for this agent.
project_doc_max_bytes = 0
project_root_markers = []
analytics.enabled = false
# No other agents.
agents.enabled = false

[sandbox_workspace_write]
network_access = false
exclude_slash_tmp = true
exclude_tmpdir_env_var = true

[skills]
bundled.enabled = false

[features]
apps = false
browser_use = false
computer_use = false
goals = false
image_generation = false
plugins = false
shell_tool = false
skill_search = false
tool_suggest = false
unbounded_connection_retries = false
view_image = false
"""


class Codex:
    """Runs `codex exec` for each run, with a home of its own, so no setting of a person has a part in it.

    base_url: an endpoint of OpenAI's Responses API, with /v1; empty for the client's own. api_key_env: name of the
    environment variable with the key, empty for an endpoint that wants none. program: name or path.

    Without its shell it writes files by apply_patch, in its sandbox; which tools a model has is told by a catalog made
    from the client's own. It has no limit of turns and tells on its stdout neither how often it called the model nor,
    before the end, how many tokens that took: both are read from the session log that it keeps in its home, which has
    a record for each answer of the model. Codex knows no prices, so dollars are unknown.
    """

    name = "codex"
    files = True

    def __init__(self, model: str, base_url: str = "", api_key_env: str = "", program: str = "codex") -> None:
        self.model = model
        self._base_url = base_url.rstrip("/")
        self._api_key_env = api_key_env
        self._program = program

    async def run(self, task: Task, emit: Emit) -> Stop:
        key = api_key.read(self._api_key_env)
        home = task.home / ".codex"
        home.mkdir(exist_ok=True)
        own = {self._key_variable: key.value} if key.value else {}
        # Its sandbox needs helpers in its home, which it refuses to make below the folder for temporary files.
        temporary = task.home / "tmp"
        temporary.mkdir(exist_ok=True)
        env = process.environment(task.home, **own, TMPDIR=str(temporary))
        stderr = task.home / _STDERR
        told = await process.output(
            [self._program, "--version"], env=env, cwd=task.workspace, stderr=stderr, install=_INSTALL
        )
        models = await process.output(
            [self._program, "debug", "models", "--bundled"],
            env=env,
            cwd=task.workspace,
            stderr=stderr,
            install=_INSTALL,
        )
        catalog = home / "models.json"
        catalog.write_text(codex_models.catalog(models, self.model), encoding="utf-8")
        (home / "config.toml").write_text(self._settings(task, catalog), encoding="utf-8")
        # The prompt comes on its stdin.
        command = [self._program, "exec", "--json", "--strict-config", "--skip-git-repo-check", "--color", "never", "-"]
        emit("client", {"name": "Codex", "version": told.split()[-1], "command": command})
        reading = Reading(emit, home / "sessions", task.workspace, key.hide)
        async with process.running(
            command, env=env, cwd=task.workspace, stderr=stderr, install=_INSTALL, stdin=task.prompt
        ) as program:
            async for line in program.lines():
                reading.take(key.hide(line))
            code = await program.returncode()
        return reading.stop(code, key.hide(process.last_words(stderr)))

    @property
    def _key_variable(self) -> str:
        # At the client's own endpoint it is the client that chooses the name.
        return self._api_key_env if self._base_url else "CODEX_API_KEY"

    def _settings(self, task: Task, catalog: Path) -> str:
        """Its config.toml. JSON strings and lists of strings are valid TOML."""
        entry = server_entry(task)
        provider = ""
        if self._base_url:
            provider = (
                '\n[model_providers.endpoint]\nname = "endpoint"\nwire_api = "responses"\n'
                f"base_url = {json.dumps(self._base_url)}\n"
            )
            if self._api_key_env:
                provider += f"env_key = {json.dumps(self._api_key_env)}\n"
        head = f"model = {json.dumps(self.model)}\nmodel_catalog_json = {json.dumps(str(catalog))}\n"
        if provider:
            head += 'model_provider = "endpoint"\n'
        server = (
            f"\n[mcp_servers.{SERVER_NAME}]\ncommand = {json.dumps(entry['command'])}\nargs = {json.dumps(entry['args'])}\n"
            f"startup_timeout_sec = {_START_LIMIT_S}\ntool_timeout_sec = {_CALL_LIMIT_S}\n"
            "# Without it the first turn starts before the server is up and sees no tools.\nrequired = true\n"
            f"\n[mcp_servers.{SERVER_NAME}.env]\n"
        )
        server += "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in entry["env"].items())
        return head + _SETTINGS + provider + server

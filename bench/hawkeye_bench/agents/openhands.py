"""The OpenHands agent, by its SDK, in an interpreter of its own: it needs Python 3.12 and an older MCP library.
Written for openhands-sdk 1.58.
"""

import json

from hawkeye_bench.agents import Emit, Stop, Task, api_key, event_lines, openhands_runner, process
from hawkeye_bench.agents.server_entry import server_entry

INSTALL = (
    "Name an interpreter of Python 3.12 or newer that has OpenHands: python3.12 -m venv FOLDER && "
    "FOLDER/bin/pip install openhands-sdk openhands-tools, then FOLDER/bin/python."
)
_STDERR = "openhands.stderr"
# Prices come with the library instead of being fetched, and nothing but errors is of interest on stderr.
_QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1"}


class OpenHands:
    """Starts the SDK with our server's tools, its own editor kept inside the workspace, and no terminal.

    model: as litellm names it, for example openai/NAME for an OpenAI-compatible endpoint at base_url; base_url empty
    for the provider's own. api_key_env: the environment variable that holds the key, empty for none. program: an
    interpreter that has openhands-sdk and openhands-tools.
    """

    name = "openhands"
    files = True

    def __init__(self, model: str, base_url: str, api_key_env: str, program: str) -> None:
        self.model = model
        self._base_url = base_url
        self._api_key_env = api_key_env
        self._program = program

    async def run(self, task: Task, emit: Emit) -> Stop:
        """Raises:
        AgentFailed: OpenHands gave up, or its model refused a later request.
        AgentUnavailable: the endpoint or the MCP server is away.
        AgentMisconfigured: no such interpreter or no OpenHands in it, or the key is missing or refused.
        """
        key = api_key.read(self._api_key_env)
        own = {key.variable: key.value} if key.variable else {}
        written = task.home / "task.json"
        written.write_text(json.dumps(self._told(task), indent=1), encoding="utf-8")
        command = [self._program, "-I", openhands_runner.__file__, str(written)]
        stderr = task.home / _STDERR
        running = process.running(
            command,
            # Its editor leaves a history of every file in the temporary folder.
            env=process.environment(task.home, **_QUIET, TMPDIR=str(task.home), **own),
            cwd=task.workspace,
            stderr=stderr,
            install=INSTALL,
        )
        async with running as program:
            return await event_lines.followed(program, emit, command, stderr, key.hide)

    def _told(self, task: Task) -> dict[str, object]:
        """What `openhands_runner` reads."""
        return {
            "workspace": str(task.workspace.resolve()),
            "prompt": task.prompt,
            "server": server_entry(task),
            "model": self.model,
            "base_url": self._base_url,
            "api_key_env": self._api_key_env,
            "turns": task.budget.turns,
        }

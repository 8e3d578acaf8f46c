"""Any program that speaks MCP, started from a template of its command line."""

import json
import os
import shlex
import string
from pathlib import Path

from hawkeye_bench.agents import Emit, Stop, Task, event_lines, process
from hawkeye_bench.agents.server_entry import SERVER_NAME, server_entry

PLACEHOLDERS = {
    "workspace": "its current folder, empty, where it may write kernels",
    "prompt_file": "a file with the task",
    "prompt": "the task itself",
    "mcp_config": 'a JSON file with the server to start: {"mcpServers": {"hawkeye": {"command": ...}}}',
    "workload": "the workload's name",
    "tpu": "the chip",
    "model": "the model's name, as it was given",
    "turns": "how many model calls are allowed",
    "minutes": "how many minutes are allowed",
}
_STDERR = "command.stderr"
# Shorter values are words that may stand anywhere.
_SHORTEST_SECRET = 8


class BadTemplate(ValueError):
    """The template is no command line; the message says why and what to write."""


class CommandAgent:
    """Starts one program for each run, in the workspace and without a shell; see `event_lines` for what it may tell.

    template: split like a shell command, then each part's {placeholders} are filled in, so that a value with spaces
    stays one argument. Nothing confines the program: one whose model has a shell or reads files anywhere can find its
    condition (in the settings of the server and in the name of its home) and other runs, so give it no such tools, or a
    container that shows it nothing but its workspace and its home. model: what thinks, as shown in results; by default the program's name. pass_env: names of the
    environment variables that the program gets besides those that every program gets; their values are replaced by
    their names in everything that is kept.

    Raises:
        BadTemplate: see there.
    """

    name = "command"
    files = True

    def __init__(self, template: str, model: str = "", pass_env: tuple[str, ...] = ()) -> None:
        self._words = _words(template)
        if not model and any("model" in _placeholders(word) for word in self._words):
            raise BadTemplate("the command asks for {model}, and no model is named: name one, or leave {model} out.")
        self.model = model or Path(self._words[0]).name
        self._pass_env = pass_env

    async def run(self, task: Task, emit: Emit) -> Stop:
        """Raises:
        AgentFailed, AgentUnavailable, AgentMisconfigured: as its exit code says (`event_lines`).
        """
        passed = {name: os.environ[name] for name in self._pass_env if name in os.environ}

        def hide(text: str) -> str:
            for name, value in passed.items():
                if len(value) >= _SHORTEST_SECRET:
                    text = text.replace(value, f"[{name}]")
            return text

        command = self._command(task)
        shown = [hide(word) for word in command]
        emit("client", {"name": Path(command[0]).name, "version": "", "command": shown})
        running = process.running(
            command,
            env=process.environment(task.home, **passed),
            cwd=task.workspace,
            stderr=task.home / _STDERR,
            install="Install it, or give its full path in the command.",
        )
        async with running as program:
            return await event_lines.followed(program, emit, shown, task.home / _STDERR, hide)

    def _command(self, task: Task) -> list[str]:
        """The command line of one run; writes the files that it names."""
        prompt_file, mcp_config = task.home / "prompt.md", task.home / "mcp.json"
        prompt_file.write_text(task.prompt, encoding="utf-8")
        servers = {"mcpServers": {SERVER_NAME: {"type": "stdio", **server_entry(task)}}}
        mcp_config.write_text(json.dumps(servers, indent=1), encoding="utf-8")
        values = {
            "workspace": task.workspace,
            "prompt_file": prompt_file,
            "prompt": task.prompt,
            "mcp_config": mcp_config,
            "workload": task.workload,
            "tpu": task.tpu,
            "model": self.model,
            "turns": task.budget.turns,
            "minutes": f"{task.budget.minutes:g}",
        }
        return [word.format_map(values) for word in self._words]


def _words(template: str) -> list[str]:
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise BadTemplate(f"the command cannot be split into words ({error}): {template}") from None
    if not words:
        raise BadTemplate("the command is empty: give a program and its arguments.")
    for word in words:
        for name in _placeholders(word):
            if name not in PLACEHOLDERS:
                legal = "; ".join(f"{{{known}}} {meaning}" for known, meaning in PLACEHOLDERS.items())
                raise BadTemplate(
                    f"the command has {{{name}}}, which no run knows. Known are: {legal}. A brace that stands for "
                    "itself is written twice."
                )
    return words


def _placeholders(word: str) -> list[str]:
    """The names in braces.

    Raises:
        BadTemplate: a brace is open, or holds more than a name.
    """
    try:
        parts = list(string.Formatter().parse(word))
    except ValueError as error:
        raise BadTemplate(f"{word}: {error}. A brace that stands for itself is written twice.") from None
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise BadTemplate(f"{word}: only a name may stand in braces.")
    return [name for _, name, _, _ in parts if name is not None]

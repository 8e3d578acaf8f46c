"""What Codex tells of a run: its tools and its end on stdout (`codex exec --json`), its calls of the model in the session
log that it keeps. Both are one JSON object a line.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from hawkeye_bench.agents import AgentFailed, AgentMisconfigured, AgentUnavailable, Emit, Stop
from hawkeye_bench.agents.server_entry import SERVER_NAME

_NOTE_CHARACTERS = 2_000
# Items that are no tools; what is none of these and no tool that the run has is a tool that it must not have.
_HARMLESS = frozenset({"agent_message", "reasoning", "todo_list", "error"})


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Usage(_Part):
    """Tokens; the cached ones are among those of the prompt."""

    input_tokens: int = 0
    output_tokens: int = 0


class _Change(_Part):
    path: str
    kind: str = ""


class _Error(_Part):
    message: str = ""


class _ToolResult(_Part):
    content: list[dict[str, Any]] = []
    structured_content: Any = None


class _Item(_Part):
    id: str = ""
    type: str = ""
    status: str | None = None
    # mcp_tool_call
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: _ToolResult | None = None
    error: _Error | None = None
    # file_change
    changes: list[_Change] = []
    # error
    message: str = ""


class _Event(_Part):
    """A line of stdout; which fields it has depends on its type."""

    type: str
    thread_id: str = ""
    item: _Item = _Item()
    usage: _Usage | None = None
    error: _Error | None = None
    message: str = ""


class _Payload(_Part):
    type: str = ""
    role: str = ""
    content: list[dict[str, Any]] | None = None
    usage: _Usage | None = None


class _Record(_Part):
    """A line of the session log."""

    type: str
    payload: _Payload = _Payload()


class Reading:
    """Turns what is told of one run into events.

    sessions: the folder of the client's session logs. workspace: where edits are told from. hide: takes the key out of
    a text.
    """

    def __init__(self, emit: Emit, sessions: Path, workspace: Path, hide: Callable[[str], str]) -> None:
        self._emit = emit
        self._sessions = sessions
        self._workspace = workspace
        self._hide = hide
        self._thread = ""
        self._read_bytes = 0
        self._said: list[dict[str, Any]] = []
        self._calls = 0
        self._told = _Usage()
        self._open: set[str] = set()
        self._end: _Event | None = None

    def take(self, line: str) -> None:
        """Read the next line of stdout, and what the session log has gained; one that cannot be read is noted.

        Raises:
            AgentMisconfigured: the client has tools that it is not to have, or keeps no log that can be read here.
        """
        if not line.strip():
            return
        try:
            event = _Event.model_validate_json(line)
        except ValidationError:
            self._emit("note", {"unreadable": line[:_NOTE_CHARACTERS]})
            return
        self._follow()
        if event.type == "thread.started":
            self._thread = event.thread_id
        elif event.type in ("item.started", "item.completed"):
            self._item(event.item, completed=event.type == "item.completed")
        elif event.type == "error":
            self._emit("note", {"text": event.message})
        elif event.type in ("turn.completed", "turn.failed"):
            self._end = event
            if event.usage:
                self._total(event.usage)

    def stop(self, code: int, said: str) -> Stop:
        """How the run ended, once the client has ended with this code. said: its last words on stderr.

        Raises:
            AgentFailed, AgentUnavailable, AgentMisconfigured: see there.
        """
        if self._end is None:
            raise self._never_worked(code, said)
        if self._end.type == "turn.completed":
            return "finished"
        raise self._refused(self._end.error.message if self._end.error else "it does not say why")

    def _never_worked(self, code: int, said: str) -> Exception:
        if "MCP server" in said:
            return AgentUnavailable(f"Codex has no connection to the MCP server; see server.log. It says: {said}")
        if code == 1 and not self._thread:
            return AgentMisconfigured(f"Codex does not start with the settings of a run: {said}")
        return AgentUnavailable(f"Codex ended with code {code} in the middle: {said or 'it said nothing on stderr'}")

    def _refused(self, why: str) -> Exception:
        status = re.search(r"status:? (\d{3})", why)
        if status and status[1] in ("401", "403"):
            return AgentMisconfigured(f"The model endpoint refuses the key: {why}. Set another one.")
        if status and status[1] == "404":
            return AgentMisconfigured(f"The model endpoint knows no such model: {why}. Name another one.")
        # A request that is found wrong is told in the endpoint's own words.
        refused = why.startswith("{") or "context window" in why
        if refused and not self._calls:
            return AgentMisconfigured(f"The model endpoint refuses what Codex asks: {why}")
        if refused:
            return AgentFailed(f"Codex could not go on: {why}")
        return AgentUnavailable(f"Codex could not reach the model: {why}")

    def _item(self, item: _Item, *, completed: bool) -> None:
        if item.type == "error":
            self._emit("note", {"text": item.message})
        if item.type in _HARMLESS:
            return
        if item.type == "file_change":
            tool, arguments = "apply_patch", {"changes": [change.model_dump() for change in item.changes]}
        elif item.type == "mcp_tool_call" and item.server == SERVER_NAME:
            tool, arguments = item.tool, item.arguments
        elif item.type == "mcp_tool_call" and item.server == "codex":
            # Its own tools that list and read the resources of servers.
            tool, arguments = item.tool, item.arguments
        else:
            raise AgentMisconfigured(
                f"Codex used a tool that no run has ({item.type} {item.tool}), so this run would not be comparable; "
                "take another version."
            )
        if item.id not in self._open:
            self._open.add(item.id)
            self._emit("tool_call", {"tool": tool, "arguments": arguments})
        if not completed:
            return
        failed = item.status != "completed" or item.error is not None
        if item.type == "file_change" and failed:
            # A patch that is wrong, or for a file elsewhere, is refused before it becomes an item.
            raise AgentMisconfigured(
                "Codex could not write in the workspace, so its sandbox does not work on this machine; see codex.stderr."
            )
        self._emit("tool_result", {"tool": tool, "is_error": failed, "text": _text(item)})
        if item.type == "file_change":
            for change in item.changes:
                self._emit("edit", {"path": self._relative(change.path)})

    def _follow(self) -> None:
        """Tell of the calls of the model that the session log has gained. It is written before stdout tells of what
        the model said.
        """
        path = next(self._sessions.glob(f"*/*/*/*{self._thread}.jsonl"), None) if self._thread else None
        if path is None:
            return
        with path.open("rb") as stream:
            stream.seek(self._read_bytes)
            whole, _, _ = stream.read().rpartition(b"\n")
        self._read_bytes += len(whole) + bool(whole)
        for line in whole.decode("utf-8", "replace").split("\n"):
            try:
                record = _Record.model_validate_json(self._hide(line))
            except ValidationError:
                continue
            self._record(record)

    def _record(self, record: _Record) -> None:
        payload = record.payload
        if record.type == "response_item" and payload.type == "message" and payload.role == "assistant":
            self._said += payload.content or []
        if record.type != "token_usage_record" or payload.usage is None:
            return
        self._calls += 1
        tokens = {"prompt_tokens": payload.usage.input_tokens, "completion_tokens": payload.usage.output_tokens}
        self._told = _Usage(
            input_tokens=self._told.input_tokens + payload.usage.input_tokens,
            output_tokens=self._told.output_tokens + payload.usage.output_tokens,
        )
        self._emit("model", {**tokens, "message": {"role": "assistant", "content": self._said}})
        self._said = []

    def _total(self, usage: _Usage) -> None:
        """Tell what the records of single calls have not told.

        Raises:
            AgentMisconfigured: there were none.
        """
        if not self._calls:
            raise AgentMisconfigured(
                "The session log of this version of Codex tells no calls of the model, so its turns cannot be counted; "
                "take another version."
            )
        more = {
            "prompt_tokens": usage.input_tokens - self._told.input_tokens,
            "completion_tokens": usage.output_tokens - self._told.output_tokens,
        }
        if told := {name: count for name, count in more.items() if count > 0}:
            self._emit("usage", told)

    def _relative(self, path: str) -> str:
        found = self._workspace / path
        return str(found.relative_to(self._workspace)) if found.is_relative_to(self._workspace) else path


def _text(item: _Item) -> str:
    """All that a person can read of a result."""
    if item.error:
        return item.error.message
    if not item.result:
        return ""
    return "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in item.result.content)

"""What Claude Code tells of a run on its stdout, one JSON object a line (--output-format stream-json)."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hawkeye_bench.agents import AgentFailed, AgentMisconfigured, AgentUnavailable, Emit, Stop
from hawkeye_bench.agents.server_entry import SERVER_NAME

FILE_TOOLS = ("Edit", "Glob", "Grep", "Read", "Write")
_EDITS = frozenset({"Edit", "Write"})
_PREFIX = f"mcp__{SERVER_NAME}__"
_NOTE_CHARACTERS = 2_000
# By this name of a model the client marks a message that it has written itself.
_OWN_WORDS = "<synthetic>"
_REFUSED = (401, 403)


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Usage(_Part):
    """Tokens; those of the prompt are told in three parts, by how the cache took part in them."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def prompt_tokens(self) -> int | None:
        parts = (self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens)
        told = [part for part in parts if part is not None]
        return sum(told) if told else None


class _Message(_Part):
    id: str = ""
    model: str = ""
    content: list[dict[str, Any]] | str = []
    usage: _Usage = _Usage()

    @property
    def blocks(self) -> list[dict[str, Any]]:
        return self.content if isinstance(self.content, list) else [{"type": "text", "text": self.content}]


class _Piece(_Part):
    """A piece of an answer of the endpoint, as it streams."""

    type: str
    message: _Message = _Message()
    usage: _Usage = _Usage()


class _Server(_Part):
    name: str
    status: str


class _ModelUsage(_Part):
    basis: str | None = Field(None, alias="costBasis")


class _Denial(_Part):
    tool_name: str
    tool_input: dict[str, Any] = {}


class _Event(_Part):
    """A line; which fields it has depends on its type."""

    type: str
    subtype: str = ""
    # system, init
    tools: list[str] = []
    mcp_servers: list[_Server] = []
    claude_code_version: str = ""
    # system, api_retry
    error: str | None = None
    error_status: int | None = None
    # assistant, user
    message: _Message = _Message()
    # stream_event
    event: _Piece | None = None
    # result
    is_error: bool = False
    api_error_status: int | None = None
    result: str | None = None
    errors: list[str] = []
    usage: _Usage = _Usage()
    total_cost_usd: float | None = None
    models: dict[str, _ModelUsage] = Field({}, alias="modelUsage")
    permission_denials: list[_Denial] = []


class _Call:
    """One call of the model, while it is being told."""

    def __init__(self, message: _Message) -> None:
        self.id = message.id
        self.blocks: list[dict[str, Any]] = []
        self.prompt_tokens = message.usage.prompt_tokens
        self.completion_tokens = message.usage.output_tokens

    def note(self, usage: _Usage) -> None:
        """The last usage that is told of a call is the whole of it."""
        if usage.prompt_tokens:
            self.prompt_tokens = usage.prompt_tokens
        if usage.output_tokens is not None:
            self.completion_tokens = usage.output_tokens


class Reading:
    """Turns the lines of one run into events.

    command: as it is to be recorded. workspace: where edits are told from.
    """

    def __init__(self, emit: Emit, command: list[str], workspace: Path) -> None:
        self._emit = emit
        self._command = command
        self._workspace = workspace
        self._call: _Call | None = None
        self._begun = False
        self._calls = 0
        self._tools: dict[str, tuple[str, dict[str, Any]]] = {}
        self._told = {"prompt_tokens": 0, "completion_tokens": 0}
        self._result: _Event | None = None

    def take(self, line: str) -> None:
        """Read the next line; one that cannot be read is noted.

        Raises:
            AgentMisconfigured: the client has not the tools that it is to have.
        """
        if not line.strip():
            return
        try:
            event = _Event.model_validate_json(line)
        except ValidationError:
            self._emit("note", {"unreadable": line[:_NOTE_CHARACTERS]})
            return
        if event.type == "system" and event.subtype == "init":
            self._begin(event)
        elif event.type == "system" and event.subtype == "api_retry":
            self._asked_again(event)
        elif event.type == "stream_event" and event.event:
            self._piece(event.event)
        elif event.type == "assistant":
            self._said(event.message)
        elif event.type == "user":
            self._answered(event.message)
        elif event.type == "result":
            self._end(event)

    def stop(self, code: int, said: str) -> Stop:
        """How the run ended, once the client has ended with this code. said: its last words on stderr.

        Raises:
            AgentFailed, AgentUnavailable, AgentMisconfigured: see there.
        """
        result = self._result
        if result is None:
            raise self._never_worked(code, said)
        if denied := [denial for denial in result.permission_denials if self._was_to_be_allowed(denial)]:
            names = ", ".join(sorted({denial.tool_name for denial in denied}))
            raise AgentMisconfigured(
                f"Claude Code denied what the agent is allowed ({names}), so this run says nothing. See whether a "
                "managed setting of this machine forbids it."
            )
        if not result.is_error:
            return "finished"
        if result.subtype == "error_max_turns":
            return "turn_limit"
        if result.subtype == "error_max_budget_usd":
            return "cost_limit"
        raise self._error(result)

    def _never_worked(self, code: int, said: str) -> Exception:
        if code == 1 and not self._begun:
            return AgentMisconfigured(f"Claude Code does not start with the options of a run: {said}")
        return AgentUnavailable(
            f"Claude Code ended with code {code} in the middle: {said or 'it said nothing on stderr'}"
        )

    def _error(self, result: _Event) -> Exception:
        status = result.api_error_status
        why = result.result or "; ".join(result.errors) or result.subtype
        if status in _REFUSED:
            return _key_refused(why)
        if status == 404:
            return AgentMisconfigured(f"The model endpoint knows no such model: {why}. Name another one.")
        if status == 400 and not self._calls:
            return AgentMisconfigured(f"The model endpoint refuses what Claude Code asks: {why}")
        if status == 400 or result.subtype == "error_during_execution":
            return AgentFailed(f"Claude Code could not go on: {why}")
        return AgentUnavailable(f"Claude Code could not reach the model: {why}")

    def _begin(self, event: _Event) -> None:
        self._begun = True
        self._emit(
            "client", {"name": "Claude Code", "version": event.claude_code_version, "command": list(self._command)}
        )
        status = {server.name: server.status for server in event.mcp_servers}
        self._emit("note", {"tools": event.tools, "servers": status})
        if status.get(SERVER_NAME) != "connected":
            raise AgentUnavailable(
                f"Claude Code has no connection to the MCP server (status: {status.get(SERVER_NAME, 'none')}); see "
                "server.log."
            )
        own = {tool for tool in event.tools if not tool.startswith(_PREFIX)}
        if len(status) > 1 or own != set(FILE_TOOLS) or len(own) == len(event.tools):
            raise AgentMisconfigured(
                f"Claude Code {event.claude_code_version} has other tools than {', '.join(FILE_TOOLS)} and those of "
                f"the server: {', '.join(event.tools)}. A run with them would not be comparable; take another version."
            )

    def _asked_again(self, event: _Event) -> None:
        why = f"{event.error} (status {event.error_status})"
        self._emit("note", {"text": f"the model endpoint is asked again: {why}"})
        # The client would go on for minutes, and longer with each of our own repeats.
        if event.error_status in _REFUSED and not self._calls:
            raise _key_refused(why)

    def _piece(self, piece: _Piece) -> None:
        if piece.type == "message_start":
            self._flush()
            self._call = _Call(piece.message)
        elif piece.type == "message_delta" and self._call:
            self._call.note(piece.usage)
        elif piece.type == "message_stop":
            self._flush()

    def _said(self, message: _Message) -> None:
        """Some of the blocks of a message; those of one message come in several lines."""
        if message.model == _OWN_WORDS:
            self._emit("note", {"text": _text(message.blocks)})
            return
        if self._call is None or self._call.id != message.id:
            self._flush()
            self._call = _Call(message)
        self._call.blocks += message.blocks

    def _flush(self) -> None:
        """Tell of the call of the model that is complete, and then of the tools that it calls."""
        call, self._call = self._call, None
        if call is None:
            return
        self._calls += 1
        tokens = {"prompt_tokens": call.prompt_tokens, "completion_tokens": call.completion_tokens}
        for name, count in tokens.items():
            self._told[name] += count or 0
        self._emit("model", {**tokens, "message": {"role": "assistant", "content": call.blocks}})
        for block in call.blocks:
            if block.get("type") == "tool_use":
                tool, arguments = str(block.get("name")).removeprefix(_PREFIX), block.get("input")
                self._tools[str(block.get("id"))] = tool, arguments if isinstance(arguments, dict) else {}
                self._emit("tool_call", {"tool": tool, "arguments": arguments})

    def _answered(self, message: _Message) -> None:
        self._flush()
        for block in message.blocks:
            if block.get("type") != "tool_result":
                continue
            tool, arguments = self._tools.pop(str(block.get("tool_use_id")), ("", {}))
            is_error = bool(block.get("is_error"))
            self._emit("tool_result", {"tool": tool, "is_error": is_error, "text": _text(block.get("content"))})
            if tool in _EDITS and not is_error:
                self._emit("edit", {"path": self._relative(str(arguments.get("file_path", "")))})

    def _end(self, result: _Event) -> None:
        """Tell what no call of the model has told: the dollars, and the tokens of calls that the client keeps to
        itself.
        """
        self._flush()
        self._result = result
        for denial in result.permission_denials:
            self._emit("note", {"denied": denial.tool_name, "arguments": denial.tool_input})
        more: dict[str, Any] = {}
        totals = {"prompt_tokens": result.usage.prompt_tokens, "completion_tokens": result.usage.output_tokens}
        for name, total in totals.items():
            if total is not None and total > self._told[name]:
                more[name] = total - self._told[name]
        # The client invents a price for a model that it does not know.
        if result.models and all(model.basis != "unknown" for model in result.models.values()):
            more["cost_usd"] = result.total_cost_usd
        if more:
            self._emit("usage", more)

    def _was_to_be_allowed(self, denial: _Denial) -> bool:
        """Whether it is one of the server's tools, or a file of the workspace; anything else is rightly denied."""
        if denial.tool_name.startswith(_PREFIX):
            return True
        path = denial.tool_input.get("file_path") or denial.tool_input.get("path")
        if denial.tool_name not in FILE_TOOLS or not isinstance(path, str):
            return False
        with suppress(OSError, ValueError):
            # Hidden files may be settings of the client, which it guards.
            inside = (self._workspace / path).resolve().relative_to(self._workspace.resolve())
            return not any(part.startswith(".") for part in inside.parts)
        return False

    def _relative(self, path: str) -> str:
        found = self._workspace / path
        return str(found.relative_to(self._workspace)) if found.is_relative_to(self._workspace) else path


def _key_refused(why: str) -> AgentMisconfigured:
    return AgentMisconfigured(f"The model endpoint refuses the key: {why}. Set another one.")


def _text(content: Any) -> str:
    """All that a person can read of a message's or a result's content."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(
        str(block["text"]) if "text" in block else f"[{block.get('type')}]"
        for block in blocks
        if isinstance(block, dict)
    )

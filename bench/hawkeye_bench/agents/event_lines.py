"""What a program says of itself: one JSON object a line on its stdout, by `kind`; any other line is a note.

    {"kind": "client", "name": "my-agent", "version": "1.2"}
    {"kind": "model", "prompt_tokens": 812, "completion_tokens": 90, "cost_usd": 0.004, "message": ...}
    {"kind": "usage", "prompt_tokens": 9000, "completion_tokens": 400, "cost_usd": 0.1}
    {"kind": "tool_call", "tool": "evaluate_kernel", "arguments": {"path": "kernel.py"}}
    {"kind": "tool_result", "tool": "evaluate_kernel", "is_error": false, "text": "..."}
    {"kind": "edit", "path": "kernel.py"}
    {"kind": "note", "text": "..."}
    {"kind": "stop", "reason": "finished"}

One "model" line for each model call and one "edit" line for each file written count against the budget; what the
server is asked need not be told, its call log counts. Tokens, cost and message may be missing; a "usage" line adds those
that no "model" line has told, for a program that knows only a total. The reason of a stop is finished, turn_limit,
token_limit or cost_limit.

The exit code says how it ended: 0 as the stop says, by default finished; 75 for lack of something that may come back
(then the run is repeated later); 78, 126 and 127 for what a person must mend; any other for the agent's own failure.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hawkeye_bench.agents import AgentFailed, AgentMisconfigured, AgentUnavailable, Emit, Stop
from hawkeye_bench.agents.process import Program

# As in sysexits.h, and what a shell answers where it cannot start a program.
TEMPORARY, CONFIGURATION, CANNOT_START, NOT_FOUND = 75, 78, 126, 127

_NOTE_CHARACTERS = 2_000

Tokens = Annotated[int, Field(strict=True, ge=0, le=10**12)]
Dollars = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ClientLine(_Line):
    kind: Literal["client"]
    name: str
    version: str


class _Used(_Line):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    cost_usd: Dollars | None = None


class ModelLine(_Used):
    kind: Literal["model"]
    message: Any = None


class UsageLine(_Used):
    kind: Literal["usage"]


class ToolCallLine(_Line):
    kind: Literal["tool_call"]
    tool: str
    arguments: dict[str, Any] = {}


class ToolResultLine(_Line):
    kind: Literal["tool_result"]
    tool: str
    is_error: bool = False
    text: str = ""


class EditLine(_Line):
    kind: Literal["edit"]
    path: str


class NoteLine(_Line):
    kind: Literal["note"] = "note"
    text: str


class StopLine(_Line):
    kind: Literal["stop"]
    reason: Literal["finished", "turn_limit", "token_limit", "cost_limit"]


Line = ClientLine | ModelLine | UsageLine | ToolCallLine | ToolResultLine | EditLine | NoteLine | StopLine
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


def read(line: str) -> Line:
    """One line of the program; whatever it holds, it is at least a note."""
    try:
        return _LINE.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    text = line[:_NOTE_CHARACTERS]
    # Without a place in a known kind: no JSON object, or of no such kind, so it was not meant for us.
    if not first["loc"]:
        return NoteLine(text=text)
    where = ".".join(str(part) for part in first["loc"])
    return NoteLine(text=f"This line is not counted, for {where} is wrong ({first['msg']}): {text}")


async def followed(program: Program, emit: Emit, command: list[str], stderr: Path, hide: Callable[[str], str]) -> Stop:
    """Tell what the program tells until it ends, and how it ended.

    command: as it is to be recorded. stderr: the file that took its stderr. hide: takes secrets out of a text.

    Raises:
        AgentFailed, AgentUnavailable, AgentMisconfigured: as its exit code says.
    """
    stop: Stop = "finished"
    async for text in program.lines():
        if not text.strip():
            continue
        line = read(hide(text))
        if isinstance(line, StopLine):
            stop = line.reason
        elif isinstance(line, ClientLine):
            emit("client", {"name": line.name, "version": line.version, "command": command})
        else:
            emit(line.kind, line.model_dump(exclude={"kind"}, exclude_none=True))
    code = await program.returncode()
    if code == 0:
        return stop
    said = hide(_last_words(stderr))
    message = f"{Path(command[0]).name} ended with code {code}: {said or 'it said nothing on stderr'}"
    if code == TEMPORARY:
        raise AgentUnavailable(message)
    if code in (CONFIGURATION, CANNOT_START, NOT_FOUND):
        raise AgentMisconfigured(message)
    raise AgentFailed(message)


def _last_words(stderr: Path) -> str:
    """The last line that is not empty."""
    if not stderr.exists():
        return ""
    with stderr.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _NOTE_CHARACTERS))
        lines = stream.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else ""

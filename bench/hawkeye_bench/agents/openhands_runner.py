"""Runs one task with the OpenHands SDK and tells it in the lines of `event_lines`. It is started by the interpreter that
has the SDK, `python -I openhands_runner.py TASK.json`, so it imports nothing of the bench.

The task holds workspace, prompt, server (command, args, env), model, base_url, api_key_env and turns.
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TextIO

# Of `event_lines`.
TEMPORARY, CONFIGURATION = 75, 78

# Troubles of the endpoint that may pass.
_PASSING = frozenset({"LLMServiceUnavailableError", "LLMTimeoutError", "LLMRateLimitError", "LLMNoResponseError"})
_EDITOR = "file_editor"


def main() -> None:
    # stdout is for the lines; whatever else is printed, by any library, goes to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        import openhands.sdk  # type: ignore[import-not-found]
        import openhands.tools  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        end(CONFIGURATION, f"{error}. Install it there: {sys.executable} -m pip install openhands-sdk openhands-tools")
    teller = Teller(out, Path(task["workspace"]))
    teller.tell("client", name="openhands-sdk", version=version("openhands-sdk"))
    variable = task["api_key_env"]
    key = os.environ.pop(variable, "") if variable else ""
    try:
        conversation = converse(task, key, teller)
    except Exception as error:
        end(CONFIGURATION, f"this OpenHands cannot be used as it is here: {type(error).__name__}: {error}")
    teller.stats = conversation.conversation_stats
    try:
        conversation.send_message(task["prompt"])
        check_server(conversation, teller)
        conversation.run()
    except Exception as error:
        teller.tell_calls()
        problem = getattr(error, "original_exception", error)
        said = f"{type(problem).__name__}: {problem}"
        end(code_of(problem, teller.calls), said.replace(key, f"[{variable}]") if key else said)
    teller.tell_calls()
    status = conversation.state.execution_status.value
    if status == "finished" or teller.limit:
        teller.tell("stop", reason=teller.limit or "finished")
        end(0, "")
    end(1, f"OpenHands ended as {status}.")


def check_server(conversation: Any, teller: "Teller") -> None:
    """OpenHands goes on without a server that does not start; a run does not."""
    tools = conversation.agent.tools_map.values()
    teller.tell("note", tools=sorted(tool.name for tool in tools), text="OpenHands is ready.")
    if not any(type(tool).__name__ == "MCPToolDefinition" for tool in tools):
        end(TEMPORARY, "the MCP server did not start: OpenHands found no tool of it; see the lines above.")


def end(code: int, message: str) -> NoReturn:
    """At once: threads of OpenHands may wait for what will not come. The server ends when its input does."""
    if message:
        # The last line of stderr is what the record says of it.
        print(" ".join(message.split()), file=sys.stderr)
    sys.stderr.flush()
    os._exit(code)


def code_of(problem: BaseException, calls: int) -> int:
    """The exit code for what ended the conversation, after so many answers of the model.

    An endpoint that refuses even the first request is not the agent's doing. litellm may call a refused key a bad
    request; the client library below it keeps the status.
    """
    cause: BaseException | None = problem
    while cause:
        if type(cause).__name__ == "LLMAuthenticationError" or getattr(cause, "status_code", 0) in (401, 403):
            return CONFIGURATION
        cause = cause.__cause__ or cause.__context__
    return TEMPORARY if type(problem).__name__ in _PASSING or not calls else 1


def converse(task: dict[str, Any], key: str, teller: "Teller") -> Any:
    from openhands.sdk import LLM, Agent, Conversation, Tool
    from openhands.sdk.mcp.config import MCPServer  # type: ignore[import-not-found]
    from pydantic import SecretStr

    llm = LLM(
        usage_id="agent",
        model=task["model"],
        base_url=task["base_url"] or None,
        # Its endpoint may want none, but OpenHands wants some.
        api_key=SecretStr(key or "none"),
    )
    agent = Agent(
        llm=llm,
        tools=[Tool(name=confined_editor())],
        # As it is: nothing in it stands for a variable.
        mcp_config={"hawkeye": MCPServer(**task["server"]).as_literal()},
    )
    return Conversation(
        agent=agent,
        workspace=task["workspace"],
        callbacks=[teller.note],
        max_iteration_per_run=task["turns"],
        visualizer=None,
    )


def confined_editor() -> str:
    """OpenHands' own editor, which reads and writes anywhere, kept inside the workspace; returns its registered name."""
    from openhands.sdk.tool import ToolExecutor, register_tool  # type: ignore[import-not-found]
    from openhands.tools.file_editor import (  # type: ignore[import-not-found]
        FileEditorObservation,
        FileEditorTool,
    )

    class Confined(ToolExecutor):  # type: ignore[misc]
        def __init__(self, editor: Any, workspace: str) -> None:
            self._editor, self._workspace = editor, workspace

        def __call__(self, action: Any, conversation: Any = None) -> Any:
            if inside(action.path, self._workspace):
                return self._editor(action, conversation)
            text = f"{action.path} is outside the workspace {self._workspace}. Work inside it."
            return FileEditorObservation.from_text(text=text, command=action.command, is_error=True)

    class WorkspaceEditorTool(FileEditorTool):  # type: ignore[misc]
        name = _EDITOR

        @classmethod
        def create(cls, conv_state: Any) -> Any:
            workspace = conv_state.workspace.working_dir
            return [tool.set_executor(Confined(tool.executor, workspace)) for tool in super().create(conv_state)]

    register_tool("workspace_editor", WorkspaceEditorTool)
    return "workspace_editor"


def inside(path: str, workspace: str) -> bool:
    """Whether a path that the model gave leads into the workspace, whatever links are on the way."""
    try:
        return (Path(workspace) / path).resolve().is_relative_to(Path(workspace).resolve())
    except (OSError, ValueError, RuntimeError):
        return False


class Teller:
    """Turns OpenHands' events into lines.

    stats: the conversation's; a callback gets events without them. calls: how many answers of the model have been told.
    limit: why OpenHands stopped by itself, where it was for a limit.
    """

    def __init__(self, out: TextIO, workspace: Path) -> None:
        self.stats: Any = None
        self.calls = 0
        self.limit = ""
        self._out = out
        self._workspace = workspace
        self._cost_usd = 0.0

    def tell(self, kind: str, **fields: Any) -> None:
        self._out.write(json.dumps({"kind": kind, **fields}, default=str) + "\n")
        self._out.flush()

    def note(self, event: Any) -> None:
        """One event of the conversation, by the name of its class."""
        kind = type(event).__name__
        if kind == "ActionEvent":
            self.tell_calls(_text(event.thought))
            self.tell("tool_call", tool=event.tool_name, arguments=_arguments(event.tool_call.arguments))
        elif kind == "MessageEvent" and event.source == "agent":
            self.tell_calls(_text(event.llm_message.content))
        elif kind == "ObservationEvent":
            seen = event.observation
            self.tell("tool_result", tool=event.tool_name, is_error=seen.is_error, text=_text(seen.to_llm_content))
            if event.tool_name == _EDITOR and seen.command != "view" and not seen.is_error:
                path = Path(seen.path)
                self.tell("edit", path=os.path.relpath(path, self._workspace) if path.is_absolute() else str(path))
        elif kind == "AgentErrorEvent":
            self.tell("tool_result", tool=event.tool_name, is_error=True, text=event.error)
        elif kind == "ConversationErrorEvent":
            if event.code == "MaxIterationsReached":
                self.limit = "turn_limit"
            self.tell("note", text=f"{event.code}: {event.detail}")

    def tell_calls(self, message: str = "") -> None:
        """The answers of the model since the last time; what it said belongs to the last of them.

        OpenHands keeps a cost only where it knows the model's price, and then it is above 0.
        """
        metrics = self.stats.get_combined_metrics() if self.stats else None
        if metrics is None:
            return
        told = metrics.response_latencies[self.calls :]
        tokens = {usage.response_id: usage for usage in metrics.token_usages}
        for answer in told:
            line: dict[str, Any] = {}
            if usage := tokens.get(answer.response_id):
                line = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
            if answer is told[-1]:
                if metrics.accumulated_cost > self._cost_usd:
                    line["cost_usd"] = metrics.accumulated_cost - self._cost_usd
                if message:
                    line["message"] = message
            self.tell("model", **line)
        self.calls += len(told)
        self._cost_usd = metrics.accumulated_cost


def _text(blocks: Any) -> str:
    """The texts of a message's content; pictures have none."""
    return "\n".join(block.text for block in blocks if hasattr(block, "text"))


def _arguments(text: str) -> dict[str, Any]:
    """What the model wrote as a call's arguments, JSON or not."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"text": text}


if __name__ == "__main__":
    main()

"""OpenHands without OpenHands: what its runner tells of the SDK's events, and how a start that cannot work ends."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
from hawkeye_bench.agents import AgentMisconfigured, Task, event_lines
from hawkeye_bench.agents.openhands import OpenHands
from hawkeye_bench.agents.openhands_runner import CONFIGURATION, TEMPORARY, Teller, code_of, inside
from hawkeye_bench.budget import Budget
from mcp import StdioServerParameters


def event(name, **fields):
    """An event of the SDK, as far as the runner looks at it: the name of its class, and its fields."""
    return type(name, (), {})() if not fields else type(name, (SimpleNamespace,), {})(**fields)


def text(words):
    return [SimpleNamespace(text=words), SimpleNamespace(image_urls=["no text"])]


def action(tool, arguments, thought="I think."):
    return event("ActionEvent", thought=text(thought), tool_name=tool, tool_call=SimpleNamespace(arguments=arguments))


def observation(tool, words, *, is_error=False, **more):
    seen = SimpleNamespace(is_error=is_error, to_llm_content=text(words), **more)
    return event("ObservationEvent", tool_name=tool, observation=seen)


class Stats:
    """The SDK's figures: an answer each, tokens where the endpoint told them, dollars where there is a price."""

    def __init__(self):
        self.metrics = SimpleNamespace(response_latencies=[], token_usages=[], accumulated_cost=0.0)

    def answer(self, name, prompt=None, completion=None, cost=0.0):
        self.metrics.response_latencies.append(SimpleNamespace(response_id=name))
        if prompt is not None:
            usage = SimpleNamespace(response_id=name, prompt_tokens=prompt, completion_tokens=completion)
            self.metrics.token_usages.append(usage)
        self.metrics.accumulated_cost += cost

    def get_combined_metrics(self):
        return self.metrics


@pytest.fixture
def out():
    return io.StringIO()


@pytest.fixture
def teller(out, tmp_path):
    found = Teller(out, tmp_path)
    found.stats = Stats()
    return found


def told(out):
    """The lines so far, as the bench reads them; each is what it claims to be."""
    lines = out.getvalue().splitlines()
    found = [event_lines.read(line) for line in lines]
    assert [line.kind for line in found] == [json.loads(line)["kind"] for line in lines]
    return [line.model_dump(exclude_none=True) for line in found]


def test_each_answer_of_the_model_is_told_once_with_what_it_cost(teller, out):
    teller.note(action("think", "{}"))
    assert [line["kind"] for line in told(out)] == ["tool_call"]
    teller.stats.answer("a", 100, 7, cost=0.5)
    teller.note(action("evaluate_kernel", '{"path": "kernel.py"}'))
    # Two calls of one answer.
    teller.note(action("job", "{}"))
    teller.stats.answer("b")
    teller.stats.answer("c", 30, 2, cost=0.25)
    teller.note(event("MessageEvent", source="user", llm_message=SimpleNamespace(content=text("Go on."))))
    teller.note(event("MessageEvent", source="agent", llm_message=SimpleNamespace(content=text("Done."))))
    teller.tell_calls()
    assert [line for line in told(out) if line["kind"] == "model"] == [
        {"kind": "model", "prompt_tokens": 100, "completion_tokens": 7, "cost_usd": 0.5, "message": "I think."},
        {"kind": "model"},
        {"kind": "model", "prompt_tokens": 30, "completion_tokens": 2, "cost_usd": 0.25, "message": "Done."},
    ]
    assert teller.calls == 3


def test_calls_and_results_are_told_and_only_writing_is_an_edit(teller, out, tmp_path):
    kernel = str(tmp_path / "sub" / "kernel.py")
    teller.note(action("file_editor", json.dumps({"command": "create", "path": kernel})))
    teller.note(observation("file_editor", "Created.", command="create", path=kernel))
    teller.note(observation("file_editor", "1 text", command="view", path=kernel))
    teller.note(observation("file_editor", "No match.", is_error=True, command="str_replace", path=kernel))
    teller.note(observation("file_editor", "Undone.", command="undo_edit", path=kernel))
    teller.note(event("AgentErrorEvent", tool_name="evaluate_kernel", error="bad arguments"))
    teller.note(action("job", "no json"))
    teller.note(event("SystemPromptEvent"))
    assert [list(line.values()) for line in told(out)] == [
        ["tool_call", "file_editor", {"command": "create", "path": kernel}],
        ["tool_result", "file_editor", False, "Created."],
        ["edit", "sub/kernel.py"],
        ["tool_result", "file_editor", False, "1 text"],
        ["tool_result", "file_editor", True, "No match."],
        ["tool_result", "file_editor", False, "Undone."],
        ["edit", "sub/kernel.py"],
        ["tool_result", "evaluate_kernel", True, "bad arguments"],
        ["tool_call", "job", {"text": "no json"}],
    ]


def test_the_limit_of_model_calls_is_a_stop_of_its_own(teller, out):
    teller.note(event("ConversationErrorEvent", code="Other", detail="x"))
    assert teller.limit == ""
    teller.note(event("ConversationErrorEvent", code="MaxIterationsReached", detail="reached"))
    assert teller.limit == "turn_limit"
    assert told(out)[-1] == {"kind": "note", "text": "MaxIterationsReached: reached"}


def failure(name, under=None, status=0):
    found = type(name, (Exception,), {"status_code": status})()
    found.__context__ = under
    return found


@pytest.mark.parametrize(
    ("problem", "calls", "code"),
    [
        (failure("LLMAuthenticationError"), 5, CONFIGURATION),
        (failure("LLMBadRequestError", under=failure("AuthenticationError", status=401)), 0, CONFIGURATION),
        (failure("LLMBadRequestError", under=failure("PermissionDenied", status=403)), 5, CONFIGURATION),
        (failure("LLMBadRequestError", under=failure("BadRequestError", status=400)), 0, TEMPORARY),
        (failure("LLMBadRequestError", under=failure("BadRequestError", status=400)), 5, 1),
        (failure("LLMServiceUnavailableError"), 5, TEMPORARY),
        (failure("LLMContextWindowExceedError"), 5, 1),
    ],
)
def test_what_ended_a_conversation_decides_who_is_to_blame(problem, calls, code):
    assert code_of(problem, calls) == code


def test_inside_means_where_a_path_leads(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    assert inside(str(workspace / "new" / "kernel.py"), str(workspace))
    assert inside("kernel.py", str(workspace))
    assert inside(str(workspace), str(workspace))
    for path in ("../other", str(tmp_path / "workspace2"), "/etc/passwd", "link/x", f"{workspace}/../x", "x\0y", "~"):
        assert inside(path, str(workspace)) == (path == "~")


@pytest.fixture
def task(tmp_path):
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    return Task(
        workload="8p_GEMM",
        tpu="v5e",
        workspace=tmp_path / "workspace",
        home=tmp_path / "home",
        server=StdioServerParameters(command="server", args=["--x", "a b"], env={"TMPDIR": "/own"}),
        server_log=tmp_path / "server.log",
        prompt="Optimise.",
        budget=Budget(turns=33),
    )


@pytest.mark.anyio
async def test_an_interpreter_without_openhands_is_for_a_person_to_mend(task, monkeypatch):
    monkeypatch.setenv("THE_KEY", "not-a-real-key-4711")
    agent = OpenHands("openai/m", "http://127.0.0.1:9/v1", "THE_KEY", sys.executable)
    with pytest.raises(AgentMisconfigured) as raised:
        await agent.run(task, lambda kind, data: None)
    assert "No module named 'openhands'" in str(raised.value)
    assert f"{sys.executable} -m pip install openhands-sdk openhands-tools" in str(raised.value)
    given = json.loads((task.home / "task.json").read_text())
    assert given.pop("server")["args"][-3:] == ["server", "--x", "a b"]
    assert given == {
        "workspace": str(task.workspace),
        "prompt": "Optimise.",
        "model": "openai/m",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key_env": "THE_KEY",
        "turns": 33,
    }


@pytest.mark.anyio
async def test_no_interpreter_and_no_key_are_said(task, monkeypatch):
    with pytest.raises(AgentMisconfigured, match="no-such-python.*pip install openhands-sdk"):
        await OpenHands("m", "", "", "no-such-python").run(task, lambda kind, data: None)
    monkeypatch.delenv("THE_KEY", raising=False)
    with pytest.raises(AgentMisconfigured, match="THE_KEY"):
        await OpenHands("m", "", "THE_KEY", sys.executable).run(task, lambda kind, data: None)

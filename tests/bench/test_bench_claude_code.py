"""Claude Code as an agent, without Claude Code: what is made of what it tells, and how it is started.

The lines are written by hand after those of version 2.1.332.
"""

import json

import anyio
import pytest
from agent_tasks import Emitted, line, program, task
from hawkeye_bench.agents import AgentFailed, AgentMisconfigured, AgentUnavailable
from hawkeye_bench.agents.claude_code import ClaudeCode
from hawkeye_bench.agents.claude_events import FILE_TOOLS, Reading

TOOLS = [*FILE_TOOLS, "mcp__hawkeye__evaluate_kernel"]


def init(tools=TOOLS, status="connected"):
    return line(
        type="system",
        subtype="init",
        tools=tools,
        mcp_servers=[{"name": "hawkeye", "status": status}],
        claude_code_version="2.1.332",
    )


def piece(**event):
    return line(type="stream_event", event=event)


def said(number, *blocks, output=7, model="m"):
    """A message as it streams: each block is also told as a line of its own, before all tokens are known."""
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 3, "output_tokens": 1}
    message = {"id": f"msg_{number}", "model": model, "usage": usage}
    return [
        piece(type="message_start", message=message | {"content": []}),
        *(line(type="assistant", message=message | {"content": [block]}) for block in blocks),
        piece(type="message_delta", delta={}, usage={"output_tokens": output}),
        piece(type="message_stop"),
    ]


def use(number, name, **arguments):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}


def answered(number, text="done", is_error=False):
    block = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text, "is_error": is_error}
    return line(type="user", message={"role": "user", "content": [block]})


def result(**fields):
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 3, "output_tokens": 7}
    known = {
        "subtype": "success",
        "is_error": False,
        "usage": usage,
        "total_cost_usd": 0.5,
        "modelUsage": {"m": {"costBasis": "list"}},
        "permission_denials": [],
    }
    return line(type="result", **known | fields)


class Read:
    """Some lines, read."""

    def __init__(self, folder, *lines):
        self.events = Emitted()
        self.reading = Reading(self.events, ["claude", "--print"], folder)
        for text in lines:
            self.reading.take(text)

    def stop(self):
        return self.reading.stop(0, "")


def test_a_message_is_one_call_of_the_model_before_the_tools_that_it_calls(tmp_path):
    evaluate = use(2, "mcp__hawkeye__evaluate_kernel", path="k.py")
    blocks = [{"type": "text", "text": "I try."}, use(1, "Write", file_path=str(tmp_path / "a/k.py")), evaluate]
    answer = [{"type": "text", "text": '{"status": "correct"}'}, {"type": "resource_link"}]
    read = Read(tmp_path, init(), *said(1, *blocks), answered(1), answered(2, answer), *said(2), result())
    assert [event["kind"] for event in read.events] == [
        *("client", "note", "model", "tool_call", "tool_call", "tool_result", "edit", "tool_result", "model", "usage")
    ]
    assert read.events[0] == {
        "kind": "client",
        "name": "Claude Code",
        "version": "2.1.332",
        "command": ["claude", "--print"],
    }
    model = read.events.of("model")[0]
    assert (model["prompt_tokens"], model["completion_tokens"]) == (123, 7)
    assert model["message"] == {"role": "assistant", "content": blocks}
    assert [event["tool"] for event in read.events.of("tool_call")] == ["Write", "evaluate_kernel"]
    assert read.events.of("tool_call")[1]["arguments"] == {"path": "k.py"}
    assert read.events.of("tool_result")[1]["text"] == '{"status": "correct"}\n[resource_link]'
    assert read.events.of("edit") == [{"kind": "edit", "path": "a/k.py"}]
    assert read.stop() == "finished"


def test_only_a_file_that_was_written_is_an_edit(tmp_path):
    blocks = [use(1, "Edit", file_path="k.py"), use(2, "Read", file_path="k.py"), use(3, "Edit", file_path="k.py")]
    read = Read(tmp_path, *said(1, *blocks), answered(1, is_error=True), answered(2), answered(3))
    assert [event["is_error"] for event in read.events.of("tool_result")] == [True, False, False]
    assert read.events.of("edit") == [{"kind": "edit", "path": "k.py"}]


def test_the_total_at_the_end_tells_what_no_call_has_told(tmp_path):
    # A call that the client kept to itself, and one that was cut off before it told its tokens.
    usage = {"input_tokens": 1000, "output_tokens": 70}
    cut = said(2)[:1]
    read = Read(tmp_path, *said(1), *cut, result(usage=usage))
    assert len(read.events.of("model")) == 2
    assert read.events.tokens() == (1000, 70)
    assert read.events.of("usage")[0]["cost_usd"] == 0.5
    exact = Read(tmp_path, *said(1), result())
    assert exact.events.of("usage") == [{"kind": "usage", "cost_usd": 0.5}]
    unknown = Read(tmp_path, *said(1), result(modelUsage={"m": {"costBasis": "unknown"}}))
    assert unknown.events.of("usage") == []


def test_an_answer_that_did_not_stream_is_a_call_too(tmp_path):
    whole = {"id": "msg_1", "content": [{"type": "text", "text": "I try."}], "usage": {"input_tokens": 9}}
    read = Read(tmp_path, line(type="assistant", message=whole), *said(2))
    assert [event["prompt_tokens"] for event in read.events.of("model")] == [9, 123]


def test_lines_that_cannot_be_read_are_noted_and_unknown_ones_left_out(tmp_path):
    bad = ["no json", '{"type": 3}', '{"type": "assistant", "message": {"content": 5}}', "[]", "", '{"type": "ass']
    read = Read(tmp_path, *bad, line(type="system", subtype="status"), line(type="new"), *said(1))
    assert [event["unreadable"] for event in read.events.of("note")] == [text for text in bad if text]
    assert len(read.events.of("model")) == 1


def test_words_that_the_client_puts_into_the_models_mouth_are_no_call(tmp_path):
    words = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 500"}]}
    read = Read(tmp_path, line(type="assistant", message=words))
    assert read.events == [{"kind": "note", "text": "API Error: 500"}]


def test_a_stream_that_is_cut_off_says_nothing(tmp_path):
    read = Read(tmp_path, init(), *said(1)[:2])
    with pytest.raises(AgentUnavailable, match="ended with code 1 in the middle: it said nothing"):
        read.reading.stop(1, "")
    with pytest.raises(AgentUnavailable, match="ended with code 137 in the middle: Killed"):
        Read(tmp_path).reading.stop(137, "Killed")
    with pytest.raises(AgentMisconfigured, match="does not start .*: unknown option '--restricted'"):
        Read(tmp_path).reading.stop(1, "unknown option '--restricted'")


@pytest.mark.parametrize(
    ("fields", "stop"),
    [({"subtype": "error_max_turns"}, "turn_limit"), ({"subtype": "error_max_budget_usd"}, "cost_limit")],
)
def test_limits_that_the_client_has_kept(tmp_path, fields, stop):
    assert Read(tmp_path, result(is_error=True, errors=["Reached"], **fields)).stop() == stop


@pytest.mark.parametrize(
    ("status", "calls", "error", "says"),
    [
        (401, 1, AgentMisconfigured, "refuses the key"),
        (403, 0, AgentMisconfigured, "refuses the key"),
        (404, 0, AgentMisconfigured, "knows no such model"),
        (400, 0, AgentMisconfigured, "refuses what Claude Code asks"),
        (400, 1, AgentFailed, "could not go on: prompt is too long"),
        (529, 1, AgentUnavailable, "could not reach the model"),
        (None, 0, AgentUnavailable, "could not reach the model"),
    ],
)
def test_errors_of_the_endpoint(tmp_path, status, calls, error, says):
    lines = [text for number in range(calls) for text in said(number)]
    read = Read(tmp_path, *lines, result(is_error=True, api_error_status=status, result="prompt is too long"))
    with pytest.raises(error, match=says) as caught:
        read.stop()
    assert type(caught.value) is error


def test_a_key_that_is_refused_is_not_tried_for_minutes(tmp_path):
    again = line(type="system", subtype="api_retry", error_status=401, error="authentication_failed")
    with pytest.raises(AgentMisconfigured, match="refuses the key: authentication_failed"):
        Read(tmp_path, init(), again)
    busy = line(type="system", subtype="api_retry", error_status=529, error="overloaded")
    assert Read(tmp_path, busy, *said(1), again).events.of("note")[0]["text"].endswith("overloaded (status 529)")


@pytest.mark.parametrize(
    ("denied", "spoils"),
    [
        (("mcp__hawkeye__evaluate_kernel", {}), True),
        (("Write", {"file_path": "k.py"}), True),
        (("Write", {"file_path": "../k.py"}), False),
        (("Read", {"file_path": "/etc/passwd"}), False),
        (("Write", {"file_path": ".claude/settings.json"}), False),
        (("Glob", {"pattern": "/*"}), False),
        (("Bash", {"command": "ls"}), False),
    ],
)
def test_a_run_in_which_something_was_wrongly_denied_says_nothing(tmp_path, denied, spoils):
    read = Read(tmp_path, result(permission_denials=[{"tool_name": denied[0], "tool_input": denied[1]}]))
    assert read.events.of("note") == [{"kind": "note", "denied": denied[0], "arguments": denied[1]}]
    if not spoils:
        assert read.stop() == "finished"
        return
    with pytest.raises(AgentMisconfigured, match=f"denied what the agent is allowed.*{denied[0]}"):
        read.stop()


def test_it_has_exactly_its_file_tools_and_those_of_the_server(tmp_path):
    for tools in ([*TOOLS, "Bash"], TOOLS[1:], list(FILE_TOOLS), [*TOOLS, "mcp__other__x"]):
        with pytest.raises(AgentMisconfigured, match="has other tools than"):
            Read(tmp_path, init(tools))
    for status in ("failed", "pending"):
        with pytest.raises(AgentUnavailable, match=rf"no connection to the MCP server \(status: {status}\)"):
            Read(tmp_path, init(status=status))


# Tells what it was given, waits if it is to, and has a last word when it is interrupted.
CLIENT = """
import json, os, signal, sys, time
def tell(**fields):
    os.write(1, json.dumps(fields).encode() + b"\\n")  # at once, also while it is interrupted
def end(*_):
    tell(type="result", total_cost_usd=0.25, modelUsage={"m": {}}, usage={})
    sys.exit(0)
signal.signal(signal.SIGINT, end)
tell(type="given", arguments=sys.argv[1:], environment=dict(os.environ), cwd=os.getcwd(), prompt=sys.stdin.read())
tell(type="system", subtype="api_retry", error="waiting", error_status=529)
"""


@pytest.mark.anyio
async def test_how_it_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "the-secret")
    monkeypatch.setenv("ANTHROPIC_MODEL", "theirs")
    events, the_task = Emitted(), task(tmp_path, turns=30, cost_usd=1.5)
    asked = program(
        tmp_path / "client", CLIENT + "open('given.json', 'w').write(json.dumps([sys.argv, dict(os.environ)]))\nend()"
    )
    agent = ClaudeCode("opus", "http://host/v1/", "MY_KEY", asked)
    assert await agent.run(the_task, events) == "finished"
    arguments, environment = json.loads((the_task.workspace / "given.json").read_text())
    assert environment["ANTHROPIC_API_KEY"] == "the-secret"
    assert environment["ANTHROPIC_BASE_URL"] == "http://host"
    assert environment["HOME"] == str(the_task.home)
    assert environment["ENABLE_TOOL_SEARCH"] == "false"
    assert "ANTHROPIC_MODEL" not in environment
    chosen = dict(zip(arguments, arguments[1:], strict=False))
    assert (chosen["--model"], chosen["--max-turns"], chosen["--max-budget-usd"]) == ("opus", "30", "1.5")
    assert chosen["--tools"] == "Edit,Glob,Grep,Read,Write"
    assert {"--restricted", "--strict-mcp-config"} <= set(arguments)
    config = json.loads((the_task.home / "mcp.json").read_text())
    (server,) = config["mcpServers"].values()
    assert list(config["mcpServers"]) == ["hawkeye"]
    assert server["args"][-2:] == ["--condition", "none"]
    assert (server["env"]["ANTHROPIC_API_KEY"], server["alwaysLoad"]) == ("", True)
    assert "the-secret" not in json.dumps([*events, arguments, config])


@pytest.mark.anyio
async def test_it_is_heard_out_when_it_is_cancelled(tmp_path):
    events, waiting = Emitted(), program(tmp_path / "client", CLIENT + "time.sleep(600)")
    with anyio.CancelScope() as scope:

        def emit(kind, data):
            events(kind, data)
            if kind == "note":
                scope.cancel()

        await ClaudeCode("opus", program=waiting).run(task(tmp_path), emit)
    assert scope.cancelled_caught
    assert events[-1] == {"kind": "usage", "cost_usd": 0.25}


@pytest.mark.anyio
async def test_what_is_missing_is_said_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    the_task = task(tmp_path)
    with pytest.raises(AgentMisconfigured, match="MY_KEY is not set"):
        await ClaudeCode("opus", api_key_env="MY_KEY").run(the_task, Emitted())
    with pytest.raises(AgentMisconfigured, match="no program 'no-such-claude'. Install Claude Code"):
        await ClaudeCode("opus", program="no-such-claude").run(the_task, Emitted())

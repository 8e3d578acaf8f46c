"""Codex as an agent, without Codex: what is made of what it tells and logs, and how it is started.

The lines are written by hand after those of version 0.171.0.
"""

import json
import tomllib

import pytest
from agent_tasks import Emitted, line, program, task
from hawkeye_bench.agents import AgentFailed, AgentMisconfigured, AgentUnavailable
from hawkeye_bench.agents.codex import Codex
from hawkeye_bench.agents.codex_events import Reading
from hawkeye_bench.agents.codex_models import catalog

THREAD = "01a2"
STARTED = line(type="thread.started", thread_id=THREAD)


def item(number, completed=True, **fields):
    known = {"id": f"item_{number}", "status": "completed" if completed else "in_progress"}
    return line(type="item.completed" if completed else "item.started", item=known | fields)


def call(number, tool="evaluate_kernel", completed=True, text='{"status": "correct"}', **fields):
    known = {"type": "mcp_tool_call", "server": "hawkeye", "tool": tool, "arguments": {"path": "k.py"}}
    if completed:
        known["result"] = {"content": [{"type": "text", "text": text}, {"type": "image"}]}
    return item(number, completed, **known | fields)


def change(number, *paths, completed=True, **fields):
    changes = [{"path": str(path), "kind": "update"} for path in paths]
    return item(number, completed, type="file_change", changes=changes, **fields)


def completed(prompt_tokens, completion_tokens):
    return line(type="turn.completed", usage={"input_tokens": prompt_tokens, "output_tokens": completion_tokens})


def failed(why):
    return line(type="turn.failed", error={"message": why})


def record(text, prompt_tokens=100, completion_tokens=7):
    """What the session log has of one call of the model."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    usage = {"input_tokens": prompt_tokens, "cached_input_tokens": 90, "output_tokens": completion_tokens}
    return (
        line(type="response_item", payload=message)
        + "\n"
        + line(type="token_usage_record", payload={"usage": usage, "response_id": "resp"})
        + "\n"
    )


class Run:
    """A run whose lines are told one after another. log: its session log."""

    def __init__(self, folder):
        self.events = Emitted()
        self.reading = Reading(self.events, folder / "sessions", folder, lambda text: text.replace("secret", "[KEY]"))
        self.log = folder / "sessions/2026/11/30" / f"rollout-x-{THREAD}.jsonl"
        self.log.parent.mkdir(parents=True)
        self.log.touch()

    def logs(self, text):
        with self.log.open("a") as stream:
            stream.write(text)
        return self

    def tells(self, *lines):
        for text in lines:
            self.reading.take(text)
        return self

    def stop(self, code=0, said=""):
        return self.reading.stop(code, said)


def test_calls_of_the_model_come_from_the_session_log_and_tools_from_stdout(tmp_path):
    run = Run(tmp_path).tells(STARTED, line(type="turn.started"))
    run.logs(line(type="session_meta", payload={"id": THREAD}) + "\n" + record("I write it. secret"))
    said = item(0, type="agent_message", text="I write it.")
    run.tells(said, change(1, tmp_path / "a/k.py", completed=False), change(1, tmp_path / "a/k.py", tmp_path / "b.py"))
    run.logs(record("Is it right?")).tells(call(2, completed=False))
    assert len(run.events.of("model")) == 2, "a call is known while the tool that it asked for is still at work"
    run.tells(call(2)).logs(record("It is.")).tells(completed(300, 21))
    kinds = "model tool_call tool_result edit edit model tool_call tool_result model".split()
    assert [event["kind"] for event in run.events] == kinds
    assert run.events[0] == {
        "kind": "model",
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "message": {"role": "assistant", "content": [{"type": "output_text", "text": "I write it. [KEY]"}]},
    }
    assert [event["path"] for event in run.events.of("edit")] == ["a/k.py", "b.py"]
    first, second = run.events.of("tool_call")
    assert (first["tool"], first["arguments"]["changes"][0]["kind"]) == ("apply_patch", "update")
    assert (second["tool"], second["arguments"]) == ("evaluate_kernel", {"path": "k.py"})
    assert run.events.of("tool_result")[1]["text"] == '{"status": "correct"}\n[image]'
    assert run.stop() == "finished"


def test_a_record_that_is_half_written_is_read_when_it_is_whole(tmp_path):
    whole = record("I try.")
    run = Run(tmp_path).tells(STARTED).logs(whole[:-20]).tells(line(type="turn.started"))
    assert run.events == []
    run.logs(whole[-20:]).tells(line(type="turn.started"), line(type="turn.started"))
    assert [event["kind"] for event in run.events] == ["model"]


def test_the_total_at_the_end_tells_what_no_record_has_told(tmp_path):
    run = Run(tmp_path).tells(STARTED).logs(record("I try.")).tells(completed(1000, 70))
    assert run.events[-1] == {"kind": "usage", "prompt_tokens": 900, "completion_tokens": 63}
    assert run.events.tokens() == (1000, 70)


def test_without_records_turns_cannot_be_counted(tmp_path):
    with pytest.raises(AgentMisconfigured, match="its turns cannot be counted"):
        Run(tmp_path).tells(STARTED, completed(100, 7))


def test_a_tool_that_fails_is_told(tmp_path):
    run = Run(tmp_path).tells(
        STARTED,
        call(1, result=None, error={"message": "timed out"}, status="failed"),
        call(2, "list_mcp_resources", server="codex"),
    )
    assert [(event["tool"], event["is_error"], event["text"][:9]) for event in run.events.of("tool_result")] == [
        ("evaluate_kernel", True, "timed out"),
        ("list_mcp_resources", False, '{"status"'),
    ]


@pytest.mark.parametrize(
    "used",
    [
        item(1, completed=False, type="command_execution", command="ls"),
        item(1, completed=False, type="web_search", query="x"),
        item(1, completed=False, type="collab_tool_call"),
        call(1, completed=False, server="other"),
    ],
)
def test_a_tool_that_no_run_has_ends_the_run(tmp_path, used):
    with pytest.raises(AgentMisconfigured, match="used a tool that no run has"):
        Run(tmp_path).tells(STARTED, used)


def test_a_sandbox_that_does_not_work_ends_the_run(tmp_path):
    with pytest.raises(AgentMisconfigured, match="sandbox does not work on this machine"):
        Run(tmp_path).tells(STARTED, change(1, "k.py", completed=False), change(1, "k.py", status="failed"))


def test_lines_that_cannot_be_read_are_noted_and_harmless_ones_left_out(tmp_path):
    bad = ["no json", '{"type": 3}', '{"type": "item.completed", "item": 5}', "[]", '{"type": "it']
    run = Run(tmp_path).tells(*bad, "", item(1, type="reasoning"), item(2, type="todo_list"), line(type="new"))
    run.tells(line(type="error", message="Reconnecting... 1/5"), item(3, type="error", message="deprecated"))
    assert [event["unreadable"] for event in run.events if "unreadable" in event] == bad
    assert [event["text"] for event in run.events if "text" in event] == ["Reconnecting... 1/5", "deprecated"]
    assert len(run.events) == len(bad) + 2


@pytest.mark.parametrize(
    ("why", "calls", "error", "says"),
    [
        ("unexpected status 401 Unauthorized: no", 0, AgentMisconfigured, "refuses the key"),
        ("unexpected status 403 Forbidden", 1, AgentMisconfigured, "refuses the key"),
        ("unexpected status 404 Not Found", 0, AgentMisconfigured, "knows no such model"),
        ('{"error": "bad request"}', 0, AgentMisconfigured, "refuses what Codex asks"),
        ('{"error": "bad request"}', 1, AgentFailed, "could not go on"),
        ("Codex ran out of room in the model's context window.", 1, AgentFailed, "could not go on"),
        ("exceeded retry limit, last status: 429 Too Many Requests", 1, AgentUnavailable, "could not reach"),
        ("Connection failed: error sending request", 0, AgentUnavailable, "could not reach"),
    ],
)
def test_errors_of_the_endpoint(tmp_path, why, calls, error, says):
    run = Run(tmp_path).tells(STARTED).logs(record("I try.") * calls).tells(failed(why))
    with pytest.raises(error, match=says) as caught:
        run.stop(1)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("lines", "code", "said", "error", "says"),
    [
        (
            [],
            1,
            "required MCP servers failed: hawkeye: handshaking with MCP server failed",
            AgentUnavailable,
            "server.log",
        ),
        ([], 1, "unknown configuration field `x`", AgentMisconfigured, "does not start with the settings.*field `x`"),
        ([STARTED], 1, "", AgentUnavailable, "in the middle: it said nothing"),
        ([], 137, "Killed", AgentUnavailable, "code 137 in the middle: Killed"),
    ],
)
def test_a_stream_that_is_cut_off_says_nothing(tmp_path, lines, code, said, error, says):
    with pytest.raises(error, match=says) as caught:
        Run(tmp_path).tells(*lines).stop(code, said)
    assert type(caught.value) is error


NEWEST = {"slug": "newest", "tool_mode": "code_mode_only", "multi_agent_version": "v2", "supports_search_tool": True}
PLAIN = {"slug": "plain", "base_instructions": "You are.", "support_verbosity": True, "apply_patch_tool_type": None}


def test_a_model_has_its_own_entry_and_the_tools_of_a_run():
    told = json.dumps({"models": [NEWEST, PLAIN]})
    (newest,) = json.loads(catalog(told, "newest"))["models"]
    assert (newest["slug"], newest["tool_mode"]) == ("newest", "code_mode_only")
    assert (newest["multi_agent_version"], newest["supports_search_tool"]) == (None, False)
    (other,) = json.loads(catalog(told, "other"))["models"]
    assert (other["slug"], other["base_instructions"], other["support_verbosity"]) == ("other", "You are.", False)
    assert other["apply_patch_tool_type"] == "freeform"


@pytest.mark.parametrize(
    "told", ["no json", "[]", '{"models": [{}]}', '{"models": [3]}', json.dumps({"models": [NEWEST]})]
)
def test_a_list_of_models_that_is_none_is_told(told):
    with pytest.raises(AgentMisconfigured, match="told no list of models"):
        catalog(told, "other")


CLIENT = f"""
import json, os, sys
if sys.argv[1] == "--version":
    print("codex-cli 1.2.3")
elif sys.argv[1] == "debug":
    print(json.dumps({{"models": [{PLAIN}]}}))
else:
    given = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "prompt": sys.stdin.read(), "cwd": os.getcwd()}}
    json.dump(given, open("given.json", "w"))
    sys.exit("Error: stop here, " + os.environ.get("MY_KEY", ""))
"""


@pytest.mark.anyio
async def test_how_it_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "the-secret")
    monkeypatch.setenv("CODEX_HOME", "theirs")
    events, the_task = Emitted(), task(tmp_path)
    client = program(tmp_path / "client", CLIENT)
    with pytest.raises(AgentMisconfigured, match=r"does not start .*: Error: stop here, \[MY_KEY\]"):
        await Codex("other", "http://host/v1/", "MY_KEY", client).run(the_task, events)
    given = json.loads((the_task.workspace / "given.json").read_text())
    assert given["environment"]["MY_KEY"] == "the-secret"
    assert given["environment"]["HOME"] == str(the_task.home)
    assert "CODEX_HOME" not in given["environment"]
    assert (given["prompt"], given["cwd"]) == ("Optimise it.", str(the_task.workspace))
    assert events == [{"kind": "client", "name": "Codex", "version": "1.2.3", "command": [client, *given["arguments"]]}]
    settings = tomllib.loads((the_task.home / ".codex/config.toml").read_text())
    endpoint = settings["model_providers"][settings["model_provider"]]
    assert (endpoint["base_url"], endpoint["env_key"]) == ("http://host/v1", "MY_KEY")
    assert (settings["features"]["shell_tool"], settings["web_search"]) == (False, "disabled")
    assert (settings["agents"]["enabled"], settings["project_doc_max_bytes"]) == (False, 0)
    server = settings["mcp_servers"]["hawkeye"]
    assert (server["required"], server["tool_timeout_sec"], server["args"][-1]) == (True, 900, "none")
    (model,) = json.loads((the_task.home / ".codex/models.json").read_text())["models"]
    assert model["slug"] == settings["model"] == "other"
    assert "the-secret" not in json.dumps([*events, settings, given["arguments"]])


@pytest.mark.anyio
async def test_at_the_clients_own_endpoint_the_key_has_the_clients_name(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "the-secret")
    the_task = task(tmp_path)
    with pytest.raises(AgentMisconfigured):
        await Codex("plain", "", "MY_KEY", program(tmp_path / "client", CLIENT)).run(the_task, Emitted())
    given = json.loads((the_task.workspace / "given.json").read_text())
    assert given["environment"]["CODEX_API_KEY"] == "the-secret"
    assert "model_provider" not in tomllib.loads((the_task.home / ".codex/config.toml").read_text())


@pytest.mark.anyio
async def test_what_is_missing_is_said_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    the_task = task(tmp_path)
    with pytest.raises(AgentMisconfigured, match="MY_KEY is not set"):
        await Codex("m", api_key_env="MY_KEY").run(the_task, Emitted())
    with pytest.raises(AgentMisconfigured, match="no program 'no-such-codex'. Install Codex"):
        await Codex("m", program="no-such-codex").run(the_task, Emitted())

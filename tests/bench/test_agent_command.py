"""Any program as an agent: a whole session, templates, what it tells, and how it ends."""

import json
import shlex
import sys

import anyio
import pytest
from bench_fixtures import FAKE_SERVER, TESTS, plan
from fake_judge import FakeJudge
from hawkeye_bench import driver
from hawkeye_bench.agents import AgentFailed, AgentMisconfigured, AgentUnavailable, Task, event_lines
from hawkeye_bench.agents.command import BadTemplate, CommandAgent
from hawkeye_bench.budget import Budget
from hawkeye_bench.order import RunKey
from mcp import StdioServerParameters

KEY = "not-a-real-key-4711"


@pytest.mark.anyio
async def test_a_program_plays_a_whole_session(tmp_path, monkeypatch):
    monkeypatch.setenv("PLAYING_KEY", KEY)
    program = shlex.join([sys.executable, str(TESTS / "bench" / "playing_client.py")])
    agent = CommandAgent(f"{program} {{mcp_config}} {{model}}", "some model", ("PLAYING_KEY",))
    key = RunKey("8p_GEMM", "taxonomy", 1)
    taught = plan(agent=agent.name, conditions=[key.condition])
    run = await driver.run_one(taught, agent, tmp_path, key, lambda text: None, FakeJudge().open, FAKE_SERVER)
    assert (run.error, run.status, run.stop, run.speedup) == (None, "correct", "finished", 3.0)
    # Three edits, three judgements, one cell.
    assert (run.productive_turns, run.turns, run.evaluations) == (7, 4, 3)
    assert (run.prompt_tokens, run.completion_tokens, run.cost_usd) == (400, 28, 1.0)
    assert [(read.row, read.part) for read in run.cells_read] == [("01_mxu_feed", "all")]
    folder = key.folder(tmp_path)
    assert (run.client.name, run.client.version) == ("playing-client", "1.0")
    assert run.client.command[-2:] == [str(folder / "home" / "mcp.json"), "some model"]
    transcript = (folder / "transcript.jsonl").read_text()
    events = [json.loads(line) for line in transcript.splitlines()]
    assert [event["tool"] for event in events if event["kind"] == "tool_result"] == [
        "evaluate_kernel",
        "evaluate_kernel",
        "read_taxonomy_cell",
        "evaluate_kernel",
    ]
    assert "a line for people" in transcript
    assert "some model [PLAYING_KEY]" in transcript
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert "fake judge closed" in (folder / "server.log").read_text()


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
        prompt="Optimise {this}.\nIn two lines.",
        budget=Budget(turns=33, minutes=1.5),
    )


async def heard(template, task, model="", pass_env=()):
    events = []
    stop = await CommandAgent(template, model, pass_env).run(task, lambda kind, data: events.append((kind, data)))
    return stop, events


@pytest.mark.anyio
async def test_placeholders_are_filled_and_stay_one_argument(task, tmp_path):
    _, events = await heard(
        "printf '%s|' {workload} {tpu} {model} {turns} {minutes} {prompt_file} {workspace} 'for {prompt}' {{}}",
        task,
        "m 1",
    )
    shown = events[0][1]["command"]
    assert shown[2:] == [
        "8p_GEMM", "v5e", "m 1", "33", "1.5", str(task.home / "prompt.md"), str(task.workspace),
        "for Optimise {this}.\nIn two lines.", "{}",
    ]  # fmt: skip
    assert events[0][1] | {"command": []} == {"name": "printf", "version": "", "command": []}
    assert events[1] == (
        "note",
        {"text": f"8p_GEMM|v5e|m 1|33|1.5|{task.home}/prompt.md|{task.workspace}|for Optimise {{this}}."},
    )
    assert (task.home / "prompt.md").read_text() == task.prompt


@pytest.mark.anyio
async def test_the_server_is_started_as_under_the_benchs_own_agents(task):
    await heard("true {mcp_config}", task)
    server = json.loads((task.home / "mcp.json").read_text())["mcpServers"]["hawkeye"]
    assert server["args"][-3:] == ["server", "--x", "a b"]
    assert server["env"]["TMPDIR"] == "/own"
    assert server["env"]["HOME"] != str(task.home)
    # Its stderr goes to the log; its arguments and its output are its own.
    again = [*server["args"][:-3], "sh", "-c", 'echo "$1"; echo said >&2', "_", "a b"]
    done = await anyio.run_process([server["command"], *again])
    assert (done.stdout, done.stderr) == (b"a b\n", b"")
    assert task.server_log.read_text() == "said\n"


@pytest.mark.parametrize(
    ("template", "part"),
    [
        ("", "is empty"),
        ("agent 'x", "No closing quotation"),
        ("agent {promt_file}", "{promt_file}, which no run knows. Known are: {workspace}"),
        ("agent {}", "{}, which"),
        ("agent {workspace.parent}", "{workspace.parent}, which"),
        ("agent {turns:>9}", "only a name"),
        ("agent {turns!r}", "only a name"),
        ("agent {turns", "expected '}'"),
        ("agent }", "written twice"),
        ("agent {model}", "no model is named"),
    ],
)
def test_a_template_that_cannot_work_is_refused_before_a_run(template, part):
    with pytest.raises(BadTemplate) as raised:
        CommandAgent(template)
    assert part in str(raised.value)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("template", "error", "part"),
    [
        ("no-such-program-anywhere", AgentMisconfigured, "no-such-program-anywhere"),
        ("sh -c 'echo away >&2; exit 75'", AgentUnavailable, "sh ended with code 75: away"),
        ("sh -c 'exit 127'", AgentMisconfigured, "sh ended with code 127: it said nothing"),
        ("sh -c 'echo first >&2; echo last >&2; exit 1'", AgentFailed, "sh ended with code 1: last"),
        ("sh -c 'kill -9 $$'", AgentFailed, "sh ended with code 137"),
        ("sh -c 'echo $THE_KEY >&2; exit 1'", AgentFailed, "[THE_KEY]"),
    ],
)
async def test_how_it_ended_decides_who_is_to_blame(task, monkeypatch, template, error, part):
    monkeypatch.setenv("THE_KEY", KEY)
    with pytest.raises(error) as raised:
        await heard(template, task, pass_env=("THE_KEY",))
    assert part in str(raised.value)
    assert KEY not in str(raised.value)
    assert error is AgentMisconfigured or not isinstance(raised.value, AgentMisconfigured)


@pytest.mark.anyio
async def test_a_secret_is_in_nothing_that_is_kept(task, monkeypatch):
    monkeypatch.setenv("THE_KEY", KEY)
    _, events = await heard(f"echo --key={KEY}", task, pass_env=("THE_KEY",))
    assert events == [
        ("client", {"name": "echo", "version": "", "command": ["echo", "--key=[THE_KEY]"]}),
        ("note", {"text": "--key=[THE_KEY]"}),
    ]


@pytest.mark.anyio
async def test_a_stop_may_be_told(task):
    lines = '{"kind": "stop", "reason": "turn_limit"}'
    assert (await heard(f"echo {shlex.quote(lines.replace('{', '{{').replace('}', '}}'))}", task))[0] == "turn_limit"
    assert (await heard("echo finished", task))[0] == "finished"


@pytest.mark.anyio
async def test_only_the_named_variables_are_passed(task, monkeypatch):
    monkeypatch.setenv("PASSED", "yes")
    monkeypatch.setenv("KEPT", "no")
    _, events = await heard("sh -c 'echo ${{PASSED-unset}} ${{KEPT-unset}} $HOME'", task, pass_env=("PASSED", "ABSENT"))
    assert events[1:] == [("note", {"text": f"yes unset {task.home}"})]


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "model", "prompt_tokens": -1}',
        '{"kind": "model", "prompt_tokens": "12"}',
        '{"kind": "model", "prompt_tokens": true}',
        '{"kind": "model", "prompt_tokens": 1e400}',
        '{"kind": "model", "cost_usd": NaN}',
        '{"kind": "model", "cost_usd": Infinity}',
        '{"kind": "model", "cost_usd": "0.1"}',
        '{"kind": "edit"}',
        '{"kind": "edit", "path": 7}',
        '{"kind": "tool_call", "tool": "job", "arguments": [1]}',
        '{"kind": "client", "name": "x"}',
        '{"kind": "stop", "reason": "bored"}',
    ],
)
def test_a_malformed_line_is_a_note_that_says_so(line):
    found = event_lines.read(line)
    assert found.kind == "note"
    assert found.text.startswith("This line is not counted")
    assert found.text.endswith(line)


@pytest.mark.parametrize(
    "line",
    [
        "words",
        "[1]",
        "7",
        "null",
        '{"kind": 7}',
        '{"kind": "unheard"}',
        '{"x": 1}',
        "{",
        "\x00",
        "[" * 9_000,
        '{"kind": []}',
    ],
)
def test_any_other_line_is_a_note(line):
    assert event_lines.read(line) == event_lines.NoteLine(text=line[:2000])


def test_a_model_call_needs_no_figures():
    assert event_lines.read('{"kind": "model", "more": 1}') == event_lines.ModelLine(kind="model")
    assert event_lines.read('{"kind": "model", "cost_usd": 0, "prompt_tokens": 5}').prompt_tokens == 5


def test_usage_is_told_apart_from_a_model_call():
    found = event_lines.read('{"kind": "usage", "cost_usd": 0.5, "message": "x"}')
    assert found.model_dump(exclude_none=True) == {"kind": "usage", "cost_usd": 0.5}

"""OpenHands itself, by its SDK, plays a short session with the real server around the fake judge."""

import json
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from fake_judge import FakeJudge
from hawkeye_bench import driver
from hawkeye_bench.agents.openhands import OpenHands
from hawkeye_bench.budget import Budget
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import Plan
from optimisation_session import CELL, HOLDING, KERNEL, Files, endless, optimisation
from scripted_endpoint import COMPLETION_TOKENS, PROMPT_TOKENS, Reply, Seen, serving

TESTS = Path(__file__).resolve().parent.parent
PYTHON = TESTS.parent / ".clients" / "openhands" / "bin" / "python"
KEY = "not-a-real-key-4711"
# Of gpt-4o, for one answer of the endpoint: 2.50 and 10.00 dollars for a million tokens.
PRICE_USD = PROMPT_TOKENS * 2.5e-6 + COMPLETION_TOKENS * 10e-6

pytestmark = [
    pytest.mark.clients,
    pytest.mark.anyio,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="OpenHands is not in .clients/openhands; make test-clients puts it there"
    ),
]


class Bench:
    """Runs of OpenHands in one folder, each with a script of its own."""

    def __init__(self, out):
        self.out = out
        self.key = RunKey("8p_GEMM", "none", 1)
        self.said = []

    async def play(self, script, condition="none", model="openai/scripted", server=("fake_judge_server.py",), **budget):
        self.key = RunKey("8p_GEMM", condition, 1)
        with serving(script) as self.endpoint:
            agent = OpenHands(model, self.endpoint.base_url, "PLAYING_KEY", str(PYTHON))
            plan = Plan(
                agent=agent.name,
                model=agent.model,
                base_url="",
                tpu="v5e",
                budget=Budget(**budget),
                workloads=[self.key.workload],
                conditions=[condition],
                reps=1,
            )
            command = [sys.executable, *(str(TESTS / part) for part in server)]
            return await driver.run_one(plan, agent, self.out, self.key, self.progress, FakeJudge().open, command)

    def progress(self, text):
        self.said.append(text)

    def path(self, name):
        """Where a model that does as the editor says would write."""
        (workspace,) = (self.out / "workspaces").iterdir()
        return str(workspace / name)

    def files(self):
        def editor(**arguments):
            return Reply("I write.", "file_editor", arguments)

        return Files(
            write=lambda path, text: editor(command="create", path=self.path(path), file_text=text),
            edit=lambda path, old, new: editor(command="str_replace", path=self.path(path), old_str=old, new_str=new),
        )

    def events(self, kind):
        lines = (self.key.folder(self.out) / "transcript.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def left_over(self):
        """Processes whose command line names this folder."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if str(self.out).encode() in (line := path.read_bytes()):
                    found.append(line.replace(b"\0", b" ").decode())
        return found

    def holding_key(self):
        return [path for path in self.out.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("PLAYING_KEY", KEY)
    return Bench(tmp_path / "out")


async def test_a_session_with_the_taxonomy(bench):
    run = await bench.play(optimisation(bench.files()), "taxonomy", model="openai/gpt-4o")
    assert (run.error, run.status, run.stop, run.speedup) == (None, "correct", "finished", 3.0)
    # Three edits, three judgements, one cell; the last answer of the model calls nothing.
    assert (run.productive_turns, run.turns, run.evaluations) == (7, 8, 3)
    assert (run.prompt_tokens, run.completion_tokens) == (8 * PROMPT_TOKENS, 8 * COMPLETION_TOKENS)
    assert run.cost_usd == pytest.approx(8 * PRICE_USD)
    assert [(read.row, read.part) for read in run.cells_read] == [(CELL, "all")]
    assert run.tool_calls == {"evaluate_kernel": 3, "read_taxonomy_cell": 1}
    assert run.client.name == "openhands-sdk"
    assert run.client.version.split(".")[0].isdigit()
    assert run.client.command[0] == str(PYTHON)
    assert run.client.command[-1] == str(bench.key.folder(bench.out) / "home" / "task.json")
    assert [event["path"] for event in bench.events("edit")] == [KERNEL] * 3
    called = [event["tool"] for event in bench.events("tool_call")]
    assert called == ["file_editor", "evaluate_kernel"] * 2 + ["read_taxonomy_cell", "file_editor", "evaluate_kernel"]
    assert [event["tool"] for event in bench.events("tool_result")] == called
    assert bench.events("model")[0]["message"] == "I write. ([PLAYING_KEY])"
    # The endpoint was given the key, and nothing that is kept holds it.
    assert set(bench.endpoint.keys) == {KEY}
    assert bench.holding_key() == []
    assert bench.left_over() == []


async def test_a_session_without_it_inside_the_workspace(bench):
    outside = bench.out / "outside.py"
    asked = [
        Reply("Out.", "file_editor", {"command": "create", "path": str(outside), "file_text": "escaped"}),
        Reply("Out.", "file_editor", {"command": "view", "path": "/etc/hostname"}),
    ]

    def script(seen):
        number = len(seen.results)
        if number < len(asked):
            return asked[number]
        rest = seen.results[len(asked) :]
        return optimisation(bench.files())(Seen(seen.tools, rest, seen.text))

    run = await bench.play(script)
    assert (run.error, run.status, run.stop, run.speedup) == (None, "correct", "finished", 3.0)
    # What was refused has written nothing, so it is no edit.
    assert (run.productive_turns, run.turns, run.evaluations, run.cells_read) == (6, 9, 3, [])
    # No price is known of this model.
    assert (run.prompt_tokens, run.cost_usd) == (9 * PROMPT_TOKENS, None)
    refused = bench.events("tool_result")[: len(asked)]
    assert all(event["is_error"] and "outside the workspace" in event["text"] for event in refused)
    assert not outside.exists()
    offered = {tool["function"]["name"] for tool in bench.endpoint.requests[0]["tools"]}
    assert offered == {"file_editor", "finish", "think", "evaluate_kernel", "profile", "read_workload", "job"}
    assert "taxonomy" not in json.dumps(bench.endpoint.requests)
    assert bench.left_over() == []


async def test_it_stops_by_itself_at_the_limit_of_model_calls(bench):
    run = await bench.play(optimisation(bench.files()), turns=2)
    assert (run.stop, run.turns, run.status) == ("turn_limit", 2, "no_correct_kernel")


async def test_a_run_that_is_cut_off_leaves_no_process(bench):
    with anyio.CancelScope() as scope:

        def progress(text):
            if text.startswith("evaluate_kernel"):
                scope.cancel()

        bench.progress = progress
        await bench.play(endless)
    assert scope.cancelled_caught
    assert HOLDING in bench.events("tool_call")[0]["arguments"]["source"]
    assert bench.left_over() == []


async def test_a_refused_key_is_for_a_person_to_mend(bench):
    run = await bench.play(lambda seen: 401)
    assert (run.stop, run.status) == ("misconfigured", "broken")
    assert "LLMAuthenticationError" in run.error
    assert bench.holding_key() == [bench.key.folder(bench.out) / "home" / "openhands.stderr"] or not bench.holding_key()


async def test_a_server_that_does_not_start_is_not_the_agents_fault(bench):
    run = await bench.play(lambda seen: Reply("Nothing to do."), server=("no_such_server.py",))
    assert (run.stop, run.status) == ("broken", "broken")
    assert "the MCP server did not start" in run.error
    assert bench.endpoint.requests == []

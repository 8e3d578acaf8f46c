"""OpenHands itself, by its SDK, plays a short session with the real server around the fake judge."""

import json
from dataclasses import dataclass
from pathlib import Path

import client_runs
import pytest
from client_runs import KEY, KEY_VARIABLE
from hawkeye_bench.agents.openhands import OpenHands
from optimisation_session import KERNEL, Files, endless, optimisation
from scripted_endpoint import COMPLETION_TOKENS, PROMPT_TOKENS, Reply, Seen, serving

# Of gpt-4o, for one answer of the endpoint: 2.50 and 10.00 dollars for a million tokens.
PRICE_USD = PROMPT_TOKENS * 2.5e-6 + COMPLETION_TOKENS * 10e-6

pytestmark = [pytest.mark.clients, pytest.mark.anyio]


@dataclass(frozen=True)
class Playing:
    """Where a session is played. program: an interpreter that has the SDK."""

    out: Path
    program: str

    def agent(self, endpoint, model="openai/scripted"):
        return OpenHands(model, endpoint.base_url, KEY_VARIABLE, self.program)

    def script(self, seen):
        return optimisation(Files(self._write, self._edit))(seen)

    def _write(self, path, text):
        return _editor(command="create", path=self._full(path), file_text=text)

    def _edit(self, path, old, new):
        return _editor(command="str_replace", path=self._full(path), old_str=old, new_str=new)

    def _full(self, path):
        """What the editor wants, and tells its model."""
        (workspace,) = (self.out / "workspaces").iterdir()
        return str(workspace / path)


def _editor(**arguments):
    return Reply("I look after a file.", "file_editor", arguments)


@pytest.fixture
def playing(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return Playing(tmp_path / "out", client_runs.installed("openhands/bin/python"))


async def test_a_session_with_the_taxonomy(playing):
    with serving(playing.script) as endpoint:
        run = await client_runs.run(playing.agent(endpoint, "openai/gpt-4o"), playing.out, "taxonomy")
    client_runs.check_optimisation(run, playing.out, "taxonomy", edits=3)
    assert run.cost_usd == pytest.approx(run.turns * PRICE_USD)
    assert run.client.name == "openhands-sdk"
    assert run.client.version.split(".")[0].isdigit()
    assert run.client.command[0] == playing.program
    assert run.client.command[-1] == str(client_runs.folder(playing.out, "taxonomy") / "home" / "task.json")
    events = client_runs.transcript(client_runs.folder(playing.out, "taxonomy"))
    assert [event["path"] for event in events if event["kind"] == "edit"] == [KERNEL] * 3
    first = next(event for event in events if event["kind"] == "model")
    assert first["message"] == f"I look after a file. ([{KEY_VARIABLE}])"
    assert set(endpoint.keys) == {KEY}
    # What the editor remembers of the kernels stays with the run.
    assert list((client_runs.folder(playing.out, "taxonomy") / "home").glob("oh_editor_history_*"))


async def test_a_session_without_it(playing):
    with serving(playing.script) as endpoint:
        run = await client_runs.run(playing.agent(endpoint), playing.out)
    client_runs.check_optimisation(run, playing.out, "none", edits=3)
    assert run.cost_usd is None  # there is no price of such a model
    offered = {tool["function"]["name"] for tool in endpoint.requests[0]["tools"]}
    assert offered == {"file_editor", "finish", "think", "evaluate_kernel", "profile", "read_workload", "job"}
    assert "taxonomy" not in json.dumps(endpoint.requests)


async def test_its_editor_stays_inside_the_workspace_and_it_stops_at_the_limit_of_model_calls(playing):
    outside = playing.out / "outside.py"
    asked = [
        _editor(command="create", path=str(outside), file_text="escaped"),
        _editor(command="view", path="/etc/hostname"),
    ]

    def script(seen):
        number, rest = len(seen.results), seen.results[len(asked) :]
        return asked[number] if number < len(asked) else playing.script(Seen(seen.tools, rest, seen.text))

    with serving(script) as endpoint:
        run = await client_runs.run(playing.agent(endpoint), playing.out, turns=4)
    events = client_runs.transcript(client_runs.folder(playing.out))
    results = [event for event in events if event["kind"] == "tool_result"]
    assert [("outside the workspace" in event["text"], event["is_error"]) for event in results] == [
        *[(True, True)] * 2,
        *[(False, False)] * 2,
    ]
    assert not outside.exists()
    # What was refused has written nothing: one edit, one judgement.
    assert (run.stop, run.turns, run.productive_turns, run.status) == ("turn_limit", 4, 2, "no_correct_kernel")


async def test_a_run_that_is_cut_off_leaves_nothing(playing):
    with serving(endless) as endpoint:
        await client_runs.check_cancelled(playing.agent(endpoint), playing.out)


async def test_a_run_whose_bench_is_killed_leaves_no_process(playing):
    with serving(endless) as endpoint:
        arguments = f"'openai/scripted', {endpoint.base_url!r}, {KEY_VARIABLE!r}, {playing.program!r}"
        module = "hawkeye_bench.agents.openhands"
        await client_runs.check_killed(module, "OpenHands", arguments, playing.out, {KEY_VARIABLE: KEY})


async def test_a_refused_key_is_for_a_person_to_mend(playing):
    with serving(lambda seen: 401) as endpoint:
        run = await client_runs.run(playing.agent(endpoint), playing.out)
    assert (run.stop, run.status) == ("misconfigured", "broken")
    assert f"as the script says to [{KEY_VARIABLE}]" in run.error
    client_runs.check_kept(playing.out)


async def test_a_server_that_does_not_start_is_not_the_agents_fault(playing, monkeypatch):
    monkeypatch.setattr(client_runs, "FAKE_SERVER", ["/bin/false"])
    with serving(lambda seen: Reply("Nothing to do.")) as endpoint:
        run = await client_runs.run(playing.agent(endpoint), playing.out)
    assert (run.stop, run.status) == ("broken", "broken")
    assert "the MCP server did not start" in run.error
    assert endpoint.requests == []

"""Codex itself against a scripted model. What it produces here is no agent's result."""

import client_runs
import pytest
from client_runs import KEY, KEY_VARIABLE, check_cancelled, check_killed, check_optimisation, folder, transcript
from hawkeye_bench.agents.codex import Codex
from optimisation_session import KERNEL, Files, endless, optimisation
from scripted_endpoint import Reply, serving

pytestmark = [pytest.mark.clients, pytest.mark.anyio]

# One that Codex does not know, and one whose tools it lets be called by programs.
UNKNOWN, PROGRAMMING = "scripted", "gpt-6.2-sol"
OWN_TOOLS = {
    "apply_patch",
    "list_mcp_resources",
    "list_mcp_resource_templates",
    "read_mcp_resource",
    "request_user_input",
}


def patch(*lines: str) -> Reply:
    return Reply("I write it.", "apply_patch", "\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


FILES = Files(
    write=lambda path, text: patch(f"*** Add File: {path}", f"+{text.rstrip()}"),
    edit=lambda path, old, new: patch(f"*** Update File: {path}", "@@", f"-{old.rstrip()}", f"+{new.rstrip()}"),
)


@pytest.fixture
def program(monkeypatch) -> str:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return client_runs.installed("node_modules/.bin/codex")


@pytest.mark.parametrize(("condition", "model"), [("none", UNKNOWN), ("taxonomy", UNKNOWN), ("taxonomy", PROGRAMMING)])
async def test_a_session_becomes_a_run(tmp_path, program, condition, model):
    # Instructions for other agents above the workspace are not for this one.
    (tmp_path / "AGENTS.md").write_text("The answer is 42.")
    (tmp_path / ".git").mkdir()
    out, offered = tmp_path / "out", []

    def script(seen):
        offered.append({tool.name.removeprefix("mcp__hawkeye__") for tool in seen.tools})
        return optimisation(FILES)(seen)

    with serving(script) as endpoint:
        found = await client_runs.run(Codex(model, endpoint.base_url, KEY_VARIABLE, program), out, condition)
    check_optimisation(found, out, condition, edits=3)
    assert found.cost_usd is None
    assert found.client.name == "Codex"
    assert found.client.version.count(".") == 2
    assert found.client.command[:3] == [program, "exec", "--json"]
    events = transcript(folder(out, condition))
    assert [event["path"] for event in events if event["kind"] == "edit"] == [KERNEL] * 3
    assert events[-2]["message"]["content"][0]["text"].startswith("The kernel is three times")
    assert set(endpoint.keys) == {KEY}
    cell = {"read_taxonomy_cell"} if condition == "taxonomy" else set()
    server = {"evaluate_kernel", "job", "profile", "read_workload"}
    direct = {"wait"} if model == PROGRAMMING else set()
    assert all(tools == OWN_TOOLS | direct | server | cell for tools in offered)
    assert "answer is 42" not in str(endpoint.requests)
    assert ("taxonomy" in str(endpoint.requests)) == (condition == "taxonomy")


async def test_what_lies_outside_the_workspace_is_out_of_reach(tmp_path, program):
    secret = tmp_path / "secret.txt"
    secret.write_text("the hidden answer\n")
    steps = [
        patch(f"*** Add File: {tmp_path}/new.txt", "+x"),
        patch("*** Update File: ../../../secret.txt", "@@", "-the hidden answer", "+x"),
        patch(f"*** Update File: {secret}", "@@", "-not the line", "+x"),
        Reply("I look.", "list_mcp_resources"),
        Reply("I read.", "read_mcp_resource", {"server": "hawkeye", "uri": "workload://8p_GEMM"}),
        Reply("I ask.", "request_user_input", {"questions": [{"id": "a", "header": "b", "question": "May I?"}]}),
    ]

    def script(seen):
        return steps[len(seen.results)] if len(seen.results) < len(steps) else Reply("I give up.")

    out = tmp_path / "out"
    with serving(script) as endpoint:
        found = await client_runs.run(Codex(UNKNOWN, endpoint.base_url, KEY_VARIABLE, program), out)
    assert (found.status, found.stop, found.productive_turns, found.turns) == ("no_kernel", "finished", 0, 7)
    tools = [event["tool"] for event in transcript(folder(out)) if event["kind"] == "tool_result"]
    assert tools == ["list_mcp_resources", "read_mcp_resource"]
    assert not (tmp_path / "new.txt").exists()
    assert secret.read_text() == "the hidden answer\n"


async def test_a_limit_that_the_bench_counts_ends_it(tmp_path, program):
    with serving(optimisation(FILES)) as endpoint:
        agent = Codex(UNKNOWN, endpoint.base_url, KEY_VARIABLE, program)
        found = await client_runs.run(agent, tmp_path / "productive", productive_turns=4)
        assert (found.stop, found.status, found.speedup) == ("productive_turn_limit", "correct", 1.5)
        assert found.prompt_tokens >= 400
        found = await client_runs.run(agent, tmp_path / "tokens", tokens=107 * 3)
    assert (found.stop, found.status) == ("token_limit", "no_correct_kernel")
    client_runs.check_kept(tmp_path)


@pytest.mark.parametrize(
    ("status", "says"), [(401, "refuses the key"), (404, "knows no such model"), (400, "refuses what Codex asks")]
)
async def test_a_request_that_is_refused_for_good_is_not_repeated(tmp_path, program, status, says):
    with serving(lambda seen: status) as endpoint:
        found = await client_runs.run(Codex(UNKNOWN, endpoint.base_url, KEY_VARIABLE, program), tmp_path)
    assert (found.status, found.stop) == ("broken", "misconfigured")
    assert says in found.error
    client_runs.check_kept(tmp_path)


async def test_a_server_that_does_not_start_breaks_the_run(tmp_path, program, monkeypatch):
    monkeypatch.setattr(client_runs, "FAKE_SERVER", ["/bin/false"])
    with serving(optimisation(FILES)) as endpoint:
        found = await client_runs.run(Codex(UNKNOWN, endpoint.base_url, KEY_VARIABLE, program), tmp_path)
    assert (found.status, found.stop) == ("broken", "broken")
    assert "no connection to the MCP server" in found.error


async def test_a_cancelled_run_leaves_nothing(tmp_path, program):
    with serving(endless) as endpoint:
        await check_cancelled(Codex(UNKNOWN, endpoint.base_url, KEY_VARIABLE, program), tmp_path)


async def test_a_killed_bench_leaves_nothing(tmp_path, program):
    with serving(endless) as endpoint:
        arguments = f"{UNKNOWN!r}, {endpoint.base_url!r}, {KEY_VARIABLE!r}, {program!r}"
        await check_killed("hawkeye_bench.agents.codex", "Codex", arguments, tmp_path, {KEY_VARIABLE: KEY})

"""Claude Code itself against a scripted model. What it produces here is no agent's result."""

import subprocess

import client_runs
import pytest
from client_runs import KEY, KEY_VARIABLE, check_cancelled, check_killed, check_optimisation, folder, transcript
from hawkeye_bench.agents.claude_code import ClaudeCode
from optimisation_session import KERNEL, Files, endless, optimisation
from scripted_endpoint import Reply, serving

pytestmark = [pytest.mark.clients, pytest.mark.anyio]

# A model that Claude Code has a price of.
MODEL = "claude-sonnet-4-5"
OWN_TOOLS = {"Edit", "Glob", "Grep", "Read", "Write"}
FILES = Files(
    write=lambda path, text: Reply("I write it.", "Write", {"file_path": path, "content": text}),
    edit=lambda path, old, new: Reply("I mend it.", "Edit", {"file_path": path, "old_string": old, "new_string": new}),
)


@pytest.fixture
def program(monkeypatch) -> str:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return client_runs.installed("node_modules/.bin/claude")


@pytest.mark.parametrize("condition", ["none", "taxonomy"])
async def test_a_session_becomes_a_run(tmp_path, program, condition):
    # Instructions for other agents above the workspace are not for this one.
    for name in ("CLAUDE.md", "AGENTS.md"):
        (tmp_path / name).write_text("The answer is 42.")
    # Nor is what a repository around it tells.
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "The answer is 42."], check=True)
    out = tmp_path / "out"
    with serving(optimisation(FILES)) as endpoint:
        found = await client_runs.run(ClaudeCode(MODEL, endpoint.root, KEY_VARIABLE, program), out, condition)
    check_optimisation(found, out, condition, edits=3)
    # By the client's own price list: 3 dollars for a million tokens of the prompt, 15 of the answer.
    assert found.cost_usd == pytest.approx(found.turns * (100 * 3 + 7 * 15) / 1e6)
    assert found.client.name == "Claude Code"
    assert found.client.version.count(".") == 2
    assert found.client.command[0] == program
    assert "--restricted" in found.client.command
    assert KEY not in " ".join(found.client.command)
    events = transcript(folder(out, condition))
    assert [event["path"] for event in events if event["kind"] == "edit"] == [KERNEL] * 3
    assert set(endpoint.keys) == {KEY}
    cell = {"mcp__hawkeye__read_taxonomy_cell"} if condition == "taxonomy" else set()
    server = {f"mcp__hawkeye__{name}" for name in ("evaluate_kernel", "job", "profile", "read_workload")}
    for request in endpoint.requests:
        assert {tool["name"] for tool in request["tools"]} == OWN_TOOLS | server | cell
        assert "answer is 42" not in str(request)
    assert ("taxonomy" in str(endpoint.requests)) == (condition == "taxonomy")


async def test_what_lies_outside_the_workspace_is_out_of_reach_and_trying_spoils_nothing(tmp_path, program):
    secret = tmp_path / "secret.txt"
    secret.write_text("the hidden answer")

    def script(seen):
        steps = [
            Reply("I look.", "Read", {"file_path": str(secret)}),
            Reply("I look.", "Grep", {"pattern": "hidden", "path": str(tmp_path), "output_mode": "content"}),
            Reply("I write.", "Write", {"file_path": str(tmp_path / "new.txt"), "content": "x"}),
        ]
        return steps[len(seen.results)] if len(seen.results) < len(steps) else Reply("I give up.")

    out = tmp_path / "out"
    with serving(script) as endpoint:
        found = await client_runs.run(ClaudeCode(MODEL, endpoint.root, KEY_VARIABLE, program), out)
    assert (found.status, found.stop, found.productive_turns) == ("no_kernel", "finished", 0)
    assert "hidden answer" not in str(endpoint.requests)
    assert not (tmp_path / "new.txt").exists()
    events = transcript(folder(out))
    assert [event["denied"] for event in events if "denied" in event] == ["Read", "Grep", "Write"]


async def test_a_limit_that_the_bench_counts_ends_it_and_it_still_tells_its_dollars(tmp_path, program):
    with serving(optimisation(FILES)) as endpoint:
        agent = ClaudeCode(MODEL, endpoint.root, KEY_VARIABLE, program)
        found = await client_runs.run(agent, tmp_path, productive_turns=4)
    assert (found.stop, found.status, found.speedup) == ("productive_turn_limit", "correct", 1.5)
    assert found.cost_usd is not None
    assert found.cost_usd >= 4 * (100 * 3 + 7 * 15) / 1e6
    client_runs.check_kept(tmp_path)


async def test_a_limit_that_the_client_counts_is_told(tmp_path, program):
    with serving(optimisation(FILES)) as endpoint:
        found = await client_runs.run(ClaudeCode(MODEL, endpoint.root, KEY_VARIABLE, program), tmp_path, turns=2)
    assert (found.stop, found.turns, found.status) == ("turn_limit", 2, "no_correct_kernel")


async def test_dollars_of_a_model_without_a_price_are_unknown(tmp_path, program):
    with serving(optimisation(FILES)) as endpoint:
        found = await client_runs.run(ClaudeCode("scripted", endpoint.root, KEY_VARIABLE, program), tmp_path)
    assert (found.stop, found.speedup, found.cost_usd) == ("finished", 3.0, None)


@pytest.mark.parametrize(
    ("status", "says"), [(401, "refuses the key"), (404, "knows no such model"), (400, "refuses what Claude Code asks")]
)
async def test_a_request_that_is_refused_for_good_is_not_repeated(tmp_path, program, status, says):
    with serving(lambda seen: status) as endpoint:
        found = await client_runs.run(ClaudeCode(MODEL, endpoint.root, KEY_VARIABLE, program), tmp_path)
    assert (found.status, found.stop) == ("broken", "misconfigured")
    assert says in found.error
    client_runs.check_kept(tmp_path)


async def test_a_server_that_does_not_start_breaks_the_run(tmp_path, program, monkeypatch):
    monkeypatch.setattr(client_runs, "FAKE_SERVER", ["/bin/false"])
    with serving(optimisation(FILES)) as endpoint:
        found = await client_runs.run(ClaudeCode(MODEL, endpoint.root, KEY_VARIABLE, program), tmp_path)
    assert (found.status, found.stop) == ("broken", "broken")
    assert "no connection to the MCP server" in found.error


async def test_a_cancelled_run_leaves_nothing(tmp_path, program):
    with serving(endless) as endpoint:
        await check_cancelled(ClaudeCode(MODEL, endpoint.root, KEY_VARIABLE, program), tmp_path)


async def test_a_killed_bench_leaves_nothing(tmp_path, program):
    with serving(endless) as endpoint:
        arguments = f"{MODEL!r}, {endpoint.root!r}, {KEY_VARIABLE!r}, {program!r}"
        await check_killed("hawkeye_bench.agents.claude_code", "ClaudeCode", arguments, tmp_path, {KEY_VARIABLE: KEY})

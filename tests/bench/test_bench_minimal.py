"""The minimal agent against the real server (with the fake judge) and a scripted endpoint."""

import json
import os
from pathlib import Path

import pytest
from bench_fixtures import FAKE_SERVER, plan
from fake_judge import FakeJudge
from hawkeye_bench import driver, runs
from hawkeye_bench.agents.minimal import MinimalAgent
from hawkeye_bench.order import RunKey
from scripted_model import Endpoint, call, say, serving

from hawkeye_mcp import calllog

KEY = "sk-secret-for-the-test"
WRONG = "# fake: incorrect\n"
RIGHT = "# fake: correct\n# fake: speedup 1.5\n"


def agent(endpoint, key_env=""):
    return MinimalAgent("scripted", endpoint.base_url, key_env, retry_delays_s=(0, 0))


async def play(out, steps, key_env="", **changed):
    with serving(steps) as endpoint:
        run = await driver.run_one(
            plan(**changed),
            agent(endpoint, key_env),
            out,
            RunKey("8p_GEMM", "none", 1),
            lambda text: None,
            FakeJudge().open,
            FAKE_SERVER,
        )
    return run, endpoint


@pytest.mark.anyio
async def test_a_wrong_kernel_is_mended_from_its_error_and_counts_once_judged_again(tmp_path):
    seen = {}

    def mend(messages):
        seen["error"] = json.loads(messages[-1]["content"])
        return call("evaluate_kernel", source=RIGHT)

    steps = [
        lambda _: call("read_workload"),
        lambda _: call("evaluate_kernel", source=WRONG),
        mend,
        lambda _: say("It is 100 times faster."),
    ]
    run, endpoint = await play(tmp_path, steps)

    assert seen["error"]["status"] == "incorrect"
    assert (run.status, run.stop) == ("correct", "finished")
    assert run.speedup == 1.5
    assert run.evaluations == 2
    assert run.tool_calls == {"read_workload": 1, "evaluate_kernel": 2}
    assert (run.turns, run.prompt_tokens, run.completion_tokens) == (4, 400, 28)
    assert runs.finished(runs.folder(tmp_path, "8p_GEMM", "none", 1)) == run
    kept = tmp_path / "8p_GEMM/none/1/kernels" / f"{run.kernel_sha256}.py"
    assert kept.read_text() == RIGHT
    # The model was offered the server's tools and nothing else.
    offered = {tool["function"]["name"] for tool in endpoint.requests[0]["tools"]}
    assert offered == {"evaluate_kernel", "profile", "sanitize", "read_workload", "job"}
    statement = endpoint.requests[1]["messages"][-1]["content"]
    assert statement.startswith("# 8p_GEMM")


@pytest.mark.anyio
async def test_a_malformed_call_is_answered_and_the_agent_goes_on(tmp_path):
    broken = {"content": None, "tool_calls": [{"id": "1", "function": {"name": "job", "arguments": "{"}}]}
    unknown = call("evaluate_kernel", code="x")
    run, endpoint = await play(tmp_path, [lambda _: broken, lambda _: unknown, lambda _: say("bye")])
    assert "no JSON" in endpoint.requests[1]["messages"][-1]["content"]
    assert "no argument 'code'" in endpoint.requests[2]["messages"][-1]["content"]
    assert (run.status, run.evaluations) == ("no_kernel", 0)


@pytest.mark.anyio
async def test_the_turn_limit_ends_the_run_and_the_best_kernel_still_counts(tmp_path):
    steps = [lambda _: call("evaluate_kernel", source=RIGHT)] * 5
    run, endpoint = await play(tmp_path, steps, turns=2)
    assert (run.status, run.stop, len(endpoint.requests)) == ("correct", "turn_limit", 2)


@pytest.mark.anyio
async def test_busy_answers_are_retried(tmp_path):
    run, endpoint = await play(tmp_path, [429, 503, lambda _: say("nothing to do")])
    assert (run.stop, len(endpoint.requests)) == ("finished", 3)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answers", "requests", "stop"),
    [([500] * 3, 3, "broken"), ([401], 1, "misconfigured"), ([404], 1, "misconfigured")],
)
async def test_an_endpoint_that_fails_breaks_the_run_which_is_left_to_be_repeated(tmp_path, answers, requests, stop):
    run, endpoint = await play(tmp_path, answers)
    assert (run.status, run.stop, len(endpoint.requests)) == ("broken", stop, requests)
    assert f"HTTP {answers[-1]}" in run.error
    folder = runs.folder(tmp_path, "8p_GEMM", "none", 1)
    assert runs.finished(folder) is None
    assert (folder / "broken.json").exists()


@pytest.mark.anyio
async def test_an_endpoint_that_is_not_there_breaks_the_run(tmp_path):
    gone = Endpoint(base_url="http://127.0.0.1:1/v1")  # where nobody begins to listen meanwhile
    run = await driver.run_one(
        plan(), agent(gone), tmp_path, RunKey("8p_GEMM", "none", 1), lambda text: None, FakeJudge().open, FAKE_SERVER
    )
    assert run.status == "broken"
    assert "ConnectError" in run.error


@pytest.mark.anyio
async def test_a_refusal_in_the_middle_keeps_what_was_reached(tmp_path):
    run, _ = await play(tmp_path, [lambda _: call("evaluate_kernel", source=RIGHT), 400])
    assert (run.status, run.stop, run.speedup) == ("correct", "agent_failed", 1.5)


@pytest.mark.anyio
async def test_the_key_reaches_the_endpoint_only(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_TEST_KEY", KEY)
    environments = []

    def look(_messages):
        start = calllog.read(tmp_path / "8p_GEMM/none/1/calls.jsonl")[0]
        environments.append(Path(f"/proc/{start['pid']}/environ").read_bytes())
        return say("bye")

    steps = [lambda _: call("evaluate_kernel", source=RIGHT), look]
    run, endpoint = await play(tmp_path, steps, key_env="BENCH_TEST_KEY")
    assert endpoint.authorization == [f"Bearer {KEY}"] * 2
    assert os.environ["BENCH_TEST_KEY"] == KEY
    assert b"PATH=" in environments[0]
    assert KEY.encode() not in environments[0]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert run.status == "correct"
    # What the endpoint repeated of it was not even sent back.
    assert KEY not in json.dumps(endpoint.requests)
    assert "Bearer [BENCH_TEST_KEY]" in endpoint.requests[1]["messages"][1]["content"]


@pytest.mark.anyio
@pytest.mark.parametrize("answers", [[401], [500] * 3, [lambda _: call("evaluate_kernel", source=RIGHT), 400]])
async def test_a_key_that_a_failing_endpoint_repeats_is_not_kept(tmp_path, monkeypatch, answers):
    monkeypatch.setenv("BENCH_TEST_KEY", KEY)
    run, _ = await play(tmp_path, answers, key_env="BENCH_TEST_KEY")
    assert "as the script says to Bearer [BENCH_TEST_KEY]" in run.error
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.mark.anyio
async def test_the_prompt_mentions_nothing_that_the_condition_withholds(tmp_path):
    _, endpoint = await play(tmp_path, [lambda _: say("bye")])
    first = json.dumps(endpoint.requests[0]).lower()
    assert "taxonomy" not in first
    assert "pool" not in first
    assert "taxonomy" in driver.prompt(plan(), "8p_GEMM", "taxonomy").lower()

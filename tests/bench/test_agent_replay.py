"""Replay: which recorded kernels a run submits, in which order, and what is said where there are none."""

import json

import pytest
from bench_fixtures import FAKE_SERVER, plan
from fake_judge import FakeJudge
from hawkeye_bench import driver
from hawkeye_bench.agents.replay import Replay, recorded_kernels
from hawkeye_bench.order import RunKey

from hawkeye_mcp import calllog

SLOW, WRONG, FAST = "# fake: speedup 1.5\n", "# fake: incorrect\n", "# fake: speedup 3\n"


def write(folder, **texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)


async def replayed(folder, out, **budget):
    """The run, what was submitted in order, and the notes of the transcript."""
    key = RunKey("8p_GEMM", "none", 1)
    agent = Replay(folder)
    run = await driver.run_one(
        plan(agent=agent.name, **budget), agent, out, key, lambda text: None, FakeJudge().open, FAKE_SERVER
    )
    held = key.folder(out)
    texts = {path.stem: path.read_text() for path in (held / "kernels").glob("*.py")}
    log = calllog.read(held / "calls.jsonl") if (held / "calls.jsonl").exists() else []
    submitted = [texts[line["kernel_sha256"]] for line in log if line["event"] == "submitted"]
    events = [json.loads(line) for line in (held / "transcript.jsonl").read_text().splitlines()]
    return run, submitted, [event["text"] for event in events if "text" in event and event["kind"] == "note"]


@pytest.mark.anyio
async def test_a_folder_is_submitted_by_name_and_its_best_kernel_counts(tmp_path):
    write(tmp_path / "mine" / "8p_GEMM", b_fast=FAST, a_wrong=WRONG, c_slow=SLOW)
    (tmp_path / "mine/8p_GEMM/notes.txt").write_text("no kernel")
    (tmp_path / "mine/8p_GEMM/aa.py").write_bytes(b"\xff\xfe")
    run, submitted, notes = await replayed(tmp_path / "mine", tmp_path / "out")
    assert submitted == [WRONG, FAST, SLOW]
    assert (run.status, run.stop, run.speedup, run.evaluations) == ("correct", "finished", 3.0, 3)
    assert (run.agent, run.model) == ("replay", "replay of mine (recorded kernels)")
    assert (run.productive_turns, run.turns, run.prompt_tokens, run.cost_usd) == (3, 0, None, None)
    assert any(note.startswith("Left out: aa.py is not UTF-8") for note in notes)


def test_the_folder_closest_to_the_run_is_taken(tmp_path):
    def texts(condition, repeat):
        return [path.read_text() for path in recorded_kernels(tmp_path, "8p_GEMM", condition, repeat)]

    write(tmp_path / "8p_GEMM", any=SLOW)
    write(tmp_path / "8p_GEMM" / "taxonomy", told=FAST)
    write(tmp_path / "8p_GEMM" / "taxonomy" / "2", second=WRONG)
    assert texts("none", 2) == [SLOW]
    assert texts("taxonomy", 1) == [FAST]
    assert texts("taxonomy", 2) == [WRONG]
    assert recorded_kernels(tmp_path, "12p_RMSNorm", "taxonomy", 2) == []


@pytest.mark.anyio
async def test_a_folder_of_the_bench_is_replayed_as_it_was_submitted(tmp_path):
    # Neither the order of names nor that of sha256: SLOW, WRONG, FAST.
    write(tmp_path / "mine" / "8p_GEMM", a=SLOW, b=WRONG, c=FAST)
    first, submitted, _ = await replayed(tmp_path / "mine", tmp_path / "first")
    assert submitted == [SLOW, WRONG, FAST]
    again, submitted, _ = await replayed(tmp_path / "first", tmp_path / "second")
    assert submitted == [SLOW, WRONG, FAST]
    assert (again.speedup, again.kernel_sha256) == (3.0, first.kernel_sha256)
    assert again.model == "replay of first (recorded kernels)"


@pytest.mark.anyio
async def test_the_budget_ends_a_replay(tmp_path):
    write(tmp_path / "mine" / "8p_GEMM", a=WRONG, b=SLOW, c=FAST)
    run, submitted, _ = await replayed(tmp_path / "mine", tmp_path / "turns", productive_turns=2)
    assert (submitted, run.stop, run.speedup) == ([WRONG, SLOW], "productive_turn_limit", 1.5)
    run, submitted, notes = await replayed(tmp_path / "mine", tmp_path / "evaluations", evaluations=1)
    assert (submitted, run.stop, run.status) == ([WRONG], "finished", "no_correct_kernel")
    assert "The budget is spent: 2 kernels are left out." in notes


@pytest.mark.anyio
async def test_nothing_to_replay_is_a_finished_run_without_a_kernel(tmp_path):
    write(tmp_path / "mine" / "12p_RMSNorm", other=FAST)
    run, submitted, notes = await replayed(tmp_path / "mine", tmp_path / "out")
    assert (run.status, run.stop, submitted) == ("no_kernel", "finished", [])
    assert notes == [f"{tmp_path / 'mine'} holds no kernel for 8p_GEMM under none."]


@pytest.mark.anyio
async def test_a_folder_that_is_not_there_is_for_a_person_to_mend(tmp_path):
    run, _, _ = await replayed(tmp_path / "nowhere", tmp_path / "out")
    assert (run.stop, run.status) == ("misconfigured", "broken")
    assert f"there is no folder {tmp_path / 'nowhere'}" in run.error

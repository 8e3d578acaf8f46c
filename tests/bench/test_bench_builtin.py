"""The builtin optimiser through the real server with the fake judge."""

import json

import pytest
from bench_fixtures import FAKE_SERVER, plan
from fake_judge import FakeJudge
from hawkeye_bench import driver
from hawkeye_bench.agents.builtin import BuiltinOptimiser
from hawkeye_bench.order import RunKey

from hawkeye_mcp import taxonomy


async def play(out, workload, condition, **changed):
    run = await driver.run_one(
        plan(**changed),
        BuiltinOptimiser(),
        out,
        RunKey(workload, condition, 1),
        lambda text: None,
        FakeJudge().open,
        FAKE_SERVER,
    )
    folder = out / workload / condition / "1"
    transcript = [json.loads(line) for line in (folder / "transcript.jsonl").read_text().splitlines()]
    return run, folder, transcript


@pytest.mark.anyio
async def test_it_optimises_through_the_tools_and_says_what_it_is(tmp_path):
    run, folder, transcript = await play(tmp_path, "41k_Gemm_Add_ReLU", "none")
    assert (run.status, run.stop) == ("correct", "finished")
    assert run.model == "builtin optimiser (not a language model)"
    # The fake judge's time never changes: the first kernel, then two that bring nothing.
    assert run.evaluations == 3
    assert run.tool_calls == {"read_workload": 1, "evaluate_kernel": 3, "profile": 1}
    assert (run.turns, run.prompt_tokens) == (0, None)
    texts = [path.read_text() for path in sorted((folder / "workspace").glob("kernel_*.py"))]
    assert len(set(texts)) == 3
    assert all("not a language model" in text for text in texts)
    assert texts[0].count("pl.pallas_call(") == 2
    assert not [event for event in transcript if event.get("tool") == "read_taxonomy_cell"]


@pytest.mark.anyio
async def test_it_reads_the_cells_where_there_are_some_and_starts_from_what_they_teach(tmp_path):
    run, folder, transcript = await play(tmp_path, "41k_Gemm_Add_ReLU", "taxonomy", evaluations=1)
    rows = [
        e["arguments"].get("row")
        for e in transcript
        if e.get("tool") == "read_taxonomy_cell" and e["kind"] == "tool_call"
    ]
    assert rows[0] is None
    assert {"01_mxu_feed", "05_fused_epilogue"} <= set(rows[1:])
    assert (folder / "workspace" / "kernel_1.py").read_text().count("pl.pallas_call(") == 1
    assert (run.status, run.evaluations) == ("correct", 1)
    assert run.tool_calls["evaluate_kernel"] == 1  # it does not ask for what it has no budget for


@pytest.mark.anyio
@pytest.mark.parametrize(("condition", "kernels"), [("placebo", 2), ("menu", 1)])
async def test_it_learns_from_what_cells_say_and_not_from_the_names_of_their_rows(tmp_path, condition, kernels):
    run, folder, _ = await play(tmp_path, "41k_Gemm_Add_ReLU", condition, evaluations=1)
    rows = [cell.row for cell in taxonomy.rows("v5e")]
    part = "all" if condition == "menu" else "guide"
    assert [(read.row, read.part) for read in run.cells_read] == [(row, part) for row in rows]
    assert (folder / "workspace" / "kernel_1.py").read_text().count("pl.pallas_call(") == kernels
    assert run.condition == condition


@pytest.mark.anyio
async def test_it_declines_a_family_it_does_not_know(tmp_path):
    run, _, transcript = await play(tmp_path, "1p_Flash_Attention", "none")
    assert (run.status, run.stop, run.speedup, run.evaluations) == ("no_kernel", "unknown_family", None, 0)
    assert any("does not know this family" in event.get("text", "") for event in transcript)

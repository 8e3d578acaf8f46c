"""The search with the real judge and the TPU's compiler, on a kernel that takes a second to compile."""

from pathlib import Path

import anyio
import pytest

from hawkeye_mcp.autotune.request import Request
from hawkeye_mcp.autotune.search import search
from hawkeye_mcp.autotune.space import checked
from hawkeye_mcp.judge.evaluate import open_judge
from hawkeye_mcp.workloads import load

KERNEL = (Path(__file__).parents[1] / "kernels" / "12p_RMSNorm.py").read_text(encoding="utf-8")
KERNEL = KERNEL.replace("min(128, flat.shape[0])", "min(ROWS, flat.shape[0])").replace(
    "\n\n\ndef", "\n\nROWS = 16\n\n\ndef", 1
)


def test_blocks_are_compiled_estimated_predicted_and_the_best_is_judged(tmp_path: Path):
    workload = load("12p_RMSNorm")
    request = Request(KERNEL, workload, "v5e", checked({"ROWS": [16, 8, 128, 512]}), "halving")

    async def searched():
        async with open_judge(warm="v5e") as judge:

            async def evaluate(source):
                return await judge.evaluate(source, workload, "v5e")

            return await search(request, judge, evaluate, tmp_path / "run", "mark", progress=lambda said: None)

    found = anyio.run(searched)
    by_rows = {each.parameters["ROWS"]: each for each in found.looked_at}
    assert (found.status, found.best.parameters, found.best.seeds) == ("indistinguishable", {"ROWS": 128}, 3)
    assert by_rows[512].status == "compile_error"
    assert "vmem" in by_rows[512].compiler_message
    assert (by_rows[16].rung, by_rows[128].rung, by_rows[8].rung) == ("prediction", "prediction", "estimate")
    assert by_rows[8].estimate_us > by_rows[16].estimate_us > by_rows[128].estimate_us
    # an estimate leaves the schedule out, so it is not above what the schedule takes, and near it
    assert by_rows[128].predicted_us * 0.9 < by_rows[128].estimate_us <= by_rows[128].predicted_us * 1.01
    assert found.best.us == by_rows[128].predicted_us, "an evaluation predicts what the search predicted"
    assert found.gain.ratio == pytest.approx(by_rows[16].predicted_us / by_rows[128].predicted_us, rel=1e-3)
    assert found.gain.ratio > 1.05
    assert (tmp_path / "run" / "best_kernel.py").read_text() == KERNEL.replace("ROWS = 16", "ROWS = 128")

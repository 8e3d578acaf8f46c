"""Parts of the pipeline that need no worker."""

import anyio
import pytest

from hawkeye_mcp import taxonomy, workloads
from hawkeye_mcp.evaluation import OpTime, Timing
from hawkeye_mcp.judge import evaluate
from hawkeye_mcp.judge.verdict import Verdict
from hawkeye_mcp.judge.work import Work

PEAKS = {"bf16_flops_per_s": 197e12, "hbm_bytes_per_s": 820e9}


def _work() -> Work:
    return Work("", workloads.load("41k_Gemm_Add_ReLU"), "v5e", lambda stage: None)


def test_a_damaged_cell_takes_nothing_but_its_row_from_the_diagnosis(monkeypatch):
    work = _work()
    op = OpTime(
        name="kernel", kind="mosaic", method="static_profile", static_us=9e3, hbm_floor_us=300, hbm_bytes=2 << 27,
        us=9e3, bound="static_schedule",
    )  # fmt: skip
    work.timing = Timing(source="predicted", candidate_us=9e3, baseline_us=None, speedup=None, ops=[op])
    work.peaks = PEAKS
    (whole,) = evaluate._findings(work)
    assert whole.taxonomy_row == "01_mxu_feed"

    def broken(tpu: str) -> None:
        raise ValueError("config.json is not JSON")

    monkeypatch.setattr(taxonomy, "rows", broken)
    assert evaluate._findings(work) == [whole.model_copy(update={"taxonomy_row": None})]


@pytest.mark.anyio
async def test_a_verdict_waits_for_the_other_stage_which_keeps_its_worker():
    ended = anyio.Event()
    told = anyio.Event()

    async def refuses(work: Work) -> None:
        told.set()
        raise Verdict("compile_error", "no")

    async def ends_by_itself(work: Work) -> None:
        await told.wait()
        await anyio.lowlevel.checkpoint()
        ended.set()

    with pytest.raises(Verdict, match="no"):
        await evaluate._side_by_side(_work(), refuses, ends_by_itself)
    assert ended.is_set()


@pytest.mark.anyio
async def test_a_verdict_does_not_wait_for_a_stage_that_goes_on(monkeypatch):
    monkeypatch.setattr(evaluate, "GRACE_S", 0.0)
    cut_off = anyio.Event()

    async def refuses(work: Work) -> None:
        raise Verdict("compile_error", "no")

    async def goes_on(work: Work) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cut_off.set()

    with pytest.raises(Verdict, match="no"):
        await evaluate._side_by_side(_work(), refuses, goes_on)
    assert cut_off.is_set()


@pytest.mark.anyio
async def test_of_two_verdicts_the_one_to_mend_first_is_given():
    async def times_out(work: Work) -> None:
        raise Verdict("timeout", "slow")

    async def refuses(work: Work) -> None:
        raise Verdict("compile_error", "no")

    with pytest.raises(Verdict, match="no"):
        await evaluate._side_by_side(_work(), times_out, refuses)

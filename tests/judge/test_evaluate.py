"""Parts of the pipeline that need no worker."""

import anyio
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.judge import evaluate
from hawkeye_mcp.judge.verdict import Verdict
from hawkeye_mcp.judge.work import Work


def _work() -> Work:
    return Work("", workloads.load("41k_Gemm_Add_ReLU"), "v5e", lambda stage: None)


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

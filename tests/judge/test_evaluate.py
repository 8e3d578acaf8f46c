"""Parts of the pipeline that need no worker."""

import anyio
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.evaluation import Correctness, Timing
from hawkeye_mcp.judge import conclusion, evaluate
from hawkeye_mcp.judge.verdict import Verdict
from hawkeye_mcp.judge.work import Work


def _work() -> Work:
    return Work("", workloads.load("41k_Gemm_Add_ReLU"), "v5e", lambda stage: None)


@pytest.mark.parametrize(("interval", "doubt"), [((0.9, 1.4), "leave 0.9 to 1.4"), ((1.05, 1.4), None), (None, None)])
def test_a_speedup_that_may_be_none_is_told_with_its_interval(interval, doubt):
    work = _work()
    work.correctness = Correctness(ok=True, size="check", seeds=3, gate="E <= 0.01", outputs=[])
    work.timing = Timing(
        source="predicted", candidate_us=80, baseline_us=100, speedup=1.25, speedup_interval=interval,
        indistinguishable=doubt is not None,
    )  # fmt: skip
    message = conclusion.conclude(work).message
    assert "1.25 times the speed of the XLA baseline (100 us, predicted)" in message
    assert ("may be an error" in message) is (doubt is not None)
    assert doubt is None or doubt in message


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

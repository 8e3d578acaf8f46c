"""The quick checks of an evaluation, in the sandbox that has just traced the kernel, whatever the kernel does there."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.candidate.sandbox import Limits, Sandbox
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.judge.evaluate import Judge
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.sanitizer import corpus, run
from hawkeye_mcp.sanitizer.run import Sanitizer

pytestmark = pytest.mark.anyio
NORM = workloads.load("12p_RMSNorm")
CHIP = CHIPS["v5e"]
GOOD = (Path(__file__).parents[1] / "kernels" / "12p_RMSNorm.py").read_text()
RAN = ["static", "uninitialised", "out_of_bounds", "dma", "semaphores", "revisits", "parallel", "races"]
# Is traced twice for the artifacts; what the sanitizer does afterwards begins with a third time.
THIRD = """
import os, signal, time
honest, traced = workload, []


def workload(*inputs):
    traced.append(0)
    if len(traced) == 3:
        {does}
    return honest(*inputs)
"""


class _Verifier:
    """Draws as a worker does, without jax in this process."""

    async def call(self, method: str, limit_s: float, **params: object) -> dict[str, object]:
        assert method == "public_inputs"
        declared = NORM.shapes(NORM.inputs, "check")
        shown = " ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in declared)
        return {"inputs": corpus.case("norm", f"inputs: {shown}").inputs}


@contextlib.asynccontextmanager
async def _traced(source: str) -> AsyncIterator[Sandbox]:
    box = await Sandbox.start(CHIP, Limits())
    try:
        inputs = {size: NORM.shapes(NORM.inputs, size) for size in ("full", "check")}
        ended = await box.trace(source, inputs, CHIP)
        assert set(ended.reply["artifacts"]) == {"full", "check"}
        yield box
    finally:
        await box.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a slow machine would leave out is no subject."""
    monkeypatch.setattr(run, "QUICK_S", 600.0)


async def _beside(source: str) -> run.Sanitized:
    async with _traced(source) as box:
        return await Sanitizer(None, _Verifier()).beside(box, source, NORM, "v5e")


@pytest.mark.usefixtures("patient")
async def test_the_sandbox_that_traced_a_kernel_watches_it_too():
    found = await _beside(GOOD)
    assert (found.status, found.findings, found.checks) == ("silent", [], RAN)
    assert {skip.check: skip.reason for skip in found.not_checked} == {
        "seeds": "it is left to the sanitizer alone",
        "two_cores": "v5e has one TensorCore",
    }
    ran = ", ".join(RAN)
    assert found.in_one_line() == f"silent; ran: {ran}; did not run in full: seeds, two_cores"


@pytest.mark.usefixtures("patient")
async def test_a_kernel_that_was_traced_for_the_interpreter_before_is_watched_and_not_taken_from_a_cache():
    source = GOOD.replace("def workload(", "@jax.jit\ndef workload(")
    source = source.replace("out_ref[...] =", "out_ref[:8] =").replace(
        ".astype(out_ref.dtype)", ".astype(x_ref.dtype)[:8]"
    )
    found = await _beside(source)
    assert [finding.kind for finding in found.findings] == ["unwritten_output"]


@pytest.mark.parametrize(
    ("does", "limit_s", "grace_s", "said"),
    [
        ("time.sleep(600)", 1.0, 600.0, "it was not done within 1 s"),
        # its own limit is far, so that it ends by that of the judge even where it is slow to come as far as this
        ("os.kill(os.getpid(), signal.SIGSTOP)", 600.0, -597.0, "still running after 3 s"),
        ("os._exit(7)", 600.0, 1.0, "exit code 7"),
        ("raise SystemExit('leaving')", 600.0, 1.0, "SystemExit: leaving"),
    ],
)
async def test_a_kernel_that_hangs_or_ends_while_it_is_watched_is_said_to(monkeypatch, does, limit_s, grace_s, said):
    monkeypatch.setattr(run, "QUICK_S", limit_s)
    monkeypatch.setattr(run, "_GRACE_S", grace_s)
    found = await _beside(GOOD + THIRD.format(does=does))
    assert found.findings == []
    assert set(found.checks) <= {"static"}  # which came first, where the process lives to tell
    assert {*found.checks, *(skip.check for skip in found.not_checked)} == {*RAN, "seeds", "two_cores"}
    assert said in found.not_checked[0].reason


async def test_an_evaluation_that_is_cancelled_ends_it():
    async with _traced(GOOD + THIRD.format(does="time.sleep(600)")) as box:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(Sanitizer(None, _Verifier()).beside, box, GOOD, NORM, "v5e")
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
    assert scope.cancelled_caught
    assert not box.alive


class _Failing:
    async def beside(self, *given: object) -> None:
        raise KeyError("of the sanitizer's own")


async def test_what_fails_in_the_sanitizer_itself_is_no_verdict():
    judge = Judge.__new__(Judge)
    judge._sanitizer = _Failing()
    work = Work(GOOD, NORM, "v5e", lambda stage: None)
    await judge._sanitize(None, work)
    assert work.sanitized is None
    assert "sanitize" in work.stages_s

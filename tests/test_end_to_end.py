"""The whole path on every fixture kernel: traced, audited, verified, compiled and predicted for a v5e."""

from pathlib import Path

import anyio.from_thread
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.judge.evaluate import open_judge

KERNELS = sorted(
    path for path in (Path(__file__).parent / "kernels").glob("[0-9]*.py") if path.stem in workloads.names()
)
DATA_DEPENDENT = {"11p_Megablox_GMM"}


@pytest.fixture(scope="module")
def judge_it():
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(open_judge()) as judge:
        yield lambda path: portal.call(judge.evaluate, path.read_text(), workloads.load(path.stem), "v5e")


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_fixture_kernel_is_correct_and_has_a_time(judge_it, path):
    found = judge_it(path)
    assert found.status == "correct", found.message
    assert found.audit.kernels
    assert found.correctness.seeds == 3
    assert found.correctness.size == "check"
    timing, workload = found.timing, workloads.load(path.stem)
    assert timing.source == "predicted"
    assert timing.baseline_us
    assert {op.kind for op in timing.ops} >= {"mosaic"}
    if path.stem in DATA_DEPENDENT:
        assert timing.lower_bound
        assert timing.speedup is None
        return
    # not faster than the chip can be (197 TFLOP/s, 820 GB/s), and not absurdly slow for a decent kernel
    floor_us = max((workload.least_flops or workload.flops) / 197e12, workload.least_bytes / 820e9) * 1e6
    assert 0.99 * floor_us <= timing.candidate_us <= 10 * floor_us
    assert timing.speedup == pytest.approx(timing.baseline_us / timing.candidate_us, rel=1e-3)

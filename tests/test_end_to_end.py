"""The whole path on every fixture kernel: traced, audited, verified, compiled and predicted for a v5e, or for a v6e
where a v5e cannot hold the baseline."""

from pathlib import Path

import anyio.from_thread
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.judge.evaluate import open_judge

KERNELS = sorted(
    path for path in (Path(__file__).parent / "kernels").glob("[0-9]*.py") if path.stem in workloads.names()
)
PEAKS = {"v5e": (197e12, 820e9), "v6e": (918e12, 1640e9)}  # FLOP/s in bfloat16, bytes/s of HBM
OF_ONE_DRAW = {"11p_Megablox_GMM"}  # what they do depends on integers among the inputs

# XLA copies their operands to another layout, and libtpu has no profile of a program with such a copy.
WITHOUT_PROFILE = {"16p_Mamba2_SSD", "18k_Conv2D_ReLU_BiasAdd"}


@pytest.fixture(scope="module")
def judge_it():
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(open_judge()) as judge:
        yield lambda path: portal.call(judge.evaluate, path.read_text(), workloads.load(path.stem), _chip(path))


def _chip(path):
    return "v6e" if "v5e" in workloads.load(path.stem).does_not_fit else "v5e"


# Half a minute each: make test-slow.
SLOW = {"11p_Megablox_GMM", "13p_Cross_Entropy", "16p_Mamba2_SSD", "18k_Conv2D_ReLU_BiasAdd"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in KERNELS],
)
def test_a_fixture_kernel_is_correct_and_has_a_time(judge_it, path):
    found = judge_it(path)
    assert found.status == "correct", found.message
    assert found.audit.kernels
    assert found.correctness.seeds == 3
    assert found.correctness.size == "check"
    assert (found.correctness.on_tpu, found.correctness.on_tpu_note) == ("agrees", None)
    assert found.sanitized.findings == []
    timing, workload = found.timing, workloads.load(path.stem)
    assert timing.baseline_us
    if path.stem in WITHOUT_PROFILE and timing.source is None:
        assert timing.candidate_us is None
        assert any("static profile unavailable" in note for note in timing.notes)
        return
    assert timing.source == "predicted"
    assert {op.kind for op in timing.ops} >= {"mosaic"}
    assert not timing.lower_bound
    assert any("one draw" in note for note in timing.notes) == (path.stem in OF_ONE_DRAW)
    # not faster than the chip can be, and not absurdly slow for a decent kernel
    flops_per_s, bytes_per_s = PEAKS[_chip(path)]
    floor_us = max((workload.least_flops or workload.flops) / flops_per_s, workload.least_bytes / bytes_per_s) * 1e6
    assert 0.99 * floor_us <= timing.candidate_us <= 10 * floor_us
    assert timing.speedup == pytest.approx(timing.baseline_us / timing.candidate_us, rel=1e-3)

"""Fixture kernels with one mistake each, profiled by the real compiler: the first finding is the mistake."""

import pytest
from mistakes import source

from hawkeye_mcp import workloads
from hawkeye_mcp.judge.evaluate import open_judge
from hawkeye_mcp.profile import Profile

# Which figure shows it first, and what binds; the other mistakes are those of test_operands.py.
SHOWN_BY = {
    "tiny blocks": ("kernels[].phases.step_cycles", "latency"),
    "an operand read again and again": ("traffic[operand 1 bf16[8192,8192]].factor", "hbm"),
    "copies by hand, one after another": ("kernels[].stalls", "latency"),
}


def _adds_up(profile: Profile) -> None:
    """What holds of every profile, whatever the kernel."""
    assert profile.roofline
    assert profile.predicted_us
    ceilings = {ceiling.unit: ceiling.us for ceiling in profile.roofline.ceilings}
    assert set(ceilings) == {"hbm", "mxu", "vpu", "eup"}
    # a unit's ceiling is a least time for what the candidate does: no time is below it
    assert max(ceilings.values()) <= profile.predicted_us
    assert profile.roofline.best_us == max(ceilings["hbm"], ceilings["mxu"])
    (kernel,) = profile.kernels
    named = sum(buffer.bytes for buffer in kernel.buffers if buffer.space == "vmem")
    assert named == profile.vmem_bytes
    assert sum(t.bytes for t in kernel.traffic) <= profile.hbm_bytes
    assert all(one.costs_us <= profile.predicted_us for one in profile.findings)


@pytest.mark.anyio
async def test_the_first_finding_is_the_mistake():
    async with open_judge() as judge:
        for mistake, (counter, binds) in SHOWN_BY.items():
            workload, text = source(mistake)
            profile = await judge.profile(text, workloads.load(workload), "v5e")
            assert profile.status == "profiled", profile.message
            assert (mistake, profile.findings[0].counter, profile.bound) == (mistake, counter, binds)
            _adds_up(profile)

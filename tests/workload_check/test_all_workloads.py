"""The audit of every workload, one a test, and the page that shows them. What is kept from the same code is taken."""

import sys

import anyio
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check import readme, runner, show

WORKLOADS = [workloads.load(name) for name in workloads.names()]


def _checked(wanted):
    """Audits that this or another process has not made yet are made."""

    async def run():
        return await runner.check(
            wanted, "check", fresh=False, done=lambda found: print(show.line(found), file=sys.stderr)
        )

    return anyio.run(run)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_workload_tells_right_from_wrong(workload):
    (found,) = _checked([workload])
    assert found.problems == []
    assert found.ok
    assert workload.no_power or found.power >= 0.5


def test_only_the_one_that_says_so_has_no_power():
    assert [w.name for w in WORKLOADS if w.no_power] == ["26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply"]


def test_the_page_is_current():
    page = readme.path().read_text(encoding="utf-8")
    found = readme.differences(page, readme.render(WORKLOADS, _checked(WORKLOADS)))
    assert found == [], "Next: hawkeye workloads readme --write"


def test_what_does_not_fit_is_what_the_compiler_refused_as_a_baseline():
    for workload in WORKLOADS:
        entries = {tpu: baseline.shipped(workload, tpu, versions()) for tpu in runner.FULL_SIZE_CHIPS}
        refused = {tpu: entry.refused for tpu, entry in entries.items() if entry and entry.refused is not None}
        for tpu, words in refused.items():
            assert workload.does_not_fit.get(tpu, "not declared") in words, (workload.name, tpu)
        assert all(not entries[tpu] or tpu in refused for tpu in workload.does_not_fit), workload.name

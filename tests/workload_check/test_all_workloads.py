"""The audit of every workload, and the page that shows it. A result that is kept from the same code is taken."""

import sys

import anyio
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check import readme, runner, show

WORKLOADS = [workloads.load(name) for name in workloads.names()]


@pytest.fixture(scope="module")
def checks():
    def done(found):
        print(show.line(found), file=sys.stderr)

    async def run():
        return await runner.check(WORKLOADS, "check", fresh=False, done=done)

    return {found.name: found for found in anyio.run(run)}


@pytest.mark.parametrize("name", [workload.name for workload in WORKLOADS])
def test_the_workload_tells_right_from_wrong(checks, name):
    assert checks[name].problems == []
    assert checks[name].ok


def test_only_the_one_that_says_so_has_no_power(checks):
    assert [w.name for w in WORKLOADS if w.no_power] == ["26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply"]
    assert all(checks[w.name].power >= 0.5 for w in WORKLOADS if not w.no_power)


def test_the_page_is_current(checks):
    page = readme.path().read_text(encoding="utf-8")
    found = readme.differences(page, readme.render(WORKLOADS, [checks[w.name] for w in WORKLOADS]))
    assert found == [], "Next: hawkeye workloads readme --write"


def test_what_does_not_fit_is_what_the_compiler_refused_as_a_baseline():
    for workload in WORKLOADS:
        entries = {tpu: baseline.shipped(workload, tpu, versions()) for tpu in runner.FULL_SIZE_CHIPS}
        refused = {tpu: entry.refused for tpu, entry in entries.items() if entry and entry.refused is not None}
        for tpu, words in refused.items():
            assert workload.does_not_fit.get(tpu, "not declared") in words, (workload.name, tpu)
        assert all(not entries[tpu] or tpu in refused for tpu in workload.does_not_fit), workload.name

"""Are the shipped baselines those of the workloads as they stand? Looked up with each check; nothing is computed."""

from collections.abc import Sequence

from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.judge import shipping
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check.report import Checked
from hawkeye_mcp.workloads import Workload


def noticed(checks: Sequence[Checked], workloads: Sequence[Workload]) -> list[Checked]:
    """The checks, in the order of the workloads, with a problem in each whose shipped baselines are not its own.

    A user's own workload has none to be shipped.
    """
    return [
        check.model_copy(update={"ok": False, "problems": [*check.problems, problem]})
        if (problem := "" if "/" in workload.reference else not_current(workload))
        else check
        for check, workload in zip(checks, workloads, strict=True)
    ]


def not_current(workload: Workload) -> str:
    """Which of a shipped workload's baselines are stale or missing and what to run, or nothing."""
    rows = shipping.rows([(tpu, workload) for tpu in TPUS], versions())
    found = ", ".join(f"{row.tpu} {row.state}" for row in rows if row.state != "current")
    return found and f"shipped baselines: {found}; predict them: hawkeye baselines --workload {workload.name}"

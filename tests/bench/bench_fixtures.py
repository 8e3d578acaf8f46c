"""What the bench tests share: a plan, and the real MCP server around the fake judge."""

import sys
from pathlib import Path
from typing import Any

from hawkeye_bench.budget import Budget
from hawkeye_bench.runs import Plan

from hawkeye_mcp.versions import versions

TESTS = Path(__file__).resolve().parent.parent
FAKE_SERVER = [sys.executable, str(TESTS / "fake_judge_server.py")]


BUDGET = Budget(turns=20, evaluations=5, minutes=30.0)


def plan(**changed: Any) -> Plan:
    """A small plan; fields of the budget are given by their own names."""
    fields: dict[str, Any] = {
        "agent": "minimal",
        "model": "scripted",
        "base_url": "",
        "tpu": "v5e",
        "workloads": ["8p_GEMM"],
        "conditions": ["none"],
        "reps": 1,
        "versions": versions(),
        "judge": "0123",
    }
    spent = {name: changed.pop(name) for name in list(changed) if name in Budget.model_fields}
    fields["budget"] = BUDGET.model_copy(update=spent)
    return Plan(**fields | changed)

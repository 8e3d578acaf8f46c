"""What the bench tests share: a plan, and the real MCP server around the fake judge."""

import sys
from pathlib import Path
from typing import Any

from hawkeye_bench.runs import Plan

from hawkeye_mcp.versions import versions

TESTS = Path(__file__).resolve().parent.parent
FAKE_SERVER = [sys.executable, str(TESTS / "fake_judge_server.py")]


def plan(**changed: Any) -> Plan:
    fields: dict[str, Any] = {
        "agent": "minimal",
        "model": "scripted",
        "base_url": "",
        "tpu": "v5e",
        "max_turns": 20,
        "max_evaluations": 5,
        "max_minutes": 2.0,
        "workloads": ["8p_GEMM"],
        "conditions": ["none"],
        "reps": 1,
        "versions": versions(),
        "judge": "0123",
    }
    return Plan(**fields | changed)

"""The page of threats names the test that shows each defence; none of them may be gone."""

import ast
import re
from pathlib import Path

import hawkeye_mcp
from hawkeye_mcp.candidate.sandbox import Limits
from hawkeye_mcp.judge.audit import ARTIFACT_BYTES
from hawkeye_mcp.sanitizer import run

ROOT = Path(__file__).parents[1]
PAGE = (Path(hawkeye_mcp.__file__).parent / "THREAT_MODEL.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 25
    for file, test in named:
        functions = [
            node.name
            for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        assert test in functions, f"{file}::{test}"


def test_every_defence_names_one():
    rows = [
        line for line in PAGE.partition("## What stops what")[2].partition("## ")[0].splitlines() if line[:1] == "|"
    ]
    assert all("`tests/" in row for row in rows[2:])


def test_the_figures_are_those_of_the_code():
    limits = Limits()
    assert (
        f"{limits.memory_bytes >> 30} GiB of addresses, {limits.cpu_s} s of CPU, {limits.wall_s:g} s of wall time"
        in PAGE
    )
    assert f"{limits.output_bytes >> 20} MiB of output" in PAGE
    assert f"it has {run.QUICK_S + run._GRACE_S:g} s; the verdict" in PAGE
    assert f"at most {ARTIFACT_BYTES >> 20} MiB" in PAGE

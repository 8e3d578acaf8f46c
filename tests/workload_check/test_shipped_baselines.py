"""A check of a shipped workload is not ok while one of its shipped baselines is another's or missing."""

import json

import pytest
from small_workloads import write
from typer.testing import CliRunner

from hawkeye_mcp import cli, workloads
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check import baselines, runner
from hawkeye_mcp.workload_check.report import Checked, Mutants

GEMM = workloads.load("8p_GEMM")


def checked(name, problems=()):
    none = Mutants(caught=[], survived=[], allowed=[], equivalent=[])
    return Checked(
        name=name, ok=not problems, size="check", gate="", seeds=[], power=None, honest=[], mutants=none,
        seconds=1, problems=list(problems),
    )  # fmt: skip


@pytest.fixture
def ship(tmp_path, monkeypatch):
    """Ship an entry of 8p_GEMM for a chip, computed from the workload as it is, or with another fingerprint."""
    monkeypatch.setattr(baseline, "shipped_path", lambda tpu: tmp_path / f"{tpu}.json")

    def one(tpu, fingerprint=None):
        entry = baseline.Entry(
            workload=GEMM.name,
            tpu=tpu,
            costs=[baseline.OpCost(name="fusion", kind="xla", method="xla_estimate", cycles=1e7, hbm_bytes=1)],
            peaks={"clock_hz": 1e9, "hbm_bytes_per_s": 1e15, "bf16_flops_per_s": 1e18},
            versions=versions(),
            fingerprint=fingerprint or baseline.fingerprint(GEMM, tpu, versions()),
        )
        (tmp_path / f"{tpu}.json").write_text(json.dumps({GEMM.name: entry.kept()}))

    return one


def test_what_is_stale_or_missing_is_a_problem_that_says_what_to_run(ship, tmp_path, monkeypatch):
    ship("v5e")
    ship("v5p", fingerprint="of another workload")
    ship("7x")
    said = "shipped baselines: v5p stale, v6e missing; predict them: hawkeye baselines --workload 8p_GEMM"
    (found,) = baselines.noticed([checked("8p_GEMM", ["zeros passes"])], [GEMM])
    assert (found.ok, found.problems) == (False, ["zeros passes", said])

    async def check(workloads, size, *, fresh, done):
        return [checked(workload.name) for workload in workloads]

    monkeypatch.setattr(runner, "check", check)
    failed = CliRunner().invoke(cli.app, ["workloads", "check", "8p_GEMM"])
    assert failed.exit_code == 1
    assert f"8p_GEMM: {said}" in failed.stdout
    ship("v5p")
    ship("v6e")
    assert CliRunner().invoke(cli.app, ["workloads", "check", "8p_GEMM"]).exit_code == 0


def test_a_users_own_workload_has_none(ship, tmp_path):
    mine = write(tmp_path)
    assert baselines.noticed([checked("mine")], [mine]) == [checked("mine")]


def test_those_of_all_workloads_are_current():
    found = [baselines.not_current(workloads.load(name)) for name in workloads.names()]
    assert [problem for problem in found if problem] == []

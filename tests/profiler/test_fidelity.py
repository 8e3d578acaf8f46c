"""The sampled prediction against libtpu's own profile of the whole run."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hawkeye_mcp import cli
from hawkeye_mcp import fidelity as check
from hawkeye_mcp.fidelity import Fidelity, Row, UnknownKernel, fidelity
from hawkeye_mcp.profiler.fidelity_kernels import SUBJECTS
from hawkeye_mcp.versions import versions

# two cores, waits in threes, an inner pipeline whose rows end in a store, a causal mask
NAMES = ("matmul_two_cores", "elementwise", "pipelined_matmul", "causal_attention")


@pytest.mark.anyio
async def test_sampled_cycles_are_within_one_percent_of_the_whole():
    told = []
    found = await fidelity(NAMES, told.append)
    assert [row.kernel for row in found.rows] == told == list(NAMES)
    for row in found.rows:
        assert row.full_cycles
        assert row.sampled_cycles == pytest.approx(row.full_cycles, rel=0.01), row.kernel
        assert row.sampled_steps < row.steps
        assert row.time_ratio
        assert row.full_s
        assert row.note == ""
    assert found.good
    assert found.worst_error == max(abs(row.error or 0) for row in found.rows)
    # no less than the matmul units of 128 by 128 need, four on each of two cores
    assert (found.rows[0].full_cycles or 0) > 2 * _products("matmul_two_cores") / (2 * 4 * 2 * 128 * 128)


def _products(name: str) -> int:
    ((m, k), _), ((_, n), _) = SUBJECTS[name].inputs
    return m * k * n


def test_every_way_to_use_a_grid_is_among_the_kernels():
    assert len(SUBJECTS) >= 12
    assert {"v5e", "v5p", "v6e", "7x"} == {subject.tpu for subject in SUBJECTS.values()}


@pytest.mark.anyio
async def test_an_unknown_kernel_is_named_with_those_there_are():
    with pytest.raises(UnknownKernel, match=r"no kernel nonsense; there are matmul_1024, matmul_512, "):
        await fidelity(["norm", "nonsense"])


def _report(*errors: float | None) -> Fidelity:
    rows = [
        Row(kernel=f"k{at}", tpu="v5e", error=error, note="" if error is not None else "it died")
        for at, error in enumerate(errors)
    ]
    return Fidelity(rows=rows, worst_error=max(abs(e) for e in errors if e is not None), versions=versions())


@pytest.mark.parametrize(
    ("errors", "code"), [((0.0099, -0.0099), 0), ((0.0, -0.0101), 1), ((0.0101,), 1), ((0.0, None), 1)]
)
def test_the_command_fails_where_one_is_off_or_has_no_figure(monkeypatch, errors, code):
    asked = []

    async def report(names, progress):
        asked.append(list(names))
        return _report(*errors)

    monkeypatch.setattr(check, "fidelity", report)
    ran = CliRunner().invoke(cli.app, ["fidelity", "--json", "--kernel", "norm"])
    assert ran.exit_code == code
    assert [row["error"] for row in json.loads(ran.stdout)["rows"]] == list(errors)
    assert {"kernel", "full_cycles", "sampled_cycles", "error", "time_ratio"} <= set(json.loads(ran.stdout)["rows"][0])
    assert asked == [["norm"]]


def test_the_table_shows_errors_and_why_one_is_missing():
    console = Console(width=160, record=True, highlight=False)
    with console.capture() as captured:
        check.show(_report(0.004, None), console)
    assert "+0.400%" in captured.get()
    assert "k1: it died" in captured.get()
    assert "limit 1%" in captured.get()

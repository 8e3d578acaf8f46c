"""workloads/README.md: what makes it out of date, and what does not."""

import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.workload_check import readme, runner
from hawkeye_mcp.workload_check.report import Checked, Mutants

HEADER = "| " + " | ".join(readme._HEADER) + " |\n"


def _page(power="98%", honest="0.0016", caught="10 of 10", baseline="v5e 1.04", full="", intro="# Workloads\n"):
    row = ("8p_GEMM", "matmul", "M=8192", "3,848.3", "671.1", "FLOPs", power, honest, "E <= 0.01", caught, baseline)
    return f"{intro}{HEADER}| {' | '.join((*row, full))} |\n"


def test_baselines_and_the_last_digit_of_measured_figures_do_not_count():
    assert readme.differences(_page(), _page()) == []
    assert readme.differences(_page(baseline=""), _page(baseline="v5e >=2, v6e 1.1")) == []
    assert readme.differences(_page(full=""), _page(full="12 s, 3.4 GB")) == []
    assert readme.differences(_page(power="97%", honest="0.0017"), _page()) == []


def test_anything_else_does():
    for changed in ({"power": "90%"}, {"honest": "0.003"}, {"caught": "9 of 10"}, {"power": "none"}):
        found = readme.differences(_page(**changed), _page())
        assert [line[0] for line in found] == ["+", "-"], changed
    assert readme.differences(_page(intro="# Other\n"), _page()) == ["+ # Workloads", "- # Other"]
    assert len(readme.differences("", _page())) == 3


@pytest.mark.parametrize(
    ("seconds", "peak", "cell"), [(171.6, 3_449_000_000, "172 s, 3.4 GB"), (None, None, "over 12 GB")]
)
def test_figures_at_full_size_are_this_machines_or_stay_what_they_were(monkeypatch, seconds, peak, cell):
    gemm = workloads.load("8p_GEMM")
    found = Checked(
        name=gemm.name, ok=True, size="full", gate="", seeds=[], power=None, honest=[], problems=[],
        mutants=Mutants(caught=[], survived=[], allowed=[], equivalent=[]),
        seconds=seconds, cpu_seconds=seconds, peak_bytes=peak,
    )  # fmt: skip
    known = {}
    monkeypatch.setattr(runner, "known", lambda workload, size: known.get((workload.name, size)))

    def last(page):
        return readme.render([gemm], [found], page).splitlines()[-1].split(" | ")[-1].removesuffix(" |")

    assert last("").strip() == ""
    assert last(_page(full="9 s, 1.0 GB")) == "9 s, 1.0 GB"
    known[gemm.name, "full"] = found
    assert last("") == last(_page(full="9 s, 1.0 GB")) == cell

"""workloads/README.md: what makes it out of date, and what does not."""

from hawkeye_mcp.workload_check import readme

HEADER = "| " + " | ".join((*readme._COLUMNS, readme._BASELINE)) + " |\n"


def _page(power="98%", honest="0.0016", caught="10 of 10", baseline="v5e 1.04", intro="# Workloads\n"):
    row = ("8p_GEMM", "matmul", "M=8192", "3,848.3", "671.1", "FLOPs", power, honest, "E <= 0.01", caught, baseline)
    return f"{intro}{HEADER}| {' | '.join(row)} |\n"


def test_baselines_and_the_last_digit_of_measured_figures_do_not_count():
    assert readme.differences(_page(), _page()) == []
    assert readme.differences(_page(baseline=""), _page(baseline="v5e >=2, v6e 1.1")) == []
    assert readme.differences(_page(power="97%", honest="0.0017"), _page()) == []


def test_anything_else_does():
    for changed in ({"power": "90%"}, {"honest": "0.003"}, {"caught": "9 of 10"}, {"power": "none"}):
        found = readme.differences(_page(**changed), _page())
        assert [line[0] for line in found] == ["+", "-"], changed
    assert readme.differences(_page(intro="# Other\n"), _page()) == ["+ # Workloads", "- # Other"]
    assert len(readme.differences("", _page())) == 3

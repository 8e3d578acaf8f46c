import io

from rich.console import Console

from hawkeye_mcp import display
from hawkeye_mcp.evaluation import Timing


def _shown(**changed):
    known = {"source": "predicted", "candidate_us": 50.0, "baseline_us": 100.0, "speedup": 2.0}
    console = Console(file=io.StringIO(), width=200)
    display._timing(Timing(**(known | changed)), console)
    return console.file.getvalue()


def test_exact_times_are_told_plainly():
    assert "candidate 50 us, XLA baseline 100 us, speedup 2\n" in _shown()


def test_a_floor_under_the_baseline_is_at_least_and_so_is_the_speedup():
    found = _shown(baseline_lower_bound=True)
    assert "candidate 50 us, XLA baseline at least 100 us, speedup at least 2\n" in found


def test_a_lower_bound_of_the_candidate_has_no_speedup():
    found = _shown(lower_bound=True, speedup=None, notes=["it depends on data"])
    assert "candidate at least 50 us, XLA baseline 100 us\n" in found
    assert "it depends on data" in found

import io

import profiles
from rich.console import Console

from hawkeye_mcp import display
from hawkeye_mcp.evaluation import Correctness, OutputError, Timing
from hawkeye_mcp.taxonomy import Cell


def shown(**changed):
    known = {"source": "predicted", "candidate_us": 50.0, "baseline_us": 100.0, "speedup": 2.0}
    console = Console(file=io.StringIO(), width=200)
    display.timing(Timing(**(known | changed)), console)
    return console.file.getvalue()


def test_exact_times_are_told_plainly():
    assert "predicted   candidate 50 us, XLA baseline 100 us, speedup 2\n" in shown()
    assert "brackets" not in shown()


def test_a_floor_under_the_baseline_is_at_least_and_so_is_the_speedup():
    found = shown(baseline_lower_bound=True)
    assert "candidate 50 us, XLA baseline at least 100 us, speedup at least 2\n" in found


def test_a_lower_bound_of_the_candidate_has_no_speedup():
    found = shown(lower_bound=True, speedup=None, notes=["it depends on data"])
    assert "candidate at least 50 us, XLA baseline 100 us\n" in found
    assert "it depends on data" in found


def test_an_unknown_time_is_not_called_at_least():
    found = shown(source=None, candidate_us=None, speedup=None, lower_bound=True, baseline_lower_bound=True)
    assert "no time     candidate unknown us, XLA baseline at least 100 us\n" in found


def test_each_figure_stands_with_its_own_interval_and_what_brackets_mean_is_said_once():
    found = shown(
        candidate_interval_us=(40.0, 62.5), baseline_interval_us=(90.0, 111.0), speedup_interval=(1.44567, 2.775)
    )
    assert (
        "candidate 50 us [40 to 62.5], XLA baseline 100 us [90 to 111], speedup 2 [1.45 to 2.77]\n"
        "in brackets where four of five such predictions were found to lie\n"
    ) in found


def test_the_brackets_of_a_measured_time_are_of_its_own_samples():
    found = shown(source="measured", candidate_interval_us=(49.0, 51.0))
    assert "measured    candidate 50 us [49 to 51], XLA baseline 100 us, speedup 2\n" in found
    assert "in brackets bootstrap intervals at 95 %" in found


def test_a_speedup_that_may_be_none_is_called_indistinguishable():
    assert "speedup 1.01 [0.9 to 1.1]: indistinguishable, neither is known to be faster\n" in shown(
        speedup=1.01, speedup_interval=(0.9, 1.1), indistinguishable=True
    )
    assert "indistinguishable" not in shown(speedup_interval=(1.4, 2.7))


def test_a_value_that_is_not_finite_is_told_in_words():
    error = OutputError(
        index=0, shape=[8], dtype="float32", error_e=None, error_r=None, max_abs_error=None, max_rel_error=None,
        failing_fraction=None, nonfinite=3, worst_index=[1], expected=0.25, actual=None,
    )  # fmt: skip
    found = Correctness(ok=False, size="check", seeds=1, gate="E <= 0.01", outputs=[error])
    assert "3 not finite; worst at [1]: a value that is not finite for 0.25" in display._correctness(found)


def test_an_operation_has_both_terms_and_takes_the_larger():
    lines = [line.split() for line in shown(ops=[profiles.op("norm", us=698.8, hbm_us=1309.4, calls=2)]).splitlines()]
    assert ["norm", "2", "698.8", "1309.4", "hbm", "1309.4", "static_profile_sampled"] in lines


def test_of_many_operations_those_that_take_longest_are_shown_in_the_programs_order():
    ops = [profiles.op(f"op.{i}", us=float(i % 7), hbm_us=0.5) for i in range(14)]
    lines = [line.split() for line in shown(ops=ops).splitlines() if line.startswith(("op.", "and"))]
    assert [words[0] for words in lines[:-1]] == [f"op.{i}" for i in (2, 3, 4, 5, 6, 9, 10, 11, 12, 13)]
    assert lines[-1] == ["and", "4", "more", "3"]


def test_a_long_time_has_no_exponent():
    assert [display.us(value) for value in (None, 0, 4.8e-6, 1.62674, 99_999.4, 246_095.3)] == [
        "unknown",
        "0",
        "<0.001",
        "1.6267",
        "99999",
        "246,095",
    ]


def test_a_number_is_never_broken_in_two_where_a_text_can_be():
    console = Console(file=io.StringIO(), width=30)
    rows = display.table("text", ">cycles")
    rows.add_row("x" * 60, "1,090,000")
    console.print(rows)
    assert "xxx  1,090,000\n" in console.file.getvalue()


def test_cells_are_listed_once_with_the_chips_they_apply_to(capsys):
    def cell(tpu: str, row: str, applies: bool = True) -> Cell:
        texts = {"guide": "", "naive_kernel": "", "optimized_kernel": ""}
        return Cell(row=row, tpu=tpu, title=row[3:], one_line="line", config={"applies": applies}, **texts)

    console = Console(width=80)
    display.cells([cell("v5e", "02_b"), cell("v5e", "01_a", False), cell("7x", "01_a"), cell("7x", "02_b")], console)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [["01_a", "(v5e)", "7x", "a", "line"], ["02_b", "v5e", "7x", "b", "line"]]

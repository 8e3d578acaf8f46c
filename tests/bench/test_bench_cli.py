"""`hawkeye-bench`: wrong usage is refused with what is legal, and the summary says what the figures are."""

import io

import pytest
from hawkeye_bench import report
from hawkeye_bench.cli import app
from hawkeye_bench.runs import Run
from rich.console import Console
from typer.testing import CliRunner


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--agent", "nobody"], "minimal"),
        (["--condition", "some"], "none, taxonomy, pool, full"),
        (["--tpu", "v3"], "v5e, v5p, v6e, 7x"),
        (["--workloads", "8p_GEMM,99x"], "'99x' is not one of"),
        (["--model", "gpt"], "--base-url"),
        (["--model", "gpt", "--base-url", "ftp://host"], "--base-url"),
        (
            ["--model", "gpt", "--base-url", "http://h", "--api-key-env", "NO_SUCH_VARIABLE"],
            "NO_SUCH_VARIABLE",
        ),
        (["--base-url", "http://host"], "not a language model"),
        (["--reps", "0"], "--reps"),
        (["--max-turns", "none"], "--max-turns"),
        (["--out", "/proc/nowhere"], "cannot write"),
    ],
)
def test_wrong_usage_exits_2_and_names_what_is_legal(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert said in result.output
    assert list(tmp_path.iterdir()) == []


def outcome(workload, condition, speedup, **changed):
    fields = {
        "workload": workload,
        "condition": condition,
        "repeat": 1,
        "tpu": "v5e",
        "agent": "minimal",
        "model": "builtin optimiser (not a language model)",
        "status": "correct" if speedup else "no_kernel",
        "stop": "finished",
        "speedup": speedup,
        "source": "predicted" if speedup else None,
        "evaluations": 4,
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.0,
    }
    return Run(**fields | changed)


RUNS = [
    outcome("a", "none", 0.5),
    outcome("a", "taxonomy", 1.0),
    outcome("b", "none", 1.0),
    outcome("b", "taxonomy", 8.0),
    outcome("c", "none", None),
    outcome("c", "taxonomy", 1.0),
]


def test_ratios_pair_equal_repeats_of_one_workload_and_one_source():
    assert report.paired_ratios(RUNS) == pytest.approx({"a": 2.0, "b": 8.0})
    other_repeat = outcome("a", "taxonomy", 3.0, repeat=2)
    measured = outcome("b", "taxonomy", 8.0, source="measured")
    bounded = outcome("c", "taxonomy", 8.0, lower_bound=True)
    mixed = [RUNS[0], other_repeat, RUNS[2], measured, outcome("c", "none", 1.0), bounded]
    assert report.paired_ratios(mixed) == {}


def test_the_summary_names_the_model_the_source_and_the_ratio():
    text = io.StringIO()
    Console(file=text, width=120).print(report.summary(RUNS))
    shown = text.getvalue()
    assert "builtin optimiser (not a language model)" in shown
    assert "0.500x predicted" in shown
    assert "Speedups are predicted" in shown
    assert "geometric mean of 2: 4.000" in shown
    assert "no evidence about the taxonomy" in shown


def test_what_is_not_known_is_not_shown_as_a_number():
    text = io.StringIO()
    bounded = outcome("a", "taxonomy", 2.0, lower_bound=True)
    Console(file=text, width=120).print(report.summary([outcome("a", "none", None), bounded]))
    assert "< 2.000x" in text.getvalue()
    assert "taxonomy/none" not in text.getvalue()

"""`hawkeye-bench`: wrong usage is refused with what is legal, and the summary says what the figures are."""

import io
import sys

import pytest
from bench_fixtures import plan
from hawkeye_bench import cli, report, runs
from hawkeye_bench.agents.builtin import BuiltinOptimiser
from hawkeye_bench.cli import app
from hawkeye_bench.runs import Run
from rich.console import Console
from small_workloads import write
from typer.testing import CliRunner

from hawkeye_mcp.calllog import CellRead


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--agent", "nobody"], "minimal"),
        (["--condition", "some"], "none, taxonomy, pool, full, placebo, menu"),
        (["--tpu", "v3"], "v5e, v5p, v6e, 7x"),
        (["--workloads", "8p_GEMM,99x"], "There is no workload '99x'"),
        (["--model", "gpt"], "--base-url"),
        (["--model", "gpt", "--base-url", "ftp://host"], "--base-url"),
        (
            ["--model", "gpt", "--base-url", "http://h", "--api-key-env", "NO_SUCH_VARIABLE"],
            "NO_SUCH_VARIABLE",
        ),
        (["--base-url", "http://host"], "not a language model"),
        (["--kernels", "here"], "--agent minimal does not take --kernels"),
        (["--agent", "replay"], "--agent replay needs --kernels FOLDER"),
        (["--agent", "replay", "--kernels", "/nowhere"], "--agent replay needs --kernels FOLDER"),
        (["--agent", "codex"], "--agent codex needs --model NAME"),
        (["--agent", "openhands", "--model", "m"], "needs --program PYTHON"),
        (["--agent", "command"], "--agent command needs --command TEMPLATE"),
        (["--executor", "slurm"], "local, ray"),
        (["--executor", "ray"], "give both --executor ray and --address"),
        (["--address", "auto"], "give both --executor ray and --address"),
        (["--max-productive-turns", "0"], "--max-productive-turns"),
        (["--max-cost-usd", "0"], "--max-cost-usd"),
        (["--max-cost-usd", "inf"], "--max-cost-usd"),
        (["--agent", "codex", "--model", "m", "--max-cost-usd", "5"], "use --max-tokens"),
        (["--max-minutes", "inf"], "--max-minutes"),
        (["--run-cpus", "8"], "leave it out"),
        (["--workloads", " ,"], "names none"),
        (["--reps", "0"], "--reps"),
        (["--reps", "10001"], "--reps"),
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


def test_workloads_in_folders_need_names_of_their_own(tmp_path, monkeypatch):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        write(tmp_path / place)
    monkeypatch.chdir(tmp_path)
    both = ["--workloads", "./a/mine/,./b/mine/"]
    result = CliRunner().invoke(app, both, env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert "two folders have the same name" in result.output
    assert cli._found(["./a/mine/", "8p_GEMM", "a/mine"]) == [str(tmp_path / "a" / "mine"), "8p_GEMM"]
    assert runs.folder(tmp_path, str(tmp_path / "a" / "mine"), "none", 1) == tmp_path / "mine" / "none" / "1"


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
        "isolation": "bubblewrap",
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


def shown(found):
    text = io.StringIO()
    Console(file=text, width=120).print(report.show(found))
    return text.getvalue()


def test_the_summary_names_the_model_the_source_and_the_ratio():
    said = shown([run.model_copy(update={"model": "some-model"}) for run in RUNS])
    assert "Model: some-model" in said
    assert "0.500x predicted" in said
    assert "Speedups are predicted" in said
    assert "geometric mean of 2: 4.000" in said
    assert "no evidence" not in said
    assert "rlimits" not in said


def test_a_speedup_that_may_be_none_is_marked():
    alike = outcome("a", "none", 1.04, speedup_interval=(0.9, 1.2), indistinguishable=True)
    said = shown([alike])
    assert "~ 1.040x predicted" in said
    assert "not known to be faster or slower than XLA" in " ".join(said.split())
    assert "~" not in shown([outcome("a", "none", 1.04)])


def test_a_fixed_procedure_gets_its_ratios_and_no_mean():
    said = shown(RUNS)
    assert "builtin optimiser (not a language model)" in said
    assert "taxonomy/none on b: 8.000" in said
    assert "geometric mean" not in said
    assert "no evidence about the taxonomy" in said
    assert report.summarise(RUNS).geometric_mean is None


def test_runs_without_bubblewrap_are_marked_and_said_to_seal_nothing():
    said = shown([outcome("a", "none", 0.5, isolation="rlimits"), outcome("a", "taxonomy", 1.0)])
    assert "correct (rlimits)" in said
    assert "a kernel could read the taxonomy under any condition" in " ".join(said.split())
    assert "no_kernel (time_limit, rlimits)" in shown(
        [outcome("a", "none", None, stop="time_limit", isolation="rlimits")]
    )


@pytest.mark.parametrize(("found", "warned"), [("rlimits", True), ("bubblewrap", False)])
def test_without_bubblewrap_the_bench_warns_before_it_starts(found, warned, tmp_path, monkeypatch, capsys):
    said_before = []
    monkeypatch.setattr(cli, "isolation", lambda: found)
    monkeypatch.setattr(cli, "_with_progress", lambda *_: said_before.append(capsys.readouterr().out))
    assert cli._run(plan(), plan(), BuiltinOptimiser(), tmp_path, None, 1) == 1  # its run is still to do
    assert ("a kernel could read the taxonomy under any condition" in said_before[0]) is warned


def test_what_an_agent_says_is_shown_as_it_is(tmp_path, monkeypatch):
    """Neither a name in brackets nor a length of megabytes ends the bench."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "says.py").write_text(
        "import json\nprint('[/v1] is away :x: [red]')\n"
        "print(json.dumps({'kind': 'note', 'text': 'long ' * 500_000}))\nraise SystemExit('the end of [/v2]')\n"
    )
    command = ["--agent", "command", "--command", f"{sys.executable} {tmp_path / 'says.py'}"]
    result = CliRunner().invoke(app, [*command, "--workloads", "8p_GEMM", "--out", "out"], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    assert "[/v1] is away :x: [red]" in result.output
    assert "long long" in result.output
    assert len(result.output) < 10_000
    shown = CliRunner().invoke(app, ["status", "out"], env={"COLUMNS": "300"})
    assert (shown.exit_code, "1 of 1 runs are done" in shown.output) == (0, True)


def test_what_is_kept_in_the_folder_is_what_was_shown(tmp_path):
    runs = [outcome("a", "none", 0.5, repeat=2, error="a|b\nc"), outcome("a", "taxonomy", 1.0, repeat=2)]
    report.keep(tmp_path, runs)
    table = (tmp_path / "summary.md").read_text().splitlines()
    assert table[:4] == [
        "| workload | condition | status | speedup over XLA | evaluations | cells read |",
        "|---|---|---|---:|---:|---:|",
        "| a #2 | none | correct | 0.500x predicted | 4 | - |",
        "| a #2 | taxonomy | correct | 1.000x predicted | 4 | 0 |",
    ]
    assert "- taxonomy/none on a: 2.000" in table
    assert "- a none: a|b c" in table
    kept = report.Summary.model_validate_json((tmp_path / "summary.json").read_bytes())
    assert (kept.runs, kept.paired_ratios) == (runs, {"a": 2.0})


def test_what_is_not_known_is_not_shown_as_a_number():
    said = shown([outcome("a", "none", None), outcome("a", "taxonomy", 2.0, lower_bound=True)])
    assert "< 2.000x" in said
    assert "taxonomy/none" not in said


def test_a_speedup_over_a_floor_is_shown_as_at_least_that():
    said = shown([outcome("a", "none", 1.5, baseline_lower_bound=True)])
    assert ">= 1.500x predicted" in said
    assert "the speedup is at least this large" in " ".join(said.split())
    assert ">=" not in shown(RUNS)


# --- what was read


def reads(*named):
    return [CellRead(row=row, part=part) for row, part in (name.split() for name in named)]


def test_reads_are_counted_by_condition_row_and_part():
    found = [
        outcome("a", "none", 0.5),
        outcome(
            "a", "taxonomy", 1.0, cells_read=reads("01_mxu_feed guide", "05_fused_epilogue all", "01_mxu_feed guide")
        ),
        outcome("b", "taxonomy", 1.0, cells_read=reads("01_mxu_feed guide", "01_mxu_feed naive")),
        outcome("a", "placebo", 1.0, cells_read=reads("01_mxu_feed guide")),
        outcome("a", "menu", 1.0),
    ]
    assert report.summarise(found).cells_read == {
        "taxonomy": {"01_mxu_feed guide": 3, "01_mxu_feed naive": 1, "05_fused_epilogue all": 1},
        "placebo": {"01_mxu_feed guide": 1},
        "menu": {},
    }
    said = " ".join(shown(found).split())
    assert "Cells read under taxonomy: 5, of them 01_mxu_feed guide 3x, 01_mxu_feed naive 1x, 05_fused_epi" in said
    assert "Cells read under placebo: 1, of them 01_mxu_feed guide 1x." in said
    assert "Cells read under menu: none." in said
    assert "Cells read under none" not in said
    assert [row.split("|")[-2].strip() for row in report.markdown(report.summarise(found)).splitlines()[2:7]] == [
        *("-", "3", "2", "1", "0")
    ]


def test_only_the_cells_read_most_are_named():
    many = reads(*(f"{number:02}_row guide" for number in range(9)), "08_row guide")
    said = " ".join(shown([outcome("a", "full", 1.0, cells_read=many)]).split())
    assert "Cells read under full: 10, of them 08_row guide 2x, 00_row guide 1x" in said
    assert "03_row guide 1x, 4 others." in said


# --- the controls, and workloads that say something of themselves


def test_the_taxonomy_is_compared_with_each_control_too():
    controls = [outcome("a", "placebo", 0.8), outcome("a", "menu", 0.5), outcome("b", "menu", None)]
    found = report.summarise([run.model_copy(update={"model": "some-model"}) for run in [*RUNS, *controls]])
    assert found.over_controls == {"placebo": {"a": pytest.approx(1.25)}, "menu": {"a": pytest.approx(2.0)}}
    assert found.paired_ratios == pytest.approx({"a": 2.0, "b": 8.0})
    assert "taxonomy/placebo on a: 1.250" in found.remarks
    assert "taxonomy/menu on a: 2.000" in found.remarks
    assert report.summarise(RUNS).over_controls == {}


def test_a_workload_without_power_is_in_no_aggregate_and_stands_apart():
    why = "every pixel is constant\nby construction"
    weak = [
        outcome("w", "none", 1.0, no_power=why, model="some-model"),
        outcome("w", "taxonomy", 90.0, no_power=why, model="some-model", cells_read=reads("01_mxu_feed guide")),
        outcome("w", "placebo", 9.0, no_power=why, model="some-model"),
    ]
    runs = [*(run.model_copy(update={"model": "some-model"}) for run in RUNS), *weak]
    found = report.summarise(runs)
    assert (found.paired_ratios, found.geometric_mean) == (pytest.approx({"a": 2.0, "b": 8.0}), pytest.approx(4.0))
    assert (found.over_controls, found.cells_read["taxonomy"]) == ({}, {})
    assert found.apart == {"w": why}
    assert len(found.runs) == len(RUNS) + 3
    lines = report.markdown(found).splitlines()
    apart = lines.index("Runs in no aggregate:")
    assert [line.split("|")[1].strip() for line in lines[2:8]] == ["a", "a", "b", "b", "c", "c"]
    assert lines[apart + 4] == "| w | none | correct | 1.000x predicted | 4 | - |"
    assert "- In no aggregate: w. every pixel is constant by construction" in lines
    said = shown(runs)
    assert said.index("Runs in no aggregate") > said.index("Runs")
    assert "Runs in no aggregate" not in shown(RUNS)
    assert "Runs\n" not in shown(weak), "no empty table"


def test_a_speedup_that_algebra_may_give_is_named_so():
    saved = [outcome("a", "none", 3.0, algebraic="a sum first"), outcome("a", "taxonomy", 6.0, algebraic="a sum first")]
    said = " ".join(shown(saved).split())
    assert "3.000x predicted, algebraic" in said
    assert "algebraic: a speedup on a may be due to algebra. a sum first" in said
    assert "taxonomy/none on a: 2.000 (algebraic)" in said
    assert "3.000x predicted, algebraic" in report.line(saved[0])
    assert "algebraic" not in shown(RUNS)
    assert "algebraic" not in report.line(outcome("a", "none", None, algebraic="a sum first"))

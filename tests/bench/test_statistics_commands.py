"""`hawkeye-bench report`, `power` and `--preregister`, as a person calls them."""

import json

import pytest
from bench_fixtures import plan
from hawkeye_bench import cli, preregistration, runs
from hawkeye_bench.cli import app
from synthetic_runs import experiment
from typer.testing import CliRunner

NAMES = [f"w{number}" for number in range(8)]


@pytest.fixture
def folder(tmp_path):
    target = tmp_path / "runs"
    target.mkdir()
    the_plan = plan(workloads=NAMES, conditions=["none", "taxonomy"], reps=2)
    (target / "plan.json").write_text(the_plan.model_dump_json())
    for one in experiment(3, len(NAMES), 2, effect=1.6, success=(1, 1)):
        kept = runs.folder(target, one.workload, one.condition, one.repeat)
        kept.mkdir(parents=True)
        (kept / "run.json").write_text(one.model_dump_json())
    return target


def invoke(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "300"})


def test_report_prints_the_table_or_everything(folder):
    text = invoke("report", folder)
    assert text.exit_code == 0, text.output
    assert text.output.startswith("**taxonomy/none: ")
    told = json.loads(invoke("report", folder, "--json").output)
    assert f"{told['effect']['geomean']:.3f}x measured, 16 pairs on 8 workloads" in text.output
    assert told["effect"]["wilcoxon_p"] == pytest.approx(2 / 2**8)
    assert len(told["runs"]) == 32


def test_report_of_something_else_exits_2_with_what_to_name(tmp_path):
    result = invoke("report", tmp_path)
    assert result.exit_code == 2
    assert "has no plan.json" in result.output


def test_power_prints_its_assumptions_and_takes_a_pilots(folder):
    result = invoke("power", "--workloads", 20, "--effect", 1.5, "--simulations", 100, "--sd-pairs", 0.1, "--json")
    told = json.loads(result.output)
    assert (told["assumptions"]["workloads"], told["assumptions"]["sd_pairs"], told["needed"]) == (20, 0.1, 1)
    assert told["assumptions"]["origin"].endswith("sd_pairs as stated")
    piloted = json.loads(
        invoke("power", "--pilot", folder, "--effect", 1.5, "--simulations", 100, "--most", 1, "--json").output
    )
    assert piloted["assumptions"]["origin"].startswith("a pilot of 16 pairs on 8 workloads, measured")
    assert piloted["assumptions"]["effect"] == 1.5
    # All workloads that can tell a wrong kernel, of those that come with the program.
    assert piloted["assumptions"]["workloads"] >= 45
    table = invoke("power", "--workloads", 20, "--effect", 1.5, "--simulations", 100, "--most", 1).output
    assert table.startswith("| repeats |") and "- Assumptions (assumed: " in table


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--failures", "ignored"], "baseline, dropped, penalised"),
        (["--pilot", "nowhere"], "no plan.json"),
        (["--workloads", "1"], "--workloads"),
    ],
)
def test_wrong_usage_of_power_exits_2(arguments, said):
    result = invoke("power", *arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_preregister_freezes_the_plan_before_the_first_run(tmp_path, monkeypatch):
    """The runs themselves are left out here."""
    monkeypatch.setattr(cli, "_run", lambda *arguments: 0)
    out = tmp_path / "runs"
    command = ["--workloads", "8p_GEMM,12p_RMSNorm", "--condition", "none", "--condition", "taxonomy", "--out", out]
    result = invoke(*command, "--reps", 2, "--preregister")
    assert result.exit_code == 0, result.output
    kept = preregistration.load(out)
    assert f"sha256 {kept.sha256}" in result.output
    assert (kept.plan["reps"], kept.plan["workloads"]) == (2, ["8p_GEMM", "12p_RMSNorm"])
    assert (kept.choices["treatment"], kept.choices["control"]) == ("taxonomy", "none")
    assert invoke(*command, "--reps", 2, "--preregister").exit_code == 0
    changed = invoke(*command, "--reps", 3, "--preregister")
    assert changed.exit_code == 2
    assert "reps: 2 was registered, now 3" in changed.output
    assert preregistration.load(out) == kept
    assert runs.Plan.model_validate_json((out / "plan.json").read_bytes()).reps == 2  # what was refused left no trace


def test_preregister_needs_two_conditions(tmp_path):
    result = invoke("--workloads", "8p_GEMM", "--out", tmp_path / "runs", "--preregister")
    assert result.exit_code == 2
    assert "two conditions" in result.output
    assert list(tmp_path.iterdir()) == []

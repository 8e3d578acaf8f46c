"""The results of a folder as CSV and as a table for a paper, and how they are written."""

import csv
import io
import json

import pytest
from bench_fixtures import plan
from hawkeye_bench import pairs, results, runs
from hawkeye_bench.cli import app
from hawkeye_bench.exports import files, paper, tables
from hawkeye_bench.runs import Client, Run
from synthetic_runs import experiment, run
from typer.testing import CliRunner

from hawkeye_mcp.calllog import CellRead
from hawkeye_mcp.versions import versions

CLIENT = Client(name="claude", version="2.1.332", command=["claude", "-p", "a task"])
BUILTIN = "builtin optimiser (not a language model)"


def keep(out, found, **changed):
    """A folder of runs with these records."""
    names = list(dict.fromkeys(one.workload for one in found))
    repeats = max(one.repeat for one in found)
    the_plan = plan(workloads=names, conditions=["none", "taxonomy"], reps=repeats, **changed)
    out.mkdir(exist_ok=True)
    (out / "plan.json").write_text(the_plan.model_dump_json())
    for one in found:
        folder = runs.folder(out, one.workload, one.condition, one.repeat)
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(one.model_dump_json())
    return out


def read(out):
    found = results.read(out)
    return found, results.finished(out, found.plan)


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def export(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)], env={"COLUMNS": "300"})


# Two workloads; on w1 the treatment fails once, and XLA's time is only a floor.
RUNS = [
    run("w0", "none", 1, speedup=2.0, prompt_tokens=90, completion_tokens=10, client=CLIENT, versions=versions()),
    run("w0", "taxonomy", 1, speedup=3.0, speedup_interval=(2.5, 3.5), tool_calls={"evaluate_kernel": 4, "job": 1}),
    run("w0", "none", 2, speedup=8.0),
    run("w0", "taxonomy", 2, speedup=6.0, cells_read=[CellRead(row="01_mxu_feed", part="guide")] * 2),
    run("w1", "none", 1, speedup=1.5, baseline_lower_bound=True),
    run("w1", "taxonomy", 1, status="no_correct_kernel", error='He said: "no, | never"\nand left'),
]


@pytest.fixture
def folder(tmp_path):
    return keep(tmp_path / "runs", RUNS)


def test_runs_have_every_field_of_their_record_as_one_value(folder):
    text = tables.csv_files(*read(folder))["runs.csv"]
    found = {(row["workload"], row["condition"], row["repeat"]): row for row in rows(text)}
    first, second = found["w0", "none", "1"], found["w0", "taxonomy", "1"]
    assert (first["client"], first["client_version"], first["client_command"]) == (
        *("claude", "2.1.332"),
        "claude -p 'a task'",
    )
    assert first["version_of_libtpu"] == versions().libtpu
    assert (second["speedup_over_xla"], second["speedup_over_xla_low"], second["speedup_over_xla_high"]) == (
        *("3.0", "2.5", "3.5"),
    )
    assert (second["tool_calls"], second["calls_of_evaluate_kernel"], second["calls_of_profile"]) == ("5", "4", "0")
    assert (second["client"], second["version_of_jax"], second["cost_usd"]) == ("", "", "")
    again = found["w0", "taxonomy", "2"]
    assert (again["cells_read"], again["cells"]) == ("2", "01_mxu_feed guide; 01_mxu_feed guide")
    failed = found["w1", "taxonomy", "1"]
    assert (failed["speedup_over_xla"], failed["source"], failed["error"]) == ("", "", RUNS[-1].error)
    assert found["w1", "none", "1"]["baseline_lower_bound"] == "true"
    renamed = {"speedup_interval": "speedup_over_xla_low", "versions": "version_of_jax"} | tables._NAMES
    assert {renamed.get(name, name) for name in Run.model_fields} <= first.keys()
    assert "None" not in text
    assert "{" not in text
    assert "[" not in text


def test_what_a_run_spent_is_what_its_transcript_says(folder):
    """As `report --json` has it, which the curves are made from too."""
    kept = runs.folder(folder, "w0", "none", 1)
    lines = [
        {"time": "2026-11-30T12:00:01+00:00", "kind": "edit", "path": "k.py"},
        {
            "time": "2026-11-30T12:00:02+00:00",
            "kind": "model",
            "prompt_tokens": 70,
            "completion_tokens": 5,
            "cost_usd": 0.25,
        },
    ]
    (kept / "transcript.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found, records = read(folder)
    row = rows(tables.csv_files(found, records)["runs.csv"])[0]
    assert (row["productive_turns"], row["tokens"], row["cost_usd"]) == ("1", "75", "0.25")


def test_pairs_have_a_ratio_for_each_rule_and_those_in_none_say_why(tmp_path):
    later = run("w2", "taxonomy", 1, speedup=1.0)
    found, records = read(keep(tmp_path / "runs", [*RUNS, later]))
    got = {(row["workload"], row["repeat"]): row for row in rows(tables.csv_files(found, records)["pairs.csv"])}
    rules = [f"ratio_failures_{rule}" for rule in pairs.FAILURES]
    assert [float(got["w0", "1"][name]) for name in rules] == pytest.approx([1.5] * 3)
    # XLA's own speed over 1.5; left out; half of XLA's speed over 1.5.
    assert [float(got["w1", "1"][name] or "nan") for name in rules] == pytest.approx(
        [1 / 1.5, float("nan"), 0.5 / 1.5], nan_ok=True
    )
    assert (got["w2", "1"]["in_no_ratio_because"], got["w2", "1"]["source"]) == ("no run under none", "")
    assert [got["w2", "1"][name] for name in rules] == ["", "", ""]


def test_the_other_files_say_what_the_json_says(tmp_path):
    out = keep(tmp_path / "runs", experiment(3, 8, 2, effect=1.6, success=(1, 0.8)))
    found, records = read(out)
    told = {name: rows(text) for name, text in tables.csv_files(found, records).items()}
    (headline,) = [row for row in told["comparisons.csv"] if row["headline"] == "true"]
    effect = found.effect
    assert (float(headline["ratio_low"]), float(headline["ratio_high"])) == effect.ci95
    assert (float(headline["ratio_geomean"]), float(headline["wilcoxon_p"])) == (effect.geomean, effect.wilcoxon_p)
    assert (headline["failures"], headline["n_pairs"], headline["source"]) == ("baseline", "16", "measured")
    assert [row["failures"] for row in told["comparisons.csv"]] == list(pairs.FAILURES)
    for name, success in found.success.items():
        (row,) = [row for row in told["success.csv"] if row["condition"] == name]
        assert (int(row["correct"]), float(row["share"]), float(row["share_low"])) == (
            *(success.correct, success.share, success.low),
        )
    curve = [float(row["share"]) for row in told["fast_p.csv"] if row["condition"] == "taxonomy"]
    assert curve == [one.share for one in found.fast_p["taxonomy"]["measured"]]
    progress = [float(row["speedup_over_xla"]) for row in told["progress.csv"]]
    assert progress == [value for one in found.progress for value in one.speedup]
    (both,) = told["paired_success.csv"]
    assert int(both["pairs_only_treatment_correct"]) == found.comparisons[0].success.only_treatment
    assert [float(row["ratio_geomean"]) for row in told["workloads.csv"]] == [
        one.ratio for one in found.comparisons[0].workloads
    ]
    assert len(told["runs.csv"]) == len(found.runs)
    # A row of any file that is taken out of its folder still says who made the kernels.
    assert {row["model"] for table in told.values() for row in table} == {"scripted"}


def test_a_file_without_rows_has_its_columns(tmp_path):
    out = keep(tmp_path / "runs", [run("w0", name, no_power="nothing to tell") for name in ("none", "taxonomy")])
    texts = tables.csv_files(*read(out))
    assert texts["fast_p.csv"].startswith("condition,source,p_times_xla,")
    assert len(texts["fast_p.csv"].splitlines()) == 1
    assert rows(texts["pairs.csv"])[0]["in_no_ratio_because"].endswith("nothing to tell")


def test_the_table_has_each_workload_and_all_of_them_with_the_interval_where_there_is_one(folder, tmp_path):
    text = paper.table(*read(folder))
    assert "| workload | none: speedup, correct | taxonomy: speedup, correct | taxonomy/none, paired |" in text
    # Geometric means: sqrt(2 * 8), sqrt(3 * 6); the failure of w1 counts as XLA's speed in the ratio.
    assert "| w0 | 4.000x, 2/2 | 4.243x, 2/2 | 1.061 |" in text
    assert "| w1‡ | 1.500x, 1/1 | -, 0/1 | 0.667 |" in text
    # Over w0 alone, which has both; the ratio is of all pairs, and two workloads have no interval.
    assert "| **geometric mean of 1** | 4.000x, 3/3 | 4.243x, 2/3 | **0.841** |" in text
    assert "measured: the geometric mean" in text
    assert "no interval and no test from 2 workloads" in text.lower()
    assert f"jax {versions().jax}" in text and "Agent minimal (claude 2.1.332), model scripted, 2 repeats" in text
    assert "‡ XLA's time is a lower bound" in text and "†" not in text

    found, records = read(keep(tmp_path / "many", experiment(3, 8, 2, effect=1.6, success=(1, 1))))
    low, high = found.effect.ci95
    text = paper.table(found, records)
    assert f"| **{found.effect.geomean:.3f}** [{low:.3f}, {high:.3f}] |" in text
    assert "In brackets the 95% interval" in text and "two-sided, zeros by Pratt: p = 0.0078." in text
    assert "None" not in text


def test_predicted_and_measured_are_never_in_one_mean(tmp_path):
    mixed = [
        run("w0", "none", 1, speedup=2.0),
        run("w0", "taxonomy", 1, speedup=4.0),
        run("w0", "none", 2, speedup=3.0, source="predicted", indistinguishable=True),
        run("w0", "taxonomy", 2, speedup=3.0, source="predicted"),
        # Not known to be as fast as that.
        run("w0", "none", 3, speedup=50.0, lower_bound=True),
    ]
    text = paper.table(*read(keep(tmp_path / "runs", mixed)))
    assert "| w0 (measured) | 2.000x, 2/2 | 4.000x, 1/1 | 2.000 |" in text
    assert "| w0 (predicted) | ~3.000x, 1/1 | 3.000x, 1/1 | 1.000 |" in text
    assert "| **geometric mean of 1** (predicted) | ~3.000x, 1/1 |" in text
    assert "1 pair on 1 workload, so" in text and "~ By the errors of such predictions" in text


def test_what_was_no_model_is_said_and_has_no_effect(tmp_path):
    found, records = read(keep(tmp_path / "runs", experiment(3, 8, 1, success=(1, 1), model=BUILTIN)))
    text = paper.table(found, records)
    assert "A fixed procedure, not a language model" in text and BUILTIN in text
    assert text.splitlines()[10].endswith(" | - |")  # all together
    assert {row["model"] for row in rows(tables.csv_files(found, records)["success.csv"])} == {BUILTIN}


@pytest.mark.parametrize(("to", "name"), [("csv", "pairs.csv"), ("markdown", "table.md")])
def test_an_export_can_be_repeated_and_replaces_nothing_of_others(folder, tmp_path, to, name):
    target = tmp_path / "out"
    first = export(folder, target, "--to", to)
    assert first.exit_code == 0, first.output
    assert str(target / name) in first.output.splitlines()
    before = (target / name).read_text()
    record = runs.folder(folder, "w0", "none", 1) / "run.json"
    record.write_text(RUNS[0].model_copy(update={"speedup": 2.5}).model_dump_json())
    assert export(folder, target, "--to", to).exit_code == 0
    after = (target / name).read_text()
    assert after != before

    (target / name).write_text(after + "a note of mine\n")
    refused = export(folder, target, "--to", to)
    assert refused.exit_code == 2
    assert "was changed since it was exported" in refused.output and "name another folder" in refused.output
    assert (target / name).read_text().endswith("a note of mine\n")


def test_a_foreign_file_stops_an_export_before_it_writes_anything(folder, tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    (target / "success.csv").write_text("mine\n")
    refused = export(folder, target)
    assert refused.exit_code == 2
    assert "success.csv was not written by an export" in refused.output
    assert [path.name for path in target.iterdir()] == ["success.csv"]
    (target / "success.csv").unlink()
    (target / files.RECORD).write_text("{}")
    assert "no record of an export" in export(folder, target).output


def test_two_formats_share_a_folder_and_each_can_be_repeated(folder, tmp_path):
    target = tmp_path / "out"
    for to in ("csv", "markdown", "csv"):
        assert export(folder, target, "--to", to).exit_code == 0
    # As its own, although the last export was of the other format.
    record = runs.folder(folder, "w0", "none", 1) / "run.json"
    record.write_text(RUNS[0].model_copy(update={"speedup": 2.5}).model_dump_json())
    again = export(folder, target, "--to", "markdown")
    assert again.exit_code == 0, again.output


def test_an_export_that_was_cut_off_is_completed(folder, tmp_path):
    target = tmp_path / "out"
    assert export(folder, target).exit_code == 0
    (target / files.RECORD).unlink()
    (target / "runs.csv").unlink()
    assert export(folder, target).exit_code == 0
    assert sorted(json.loads((target / files.RECORD).read_text())["files"]) == sorted(
        path.name for path in target.iterdir() if path.name != files.RECORD
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--to", "xlsx"], "csv, markdown, inspect"), ([], "has no plan.json")],
)
def test_wrong_usage_exits_2_with_what_to_say_instead(tmp_path, arguments, said):
    result = export(tmp_path, tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert not (tmp_path / "out").exists()

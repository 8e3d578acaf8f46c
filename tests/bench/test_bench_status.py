"""`hawkeye-bench status`: what the files of a folder say of its runs."""

import json

import pytest
from bench_fixtures import plan
from hawkeye_bench import journal, runs, status
from hawkeye_bench.cli import app
from hawkeye_bench.order import planned
from test_bench_cli import outcome
from typer.testing import CliRunner

from hawkeye_mcp.state import write_atomically

PLAN = plan(workloads=["a", "b", "c"], conditions=["none", "taxonomy"])


@pytest.fixture
def folder(tmp_path):
    """One run of each kind, in the order of the plan."""
    runs.keep_plan(tmp_path, PLAN)
    done, running, waiting, given_up, failed, _ = planned(PLAN)
    journal.write(tmp_path, "opened", slots=2, to_do=6)
    for key in (done, running, waiting, given_up, failed):
        journal.write(tmp_path, "started", key, tries=1)
    record = outcome(done.workload, done.condition, 2.0, seconds=600.0)
    write_atomically(done.folder(tmp_path) / "run.json", record.model_dump_json())
    failure = outcome(failed.workload, failed.condition, None, seconds=200.0)
    write_atomically(failed.folder(tmp_path) / "run.json", failure.model_dump_json())
    journal.write(tmp_path, "ended", waiting, tries=1, status="broken", error="away")
    journal.write(tmp_path, "retry", waiting, tries=2, delay_s=10)
    journal.write(tmp_path, "ended", given_up, tries=4, status="broken", error="still away")
    return tmp_path


def test_each_run_is_told_as_it_stands_while_a_bench_works(folder):
    with journal.held(folder):
        found = status.read(folder)
    assert [run.state for run in found.runs] == ["done", "running", "waiting", "broken", "done", "to do"]
    assert [run.tries for run in found.runs] == [1, 1, 2, 4, 1, 0]
    assert (found.working, found.slots) == (True, 2)
    assert found.runs[1].since_s is not None and found.runs[3].error == "still away"
    # Four are left at 400 s each, two at once.
    assert found.left_s == 800.0


def test_without_a_bench_nothing_runs_and_nothing_waits(folder):
    assert [run.state for run in status.read(folder).runs] == [
        "done",
        "interrupted",
        "broken",
        "broken",
        "done",
        "to do",
    ]


def test_what_a_bench_before_this_one_began_does_not_go_on(folder):
    with journal.held(folder):
        journal.write(folder, "opened", slots=1, to_do=4)
        journal.write(folder, "started", planned(PLAN)[2], tries=1)
        found = status.read(folder)
    assert [run.state for run in found.runs] == ["done", "interrupted", "running", "broken", "done", "to do"]
    assert found.slots == 1


def test_the_error_of_a_run_is_no_markup(folder):
    journal.write(folder, "ended", planned(PLAN)[2], tries=1, status="broken", error="HTTP 404: [/v1/chat] :x:")
    for options in ([], ["--watch"]):
        shown = CliRunner().invoke(app, ["status", str(folder), *options], env={"COLUMNS": "200"})
        assert shown.exit_code == 0
        assert "[/v1/chat] :x:" in shown.output


def test_the_command_shows_a_table_and_the_same_as_json(folder):
    shown = CliRunner().invoke(app, ["status", str(folder)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert "2 of 6 runs are done. No bench is at work in this folder. About 13 min 20 s of work left" in shown.output
    assert "still away" in shown.output and "interrupted" in shown.output
    told = CliRunner().invoke(app, ["status", str(folder), "--json"])
    assert json.loads(told.output) == status.read(folder).model_dump(mode="json")


def test_a_folder_that_is_none_of_the_bench_is_refused(tmp_path):
    shown = CliRunner().invoke(app, ["status", str(tmp_path)], env={"COLUMNS": "200"})
    assert shown.exit_code == 2
    assert "has no plan.json" in shown.output


def test_watching_ends_when_the_bench_has_ended(folder):
    shown = CliRunner().invoke(app, ["status", str(folder), "--watch"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert "2 of 6 runs are done" in shown.output

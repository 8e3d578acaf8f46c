"""What the load test reads out of a folder of runs: nothing lost, nothing counted twice, over all its starts."""

import json

import pytest
from bench_fixtures import plan
from hawkeye_bench import load_test
from hawkeye_bench.load_test import Look, Peak
from hawkeye_bench.order import planned
from synthetic_runs import run

PLAN = plan(model="builtin", workloads=["8p_GEMM", "12p_RMSNorm"], conditions=["none", "taxonomy"])


def line(second, event, key=None, **facts):
    of = {"workload": key.workload, "condition": key.condition, "repeat": key.repeat} if key else {}
    minutes, seconds = divmod(second, 60)
    return {"time": f"2026-11-30T12:{minutes:02}:{seconds:02}.000+00:00", "event": event, **of, **facts}


@pytest.fixture
def out(tmp_path):
    """A sweep that was killed after a run, started again with one failure of the machine, and lacks one run."""
    one, two, three, _ = planned(PLAN)
    lines = [
        line(0, "opened", slots=2),
        line(1, "started", one, tries=1),
        line(2, "started", two, tries=1),
        line(100, "ended", one, tries=1, status="correct"),
        line(1000, "opened", slots=2),
        line(1001, "started", two, tries=1),
        line(1010, "ended", two, tries=1, status="broken", error="no memory"),
        line(1010, "retry", two, tries=2, delay_s=10.0),
        line(1100, "ended", two, tries=2, status="correct"),
        line(1199, "ended", three, tries=1, status="no_kernel"),
        line(1200, "closed"),
    ]
    (tmp_path / "journal.jsonl").write_text("\n".join(map(json.dumps, lines)))
    records = {
        one: {"evaluations": 4, "judged_again": "correct"},
        two: {"evaluations": 3, "judged_again": "wrong_result", "status": "not_confirmed"},
        three: {"status": "no_kernel", "stop": "unknown_family"},
    }
    for key, facts in records.items():
        key.folder(tmp_path).mkdir(parents=True)
        (key.folder(tmp_path) / "run.json").write_text(run(*key, **facts).model_dump_json())
    return tmp_path


def test_a_sweep_is_counted_over_all_its_starts(out):
    peak = Peak(rss_bytes=3 << 30, processes=7, load_mean=1.5, looks=4)
    found = load_test.sweep(out, PLAN, 2, peak)
    assert (found.planned, found.done, found.lost, found.repeated) == (4, 3, 1, 0)
    assert (found.starts, found.retries) == (2, 1)
    assert (found.working_runs, found.evaluations, found.judged_again) == (2, 7, 2)
    assert found.wall_s == 100 + 200, "while no bench was at work no time passes"
    assert found.per_hour == (7 + 2) / 300 * 3600
    assert found.stops == {"finished": 2, "unknown_family": 1}
    table = load_test.markdown([found], PLAN)
    assert "| 2 | 3/4 | 1 | 0 | 1 | 2 | 7 + 2 | 5.0 min | 108.0 | 3.00 | 7 | 1.50 | 2 |" in table
    assert "2 workloads x 2 conditions x 1 repeats, at most 5 evaluations each" in table
    assert "not a language model" in table


def test_a_run_that_ended_twice_is_counted(out):
    with (out / "journal.jsonl").open("a") as journal:
        journal.write("\n" + json.dumps(line(1300, "ended", planned(PLAN)[0], tries=1, status="correct")))
    assert load_test.sweep(out, PLAN, 2, Peak()).repeated == 1


def test_a_sweep_without_a_start_has_no_rate(tmp_path):
    found = load_test.sweep(tmp_path, PLAN, 1, Peak())
    assert (found.lost, found.wall_s, found.per_hour) == (4, 0.0, None)
    assert " | - | 0.00 | 0 | - | 0 |" in load_test.markdown([found], PLAN)


def test_the_peak_is_of_all_looks_and_the_load_their_mean():
    peak = Peak()
    for rss, processes_now, load in ((5, 2, 1.0), (9, 1, 2.0), (7, 4, 6.0)):
        peak = load_test.watched(lambda: Look(rss_bytes=rss, processes=processes_now, load=load), peak)  # noqa: B023
    assert peak == Peak(rss_bytes=9, processes=4, load_mean=3.0, looks=3)


def test_a_look_sees_this_process_and_its_memory():
    seen = load_test.look()
    assert seen.processes >= 1 and seen.rss_bytes > 10 << 20

"""The best so far against what it cost, from a call log and a transcript."""

import json

import pytest
from hawkeye_bench import runs, trajectories
from hawkeye_bench.analysis import Choices
from hawkeye_bench.trajectories import Point
from synthetic_runs import run

FAST = Choices(resamples=999)


def at(second, **line):
    return {"time": f"2026-11-30T12:00:{second:02}.000+00:00", **line}


def verdict(second, speedup, status="correct", **facts):
    return at(second, event="verdict", kind="evaluate", cached=False, status=status, speedup=speedup, **facts)


def model(second, tokens, **facts):
    return at(second, kind="model", prompt_tokens=tokens - 10, completion_tokens=10, **facts)


def cell(second, outcome="ok"):
    return at(
        second,
        event="call_end",
        tool="read_taxonomy_cell",
        outcome=outcome,
        cell_read={"row": "01_mxu_feed", "part": "guide"},
    )


def write(folder, calls, transcript=()):
    folder.mkdir(parents=True)
    for name, lines in (("calls.jsonl", calls), ("transcript.jsonl", transcript)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_trajectory_counts_what_was_spent_before_each_verdict(tmp_path):
    calls = [
        cell(2),
        cell(3, outcome="error"),
        at(4, event="call_end", tool="read_workload", outcome="ok"),
        verdict(10, None, status="incorrect"),
        verdict(20, 1.5),
        verdict(21, 1.5) | {"cached": True},
        verdict(22, 9.0) | {"kind": "profile"},
        verdict(30, 1.2),
        verdict(31, 7.0, lower_bound=True),
        verdict(40, 2.0),
    ]
    transcript = [
        model(1, 100, cost_usd=0.25),
        model(15, 200, cost_usd=0.5),
        at(16, kind="edit", path="kernel.py"),
        model(35, 300),
    ]
    write(tmp_path / "run", calls, transcript)
    points = trajectories.trajectory(tmp_path / "run")
    assert points[0] == Point()
    assert [(p.productive_turns, p.tokens, p.speedup) for p in points[1:]] == [
        (0, 100, None),
        (1, 100, None),
        (2, 100, None),
        (2, 300, None),
        (3, 300, None),
        (4, 300, 1.5),
        (5, 300, 1.5),
        (6, 300, 1.5),
        (6, 600, 1.5),
        (7, 600, 2.0),
    ]
    assert points[-1].cost_usd == 0.75
    assert trajectories.best_at(points, "productive_turns", [0, 3, 4, 6, 7, 99]) == [None, None, 1.5, 1.5, 2.0, 2.0]
    assert trajectories.best_at(points, "tokens", [299, 300, 599, 600]) == [None, 1.5, 1.5, 2.0]


def test_a_run_without_logs_stands_at_nothing(tmp_path):
    assert trajectories.trajectory(tmp_path) == [Point()]


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path):
    write(tmp_path / "run", [verdict(1, 2.0)], [model(2, 50)])
    with (tmp_path / "run" / "transcript.jsonl").open("a") as stream:
        stream.write('{"kind": "model", "prompt_tok')
    assert trajectories.trajectory(tmp_path / "run")[-1] == Point(1, 1, 50, None, 2.0)


def curves(tmp_path, *told):
    """The curves of runs with their call logs, by axis and condition."""
    found = [one for one, *_ in told]
    for one, calls, transcript in told:
        write(runs.folder(tmp_path, one.workload, one.condition, one.repeat), calls, transcript)
    made = trajectories.curves(found, trajectories.of_runs(tmp_path, found), FAST)
    return {(curve.axis, curve.condition, curve.source): curve for curve in made}


def test_a_curve_is_the_geometric_mean_and_only_rises(tmp_path):
    found = curves(
        tmp_path,
        (run("w0", "none", 1, speedup=4.0), [verdict(1, 0.25), verdict(2, 1.0), verdict(3, 4.0)], []),
        (run("w1", "none", 1, speedup=1.0), [verdict(1, None, "incorrect"), verdict(2, 1.0)], []),
        (run("w1", "none", 2, status="no_kernel"), [], []),
        (run("w2", "none", 1, no_power="dead"), [verdict(1, 100.0)], []),
    )
    assert set(found) == {("productive_turns", "none", "measured")}
    curve = found["productive_turns", "none", "measured"]
    assert (curve.at, curve.runs, curve.workloads) == ([0, 1, 2, 3], 3, 2)
    # Before a correct kernel a run stands at the slowest one; w1's second run stays there.
    w0, w1 = [0.25, 0.25, 1.0, 4.0], [0.25, 0.25, 0.5, 0.5]
    assert curve.speedup == pytest.approx([(a * b) ** 0.5 for a, b in zip(w0, w1, strict=True)])
    assert (curve.low, curve.high) == (None, None)


def test_tokens_and_dollars_have_curves_only_of_runs_that_tell_them(tmp_path):
    found = curves(
        tmp_path,
        (run("w0", "none", speedup=2.0), [verdict(5, 2.0)], [model(1, 100, cost_usd=0.1)]),
        (run("w0", "taxonomy", speedup=3.0), [verdict(5, 3.0)], [model(1, 400)]),
    )
    assert set(found) == {
        ("productive_turns", "none", "measured"),
        ("productive_turns", "taxonomy", "measured"),
        ("tokens", "none", "measured"),
        ("tokens", "taxonomy", "measured"),
        ("cost_usd", "none", "measured"),
    }
    less, more = found["tokens", "none", "measured"], found["tokens", "taxonomy", "measured"]
    # The same places for both; the run that stopped at 100 tokens keeps what it had.
    assert less.at == more.at and less.at[0] == 0 and less.at[-1] == 400
    assert less.speedup[-1] == pytest.approx(2.0) and more.speedup[-1] == pytest.approx(3.0)
    assert more.speedup[-2] == pytest.approx(0.5)


def test_curves_of_two_sources_stand_apart_and_have_bands_with_enough_workloads(tmp_path):
    told = [(run(f"w{n}", "none", speedup=1.0 + n), [verdict(1, 1.0 + n)], []) for n in range(6)]
    told.append((run("w9", "none", speedup=50.0, source="predicted"), [verdict(1, 50.0)], []))
    found = curves(tmp_path, *told)
    measured = found["productive_turns", "none", "measured"]
    assert measured.workloads == 6
    assert measured.speedup[-1] == pytest.approx(720 ** (1 / 6))
    assert measured.low[-1] < measured.speedup[-1] < measured.high[-1]
    assert found["productive_turns", "none", "predicted"].speedup[-1] == pytest.approx(50.0)

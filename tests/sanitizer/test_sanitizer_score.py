"""The score: its table, its subjects, and (slow) that it is good enough."""

from importlib import util

import anyio
import pytest

from hawkeye_mcp.sanitizer import public_kernels, score, tokamax_kernels


def _row(corpus, name, found=(), **changed):
    row = {"key": name, "corpus": corpus, "name": name, "tpu": "v5e", "wanted": [], "found": list(found), "right": True}
    row |= {
        "first_kind": True,
        "line_off": 0,
        "ran": True,
        "failed": "",
        "not_checked": [],
        "messages": [],
        "seconds": 1.0,
    }
    return row | changed


def test_the_table_names_what_was_missed_what_was_no_defect_and_what_was_not_run():
    rows = [
        _row("cells", "a"),
        _row("cells", "b", [["race", 3]]),
        _row("cells", "c", ran=False, not_checked=["uninitialised: too large"]),
        _row("tokamax", "t", [["race", 3]], wanted=["race"]),
        _row("tokamax", "u", [["race", 3], ["ragged_edge", 4]], wanted=["race"]),
        _row("defects", "d", [["race", 3]], wanted=["race"]),
        _row("defects", "e", wanted=["race"], right=False, first_kind=False, line_off=None),
    ]
    text = score.table(rows)
    assert "cells: 3 kernels, 2 run, 1 false alarms" in text
    assert "false alarm: b (v5e): [['race', 3]]" in text
    assert "not run: c (v5e): uninitialised: too large" in text
    assert "tokamax: 2 kernels, 2 run, 1 false alarms" in text
    assert "a defect of its own: t: ['race'], found [['race', 3]]" in text
    assert "false alarm: u" in text
    assert "defects: 1 of 2 found (50.0%)" in text
    assert "missed: e (race)" in text


def test_at_least_30_public_kernels_and_40_defects_are_scored(tmp_path):
    assert len({case.name for case in public_kernels.cases()}) >= 30
    defects = list(score.subjects(["defects"], tmp_path, {}))
    assert len({subject.key for subject in defects}) == len(defects) >= 40
    assert all(subject.wanted and subject.line > 1 for subject in defects)


@pytest.mark.skipif(not util.find_spec("tokamax"), reason="tokamax is an extra: pip install tokamax==0.0.12")
def test_tokamax_is_scored_where_it_is_installed_and_its_absence_is_said(monkeypatch, capsys):
    assert len({case.name for case in tokamax_kernels.cases()}) >= 25
    assert {*tokamax_kernels.FOUND} <= {case.name for case in tokamax_kernels.cases()}
    monkeypatch.setattr(tokamax_kernels.util, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["score", "tokamax"])
    score.main()
    assert capsys.readouterr().out.strip() == tokamax_kernels.MISSING


@pytest.mark.slow
def test_no_right_kernel_gives_an_alarm_and_nearly_every_defect_is_found():
    rows = anyio.run(score.scored, ["families", "public", "fixtures", "defects"], None)
    right = [row for row in rows if row["corpus"] != "defects"]
    seeded = [row for row in rows if row["corpus"] == "defects"]
    assert [row["name"] for row in right if row["found"]] == []
    assert sum(row["right"] for row in seeded) >= 0.95 * len(seeded)

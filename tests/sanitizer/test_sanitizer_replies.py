"""What a sandbox says of a kernel is hostile data: it is bounded, and what has not the right form is left out."""

import math

import pytest

from hawkeye_mcp.sanitizer import corpus
from hawkeye_mcp.sanitizer.advice import ADVICE
from hawkeye_mcp.sanitizer.model import CHECKS, KINDS
from hawkeye_mcp.sanitizer.replies import Seen, clean, compare, narrow, outcome, take, unique
from hawkeye_mcp.sanitizer.run import _settings

SOURCE = "one\ntwo\nthree"


def _taken(reply, settings=("static", "one_core"), tpu="v5e"):
    seen = Seen()
    take(reply, SOURCE, list(settings), seen, tpu)
    return seen


def test_every_kind_has_its_effect_and_its_cure():
    assert set(ADVICE) == set(KINDS)
    assert all(advice.on_tpu and advice.advice for advice in ADVICE.values())


def test_a_finding_gets_the_words_of_its_kind_and_keeps_its_line():
    seen = _taken({"findings": [{"kind": "race", "line": 2, "message": "a write"}], "ran": ["races"]})
    assert [(f.kind, f.line, f.message) for f in seen.findings] == [("race", 2, "a write")]
    assert seen.findings[0].advice == ADVICE["race"].advice
    assert seen.checks == ["races"]


@pytest.mark.parametrize("line", [0, -1, 4, True, 2.0, "2", None, 10**30])
def test_a_line_that_the_file_does_not_have_is_none(line):
    assert _taken({"findings": [{"kind": "race", "line": line, "message": "m"}]}).findings[0].line is None


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"findings": "all fine", "ran": 7, "not_checked": {"a": 1}, "seconds": [1], "nan": "x", "failed": "no"},
        {"findings": [{"kind": "praise", "line": 1}, 3, None, [], {"kind": ["race"]}]},
        {"ran": ["two_cores", "everything"], "not_checked": [{"check": "everything", "reason": "r"}, 5]},
        {"seconds": {"a": math.inf, "b": -1, "c": "1", "d": math.nan}},
    ],
)
def test_what_has_not_the_form_of_a_reply_is_left_out(reply):
    seen = _taken(reply)
    assert (seen.findings, seen.checks, seen.seconds, seen.failed) == ([], [], {}, "")


def test_each_check_ran_or_has_a_reason():
    seen = _taken(
        {"ran": ["static", "races"], "unfinished": "too slow", "not_checked": [{"check": "dma", "reason": "r"}]}
    )
    reasons = {skip.check: skip.reason for skip in seen.not_checked}
    assert reasons["dma"] == "r"
    assert reasons["uninitialised"] == reasons["seeds"] == "too slow"
    assert {*reasons, *seen.checks} == set(CHECKS) - {"two_cores"}


def test_a_flood_is_cut():
    flood = [{"kind": "race", "line": 1, "message": "x" * 10**6}] * 10**4
    seen = _taken({"findings": flood, "not_checked": [{"check": "races", "reason": "y" * 10**6}] * 10**4})
    assert len(seen.findings) <= 50
    assert max(len(finding.message) for finding in seen.findings) <= 400
    assert len(seen.not_checked) <= 100 + len(CHECKS)


def test_texts_are_one_line_without_control_characters():
    assert clean("a\x1b[31mb\n\tc\x00d") == "a [31mb c d"


def test_a_kernel_claims_no_check_of_a_setting_that_it_was_not_run_in():
    assert _taken({"ran": ["races", "two_cores", "static"]}, settings=["two_cores"]).checks == ["two_cores"]


def test_one_core_is_told_what_a_parallel_axis_does_there_today():
    reply = {"findings": [{"kind": "parallel_carry", "line": 1, "message": "m"}]}
    assert "v5e has one core" in _taken(reply).findings[0].on_tpu
    assert "has one core" not in _taken(reply, tpu="v5p").findings[0].on_tpu


def test_garbage_that_only_two_cores_bring_is_a_finding():
    seen = Seen(nan={"one_core": [0, 1], "two_cores": [5, 1]})
    compare(seen, "v5p")
    assert [finding.kind for finding in seen.findings] == ["parallel_carry"]
    same = Seen(nan={"one_core": [0, 1], "two_cores": [0, 1]})
    compare(same, "v5p")
    assert same.findings == []


def test_the_same_kind_on_the_same_line_is_told_once():
    reply = {"findings": [{"kind": "race", "line": line, "message": str(n)} for n, line in enumerate((3, 1, 3))]}
    assert [(f.line, f.message) for f in unique(_taken(reply).findings)] == [(1, "1"), (3, "0")]


def test_only_one_check_leaves_its_own_findings_and_reasons():
    reply = {
        "findings": [{"kind": "race", "line": 1}, {"kind": "ragged_edge", "line": 2}],
        "ran": ["races", "uninitialised"],
        "not_checked": [{"check": "seeds", "reason": "no parallel axis"}],
    }
    seen = _taken(reply)
    narrow(seen, "races")
    assert [finding.kind for finding in seen.findings] == ["race"]
    assert (seen.checks, seen.not_checked) == (["races"], [])


def test_settings_by_chip_and_check():
    assert _settings(None, "v5e") == ["static", "one_core"]
    assert _settings(None, "v5p") == ["static", "one_core", "two_cores"]
    assert _settings("static", "v5p") == ["static"]
    assert _settings("races", "v5p") == ["one_core"]


def test_nothing_that_ran_is_not_silence():
    assert outcome(Seen())[0] == "failed"
    assert outcome(Seen(checks=["static"]))[0] == "silent"
    assert outcome(Seen(checks=["static"], failed="no workload"))[0] == "failed"


def test_a_text_says_what_it_runs_on():
    case = corpus.case("k", '"""k\n\ninputs: float32[2,3] int32[4]<3 bfloat16[]\n"""\n')
    assert case.full == [((2, 3), "float32"), ((4,), "int32"), ((), "bfloat16")]
    assert [one["shape"] for one in case.inputs] == [[2, 3], [4], []]
    with pytest.raises(corpus.NoInputs):
        corpus.case("k", "def workload(x): ...")

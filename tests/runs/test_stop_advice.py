"""Whether more work on a run is likely to pay: the figures, and what they come to."""

from pathlib import Path

import pytest
from run_results import WORKLOAD, begun, profile, record

from hawkeye_mcp.profiler.timing import MODELS
from hawkeye_mcp.runs import advice, ideas, store
from hawkeye_mcp.runs.idea import Proposal

# 8p_GEMM on v5e is bound by the matrix units: FLOPs over the datasheet's peak at the clock that lasts.
CEILING_US = WORKLOAD.flops / (197e12 * MODELS["v5e"].clock) * 1e6


@pytest.fixture
def run(tmp_path: Path) -> store.Run:
    return begun(tmp_path / "run")


def advise(run: store.Run) -> advice.Advice:
    return advice.stop_advice(store.read(run))


def judge_idea(run: store.Run, number: int, evidence: str, action: str = "refute") -> None:
    claim = f"idea number {number}"
    id = ideas.propose(run, Proposal(claim=claim, evidence="a.cu:1", kind="STRUCTURAL", falsifiable_as="slower")).id
    ideas.act(run, id, "adopt")
    ideas.act(run, id, action, evaluation_id=evidence)


def propose_one(run: store.Run, kind: str = "ALGORITHMIC") -> str:
    proposal = Proposal(claim=f"untested {kind}", evidence="a.cu:1", kind=kind, falsifiable_as="no less time")
    return ideas.propose(run, proposal).id


def test_nothing_correct_goes_on(run):
    record(run, "bad")
    found = advise(run)
    assert (found.advice, found.best_us, found.distance, found.ceiling) == ("continue", None, None, None)
    assert "1 kernel was judged" in found.reasons[0]


def test_far_from_the_ceiling_goes_on(run):
    record(run, "one", 3 * CEILING_US, candidate_interval_us=(2 * CEILING_US, 4 * CEILING_US))
    found = advise(run)
    assert found.advice == "continue"
    assert (found.ceiling.unit, found.ceiling.us) == ("mxu", pytest.approx(CEILING_US, rel=1e-4))
    assert "bfloat16 peak" in found.ceiling.source
    assert found.distance == pytest.approx(3, rel=1e-3)
    assert found.distance_interval == (pytest.approx(2, rel=1e-3), pytest.approx(4, rel=1e-3))
    assert found.null_results is None
    assert "is not known" in found.reasons[1]


@pytest.mark.parametrize(("times", "said"), [(1.05, "stop"), (1.15, "continue"), (0.95, "stop"), (0.5, "continue")])
def test_close_to_the_ceiling_stops(run, times, said):
    record(run, "one", times * CEILING_US)
    assert advise(run).advice == said


def test_a_time_far_below_the_ceiling_says_that_it_does_not_hold(run):
    record(run, "one", 0.5 * CEILING_US)
    record(run, "two", 3 * CEILING_US)
    found = advise(run)
    assert found.advice == "undecided"
    assert "does not hold" in found.reasons[0]


def test_ideas_in_a_row_without_a_gain_stop(run):
    record(run, "best", 3 * CEILING_US)
    for number in range(3):
        assert advise(run).advice == "continue"
        record(run, f"e{number}", 4 * CEILING_US)
        judge_idea(run, number, f"e{number}", "refute" if number else "confirm")
    found = advise(run)
    assert (found.advice, found.null_results, found.kernels_since_best) == ("stop", 3, 3)
    id = propose_one(run)
    found = advise(run)
    assert (found.advice, [idea.id for idea in found.untested]) == ("undecided", [id])
    record(run, "gain", 2 * CEILING_US)
    found = advise(run)
    assert (found.advice, found.null_results, found.kernels_since_best) == ("continue", 0, 0)


def test_one_idea_tried_often_is_one_idea(run):
    record(run, "best", 3 * CEILING_US)
    for number in range(5):
        record(run, f"e{number}", 4 * CEILING_US)
    judge_idea(run, 0, "e4")
    found = advise(run)
    assert (found.advice, found.null_results, found.kernels_since_best) == ("continue", 1, 5)


def test_a_verdict_by_an_earlier_evaluation_is_no_null_result(run):
    record(run, "early", 4 * CEILING_US)
    record(run, "best", 3 * CEILING_US)
    judge_idea(run, 0, "early")
    judge_idea(run, 1, "best", "confirm")
    assert advise(run).null_results == 0


def test_what_cannot_be_tested_is_not_untested(run):
    record(run, "best", 3 * CEILING_US)
    propose_one(run, "NON_PORTABLE")
    dropped = propose_one(run)
    ideas.act(run, dropped, "drop", reason="no time")
    assert advise(run).untested == []


def test_a_lower_bound_is_set_against_nothing(run):
    record(run, "one", 1.01 * CEILING_US, lower_bound=True)
    record(run, "two")
    found = advise(run)
    assert (found.advice, found.distance) == ("undecided", None)
    assert "only a lower bound" in found.reasons[0]


def test_a_measured_best_goes_before_a_predicted_one(run):
    record(run, "predicted", 1.01 * CEILING_US)
    record(run, "measured", 3 * CEILING_US, source="measured")
    found = advise(run)
    assert (found.best_source, found.best_evaluation_id, found.advice) == ("measured", "measured", "continue")


def test_the_ceiling_of_a_profile_of_the_best_goes_before(run):
    record(run, "one", 3 * CEILING_US, kernel="# best")
    store.record_profile(run, "# other", profile("# other", 1.0), "f")
    assert advise(run).ceiling.us == pytest.approx(CEILING_US, rel=1e-4)
    store.record_profile(run, "# best", profile("# best", CEILING_US * 2.9), "f")
    found = advise(run)
    assert (found.advice, found.ceiling.us) == ("stop", CEILING_US * 2.9)
    assert "eight-bit peak" in found.ceiling.source


def test_an_unknown_ceiling_is_null_with_its_reason(run, monkeypatch):
    monkeypatch.setattr(advice, "_peaks", lambda _: {})
    record(run, "one", 50.0)
    assert advise(run).advice == "continue"  # it has just improved
    record(run, "two", 60.0)
    found = advise(run)
    assert (found.advice, found.ceiling, found.distance) == ("undecided", None, None)
    assert "profile the best kernel" in found.reasons[0]


def test_what_another_judge_found_asks_for_a_new_look(run):
    record(run, "old", 50.0, fingerprint="old")
    record(run, "new", fingerprint="new")
    found = advise(run)
    assert found.advice == "continue"
    assert "1 of 2 kernels were found correct" in found.reasons[0]


def test_the_peaks_are_those_of_the_chips():
    assert advice._peaks("v6e")["bf16_flops_per_s"] == 920e12  # as jax has it
    assert advice._peaks("v9") == {}


def test_judging_the_best_again_is_no_progress(run):
    record(run, "one", 2 * CEILING_US, kernel="best")
    for number in range(3):
        record(run, f"null{number}", 3 * CEILING_US + number)
        judge_idea(run, number, f"null{number}")
    record(run, "again", 2 * CEILING_US, kernel="best")
    found = advise(run)
    assert (found.advice, found.null_results, found.kernels_since_best) == ("stop", 3, 3)
    record(run, "faster", 1.9 * CEILING_US, kernel="best")
    assert (advise(run).null_results, advise(run).kernels_since_best) == (0, 0)


@pytest.mark.parametrize(("high", "room"), [(1.09, False), (1.3, True)])
def test_what_the_interval_leaves_open_is_said(run, high, room):
    record(run, "one", 1.05 * CEILING_US, candidate_interval_us=(CEILING_US, high * CEILING_US))
    found = advise(run)
    assert found.advice == "stop"
    assert ("less than a tenth" in found.reasons[0], "there is room" in found.reasons[0]) == (True, room)

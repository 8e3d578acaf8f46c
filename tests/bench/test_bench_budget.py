"""What counts as spent, and when a run has to stop."""

import json

import pytest
from bench_fixtures import BUDGET
from hawkeye_bench.budget import Budget, Meter, Spent, after, exceeded
from pydantic import ValidationError

VERDICT = {"event": "verdict", "kind": "evaluate", "status": "incorrect", "kernel_sha256": "a"}
READ = {"event": "call_end", "outcome": "ok", "cell_read": {"row": "01_mxu_feed", "part": "guide"}}
MODEL = {"kind": "model", "prompt_tokens": 10, "completion_tokens": 5, "cost_usd": 0.5}


@pytest.mark.parametrize(
    ("line", "productive"),
    [
        (VERDICT, 1),
        (VERDICT | {"cached": True}, 0),
        (VERDICT | {"kind": "profile"}, 0),
        (VERDICT | {"status": "harness_error"}, 0),
        (READ, 1),
        (READ | {"outcome": "tool_error"}, 0),
        ({"event": "call_end", "outcome": "ok", "tool": "read_taxonomy_cell"}, 0),  # the list of cells
        ({"kind": "edit", "path": "k.py"}, 1),
        ({"kind": "tool_call", "tool": "evaluate_kernel"}, 0),
        (MODEL, 0),
    ],
)
def test_edits_new_judgements_and_cells_are_productive(line, productive):
    assert after(Spent(), line).productive_turns == productive


def test_model_calls_tokens_and_dollars_add_up_and_unknown_stays_unknown():
    assert after(Spent(), {"kind": "model"}) == Spent(turns=1)
    assert after(after(Spent(), MODEL), MODEL) == Spent(turns=2, tokens=30, cost_usd=1.0)
    assert after(Spent(), {"kind": "model", "prompt_tokens": 0}).tokens == 0
    # What a client tells only as a total is no call.
    assert after(Spent(turns=2, tokens=30), MODEL | {"kind": "usage"}) == Spent(turns=2, tokens=45, cost_usd=0.5)


@pytest.mark.parametrize(
    ("spent", "limit"),
    [
        (Spent(), None),
        (Spent(productive_turns=4), None),
        (Spent(productive_turns=5), "productive_turn_limit"),
        (Spent(turns=8), None),  # the eighth call may still be carried out
        (Spent(turns=9), "turn_limit"),
        (Spent(tokens=99), None),
        (Spent(tokens=100), "token_limit"),
        (Spent(cost_usd=1.9), None),
        (Spent(cost_usd=2.0), "cost_limit"),
    ],
)
def test_a_run_stops_when_any_of_its_limits_is_reached(spent, limit):
    assert exceeded(Budget(productive_turns=5, turns=8, tokens=100, cost_usd=2.0), spent) == limit


def test_tokens_and_dollars_are_no_limit_unless_asked_for():
    assert exceeded(Budget(), Spent(tokens=10**9, cost_usd=10.0**6)) is None


def test_the_meter_reads_each_line_of_the_log_once_and_waits_for_the_rest_of_one(tmp_path):
    log = tmp_path / "calls.jsonl"
    meter = Meter(BUDGET.model_copy(update={"productive_turns": 4}), log)
    assert meter.note({"kind": "note"}) is None
    log.write_text(json.dumps(VERDICT) + "\n" + json.dumps(READ) + "\n" + json.dumps(VERDICT)[:20])
    assert meter.note({"kind": "tool_result"}) is None
    assert meter.spent.productive_turns == 2
    with log.open("a") as stream:
        stream.write(json.dumps(VERDICT)[20:] + "\n")
    assert meter.note({"kind": "edit", "path": "k.py"}) == "productive_turn_limit"
    assert meter.spent.productive_turns == 4
    assert meter.look() == "productive_turn_limit"
    assert meter.spent.productive_turns == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"productive_turns": 0},
        {"minutes": 0},
        {"minutes": float("inf")},
        {"tokens": 0},
        {"cost_usd": float("inf")},
        {"dollars": 1},
    ],
)
def test_a_budget_of_nothing_or_of_something_unknown_is_refused(wrong):
    with pytest.raises(ValidationError):
        Budget(**wrong)

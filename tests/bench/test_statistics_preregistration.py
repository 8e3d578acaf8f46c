"""A frozen plan: its hash, what it refuses, and what the report says where it deviated."""

import json

import pytest
from bench_fixtures import BUDGET, plan
from hawkeye_bench import preregistration, runs
from hawkeye_bench.analysis import Choices
from hawkeye_bench.preregistration import NotRegistered
from synthetic_runs import run

PLAN = plan(workloads=["w0", "w1"], conditions=["none", "taxonomy"], reps=2)
LATER = "2999-01-01T00:00:00+00:00"


def planned(**changed):
    return [
        run(workload, condition, repeat, **{"started": LATER} | changed)
        for workload in PLAN.workloads
        for condition in PLAN.conditions
        for repeat in (1, 2)
    ]


def test_the_hash_is_of_every_choice_and_of_nothing_else(tmp_path):
    first = preregistration.preregister(tmp_path / "a", PLAN, Choices())
    again = preregistration.preregister(tmp_path / "b", PLAN, Choices())
    assert first.sha256 == again.sha256 and len(first.sha256) == 64
    others = [
        (PLAN.model_copy(update={"reps": 3}), Choices()),
        (PLAN.model_copy(update={"model": "another"}), Choices()),
        (PLAN.model_copy(update={"budget": BUDGET.model_copy(update={"turns": 21})}), Choices()),
        (PLAN.model_copy(update={"seed": 1}), Choices()),
        (PLAN, Choices(failures="dropped")),
        (PLAN, Choices(seed=1)),
    ]
    hashes = {preregistration.digest(one.model_dump(mode="json"), how.model_dump(mode="json")) for one, how in others}
    assert len(hashes | {first.sha256}) == 7


def test_registering_the_same_again_changes_nothing_and_another_plan_is_refused(tmp_path):
    first = preregistration.preregister(tmp_path, PLAN, Choices())
    before = (tmp_path / "preregistered.json").read_bytes()
    runs.keep_plan(tmp_path, PLAN)
    assert preregistration.preregister(tmp_path, PLAN, Choices()) == first
    with pytest.raises(NotRegistered, match=r"reps: 2 was registered, now 3.*use another --out"):
        preregistration.preregister(tmp_path, PLAN.model_copy(update={"reps": 3}), Choices())
    assert (tmp_path / "preregistered.json").read_bytes() == before


def test_a_folder_that_was_begun_without_one_takes_none(tmp_path):
    runs.keep_plan(tmp_path, PLAN)
    with pytest.raises(NotRegistered, match=r"begun without a registered plan.*use another --out"):
        preregistration.preregister(tmp_path, PLAN, Choices())
    assert preregistration.load(tmp_path) is None


def test_a_folder_as_registered_has_no_deviation(tmp_path):
    registration = preregistration.preregister(tmp_path, PLAN, Choices())
    assert preregistration.deviations(registration, PLAN, Choices(), planned()) == []
    # What was read from the disk again hashes the same.
    assert preregistration.load(tmp_path) == registration


def test_each_deviation_is_named(tmp_path):
    registration = preregistration.preregister(tmp_path, PLAN, Choices())
    now = PLAN.model_copy(update={"workloads": ["w0", "w1", "w2"], "budget": BUDGET.model_copy(update={"turns": 99})})
    done = planned()[1:]
    done[0] = done[0].model_copy(update={"started": "2000-01-01T00:00:00+00:00"})
    done[1] = done[1].model_copy(update={"model": "another"})
    done[2] = done[2].model_copy(update={"versions": PLAN.versions.model_copy(update={"libtpu": "0"})})
    done += [run("w2", started=LATER), run("w1", "none", 9, started=LATER, status="broken", stop="broken")]
    found = preregistration.deviations(registration, now, Choices(failures="dropped"), done)
    assert found == [
        "turns: 20 was registered, now 99",
        "workloads: w0, w1 was registered, now w0, w1, w2",
        "failures: baseline was registered, now dropped",
        "1 of 8 registered runs have no result: w0 none #1.",
        "1 runs were not registered: w2 none #1.",
        "1 runs began before the registration: w0 none #2.",
        "2 runs had another agent, model, chip, version or host: w0 taxonomy #1, w0 taxonomy #2.",
    ]


def test_a_registration_changed_by_hand_is_told(tmp_path):
    preregistration.preregister(tmp_path, PLAN, Choices())
    path = tmp_path / "preregistered.json"
    content = json.loads(path.read_text())
    content["choices"]["failures"] = "dropped"
    path.write_text(json.dumps(content))
    found = preregistration.deviations(preregistration.load(tmp_path), PLAN, Choices(failures="dropped"), planned())
    assert found == ["preregistered.json was changed after it was written: its hash is not that of its content."]


def test_the_builtin_optimiser_is_who_was_registered_under_that_name(tmp_path):
    registration = preregistration.preregister(tmp_path, PLAN.model_copy(update={"model": "builtin"}), Choices())
    mine = planned(model="builtin optimiser (not a language model)")
    again = PLAN.model_copy(update={"model": "builtin"})
    assert preregistration.deviations(registration, again, Choices(), mine) == []
    assert len(preregistration.deviations(registration, again, Choices(), planned())) == 1

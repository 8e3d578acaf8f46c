"""In which order runs are started: drawn, recorded, and never changed by what is added later."""

from collections import Counter

from bench_fixtures import plan
from hawkeye_bench.order import planned

MANY = plan(workloads=[f"w{n}" for n in range(60)], conditions=["none", "taxonomy"], reps=2)


def of(the_plan):
    """The conditions of each workload and repeat, in their order."""
    found = {}
    for key in planned(the_plan):
        found.setdefault((key.workload, key.repeat), []).append(key.condition)
    return found


def test_every_run_is_there_once_and_a_pair_is_never_torn_apart():
    keys = planned(MANY)
    assert len(set(keys)) == len(keys) == 240
    pairs = [keys[place : place + 2] for place in range(0, 240, 2)]
    assert all((a.workload, a.repeat) == (b.workload, b.repeat) and a.condition != b.condition for a, b in pairs)
    # All workloads once before any a second time.
    assert [key.repeat for key in keys] == [1] * 120 + [2] * 120


def test_no_condition_is_always_first_and_another_seed_is_another_order():
    first = Counter(order[0] for order in of(MANY).values())
    assert set(first) == {"none", "taxonomy"}
    assert 40 < first["none"] < 80  # 60 expected of 120, and 3.65 standard deviations
    assert of(MANY) != of(MANY.model_copy(update={"seed": 1}))
    # Repeats of one workload are drawn apart.
    assert any(order != of(MANY)[workload, 2] for (workload, repeat), order in of(MANY).items() if repeat == 1)


def test_what_is_added_later_changes_no_order_that_was_drawn():
    more = MANY.model_copy(update={"workloads": ["new", *MANY.workloads], "conditions": ["menu", "taxonomy", "none"]})
    later = of(more.model_copy(update={"reps": 3}))
    for pair, order in of(MANY).items():
        assert [condition for condition in later[pair] if condition != "menu"] == order


def test_the_place_of_a_workloads_folder_has_no_part_in_it():
    here, there = (of(plan(workloads=[f"/{place}/mine"], conditions=list("abcdef"))) for place in "ab")
    assert list(here.values()) == list(there.values())

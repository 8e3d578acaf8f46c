"""The search with a stand-in judge whose optimum is known: what is looked at, what wins, what is kept and goes on."""

import json

import anyio
import pytest
from serving import FAIL_AFTER_S
from stand_in import REFUSED, SOURCE, SPACE, StandIn, estimate_us, time_us

from hawkeye_mcp.autotune import parameters
from hawkeye_mcp.autotune.model import Autotuned
from hawkeye_mcp.autotune.outcome import NotJudged
from hawkeye_mcp.autotune.request import Request
from hawkeye_mcp.autotune.search import search
from hawkeye_mcp.autotune.space import BadSpace, checked
from hawkeye_mcp.autotune.store import Busy, Unusable, alone
from hawkeye_mcp.workloads import load

pytestmark = pytest.mark.anyio
ALL = {(a, b) for a in SPACE["A"] for b in SPACE["B"]}
REFUSED_POINTS = {(4, 32), (8, 16), (8, 32)}
BEST = (4, 16)


async def run(folder, judge, *, space=SPACE, source=SOURCE, jobs=1, mark="mark", said=None, evaluate=None, **request):
    asked = {"strategy": "grid", **request}
    subject = Request(source, load("8p_GEMM"), "v5e", checked(space), **asked)

    async def judged(text):
        return await judge.evaluate(text, subject.workload, subject.tpu)

    with anyio.fail_after(FAIL_AFTER_S):
        return await search(
            subject,
            judge,
            evaluate or judged,
            folder,
            mark,
            jobs=jobs,
            progress=(said if said is not None else []).append,
        )


def points(found):
    return [tuple(each.parameters.values()) for each in found.looked_at]


async def test_a_grid_finds_the_optimum_and_says_what_it_gains(tmp_path):
    judge, said = StandIn(), []
    found = await run(tmp_path, judge, said=said)
    assert set(judge.profiled) == ALL
    assert judge.profiled[0] == (1, 8), "the file's own values come first"
    assert judge.judged == [BEST, (1, 8)]
    assert (found.status, found.best.parameters, found.best.us) == ("better", {"A": 4, "B": 16}, 100.0)
    assert (found.unchanged.us, found.best.seeds, found.best.source) == (206.0, 3, "predicted")
    # intervals of a tenth on both sides against each other
    assert (found.gain.ratio, found.gain.interval) == (2.06, (1.702, 2.493))
    assert found.message == (
        "A=4 B=16 is correct on 3 fresh draws and takes 100 us [90.9 to 110] (predicted), the file as it is 206 us "
        "[187 to 227] (predicted): 2.06 times as fast [1.7 to 2.49]."
    )
    assert said[0] == "12 of 12 points by grid"
    assert said[1] == "1 of 12: A=1 B=8: 206 us predicted; best 206 us at A=1 B=8"
    assert said[-1] == "judging A=1 B=8 in full"
    assert (found.points, found.allowed, found.own) == (12, 12, {"A": 1, "B": 8})


async def test_points_are_ranked_and_those_that_the_compiler_refuses_are_counted_with_its_words(tmp_path):
    found = await run(tmp_path, StandIn())
    timed = [each for each in found.looked_at if each.timed]
    assert points(found)[:9] == sorted(ALL - REFUSED_POINTS, key=lambda point: time_us(*point))
    assert [each.predicted_us for each in timed] == [time_us(*point) for point in points(found)[:9]]
    assert {each.rung for each in timed} == {"prediction"}
    assert set(points(found)[9:]) == REFUSED_POINTS
    assert all(
        (each.status, each.compiler_message, each.rung) == ("compile_error", REFUSED, None)
        for each in found.looked_at[9:]
    )
    assert found.counts == {"predicted": 9, "compile_error": 3}


async def test_the_winner_is_the_file_with_other_numbers_and_the_file_is_left_alone(tmp_path):
    found = await run(tmp_path, StandIn())
    written = (tmp_path / "best_kernel.py").read_text(encoding="utf-8")
    assert written == SOURCE.replace("A = 1", "A = 4").replace("0x8", "16")
    assert found.best_file == str(tmp_path / "best_kernel.py")
    assert Autotuned.model_validate_json((tmp_path / "result.json").read_text(encoding="utf-8")) == found


async def test_a_file_that_somebody_changed_is_not_overwritten(tmp_path):
    await run(tmp_path, StandIn())
    (tmp_path / "best_kernel.py").write_text("mine", encoding="utf-8")
    found = await run(tmp_path, StandIn())
    assert (tmp_path / "best_kernel.py").read_text(encoding="utf-8") == "mine"
    assert found.best_file == str(tmp_path / f"best_kernel_{found.best.kernel_sha256[:12]}.py")
    # what a search wrote, a search may replace
    (tmp_path / "best_kernel.py").write_text(SOURCE, encoding="utf-8")
    assert (await run(tmp_path, StandIn())).best_file == str(tmp_path / "best_kernel.py")


async def test_a_fastest_point_that_is_wrong_gives_way_to_the_next(tmp_path):
    judge = StandIn(wrong={BEST})
    found = await run(tmp_path, judge)
    second = sorted(ALL - REFUSED_POINTS, key=lambda point: time_us(*point))[1]
    assert tuple(found.best.parameters.values()) == second == (4, 8)
    assert [(one.parameters, one.status) for one in found.wrong] == [({"A": 4, "B": 16}, "incorrect")]
    assert "1 faster by prediction did not pass a full evaluation" in found.message


async def test_not_more_than_three_points_are_judged_for_the_winner(tmp_path):
    judge = StandIn(wrong=ALL)
    found = await run(tmp_path, judge)
    assert (found.status, found.best, found.gain, found.best_file) == ("none_correct", None, None, None)
    assert judge.judged == sorted(ALL - REFUSED_POINTS, key=lambda point: time_us(*point))[:3]
    assert "A=4 B=16: Wrong at check size." in found.message
    assert not (tmp_path / "best_kernel.py").exists()


async def test_where_intervals_overlap_neither_is_called_faster(tmp_path):
    found = await run(tmp_path, StandIn(within=1.5))
    assert (found.status, found.gain.indistinguishable) == ("indistinguishable", True)
    assert found.gain.interval == (0.9156, 4.635)
    assert "indistinguishable: the intervals overlap" in found.message
    found = await run(tmp_path, StandIn(within=1.42))
    assert (found.status, found.gain.indistinguishable) == ("better", False)


async def test_a_tie_is_the_files_own(tmp_path):
    # (4, 8) and (4, 24) take the same
    source = parameters.rewritten(SOURCE, {"A": 4, "B": 24})
    judge = StandIn()
    found = await run(tmp_path, judge, source=source, space={"A": [4], "B": [8, 24]})
    assert (found.status, found.best.parameters, found.best_file) == ("best_already", {"A": 4, "B": 24}, None)
    assert judge.judged == [(4, 24)], "one text is judged once"
    assert found.message.startswith("Nothing faster than the file as it is was found")


@pytest.mark.parametrize("us", [206.0, 230.0])
async def test_a_winner_that_is_no_faster_when_judged_gives_way_to_the_file_as_it_is(tmp_path, us):
    found = await run(tmp_path, StandIn(judged_us={BEST: us}))
    assert (found.status, found.best.parameters, found.best.us) == ("best_already", {"A": 1, "B": 8}, 206.0)
    assert found.best_file is None


async def test_no_gain_is_stated_over_a_file_that_is_wrong(tmp_path):
    found = await run(tmp_path, StandIn(wrong={(1, 8)}))
    assert (found.status, found.gain, found.best.parameters) == ("no_comparison", None, {"A": 4, "B": 16})
    assert "it is incorrect: Wrong at check size." in found.message


async def test_lower_bounds_rank_last_and_give_no_gain(tmp_path):
    found = await run(tmp_path, StandIn(lower_bounds={BEST}))
    assert points(found)[8] == BEST
    assert tuple(found.best.parameters.values()) == (4, 8)
    found = await run(tmp_path / "all", StandIn(lower_bounds=ALL))
    assert (found.status, found.gain) == ("no_comparison", None)
    assert "takes at least 100 us" in found.message
    assert "only a lower bound" in found.message


async def test_a_space_that_the_compiler_refuses_says_so(tmp_path):
    judge = StandIn()
    found = await run(tmp_path, judge, space={"A": [8], "B": [16, 32]})
    assert (found.status, found.counts, judge.judged) == ("none_timed", {"compile_error": 2}, [])
    assert "2 compile_error. A=8 B=16: The TPU compiler refuses it." in found.message


async def test_without_evaluations_no_winner_is_named(tmp_path):
    async def none_left(text):
        raise NotJudged("no evaluations are left")

    found = await run(tmp_path, StandIn(), evaluate=none_left)
    assert (found.status, found.best, found.best_file) == ("not_judged", None, None)
    assert "no evaluations are left" in found.message


# --- strategies


async def test_halving_predicts_what_is_among_the_best_third_of_the_estimates_so_far(tmp_path):
    space = {"A": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "B": [6, 7, 8, 9, 10]}
    judge = StandIn()
    found = await run(tmp_path, judge, strategy="halving", points=50, space=space)
    rungs = {tuple(each.parameters.values()): each.rung for each in found.looked_at}
    so_far, went_on = [], []
    for point in judge.profiled:  # optuna's rule, which is asynchronous: no point waits for those after it
        so_far.append(estimate_us(*point))
        if so_far[-1] <= sorted(so_far)[max(0, len(so_far) // 3 - 1)]:
            went_on.append(point)
    assert {point for point, rung in rungs.items() if rung == "prediction"} == set(went_on)
    assert {point for point, rung in rungs.items() if rung == "estimate"} == set(judge.profiled) - set(went_on)
    assert 50 / 3 <= len(went_on) < 25
    assert all(each.estimate_us == estimate_us(*each.parameters.values()) for each in found.looked_at)
    assert all((each.predicted_us is None) == (each.rung == "estimate") for each in found.looked_at)
    assert points(found)[: len(went_on)] == sorted(went_on, key=lambda point: time_us(*point))
    assert found.best.parameters == {"A": 4, "B": 10}
    assert "an estimate" in found.rungs["estimate"]


async def test_random_points_are_distinct_allowed_and_the_seeds_own(tmp_path):
    drawn = []
    for number, seed in enumerate((0, 0, 1)):
        judge = StandIn()
        space = {"parameters": SPACE, "constraints": ["A * B <= 100", "B > 8 or A == 1"]}
        found = await run(tmp_path / str(number), judge, strategy="random", points=5, seed=seed, space=space)
        drawn.append(judge.profiled)
        assert (found.points, found.allowed, len(set(judge.profiled))) == (5, 6, 5)
        assert judge.profiled[0] == (1, 8)
        assert all(a * b <= 100 and (b > 8 or a == 1) for a, b in judge.profiled)
    assert drawn[0] == drawn[1] != drawn[2]


async def test_the_estimator_comes_closer_with_as_many_points_as_chance(tmp_path):
    space = {"A": list(range(1, 20)), "B": list(range(1, 33))}
    best = {}
    for strategy in ("random", "tpe"):
        for seed in range(3):
            judge = StandIn()
            found = await run(
                tmp_path / f"{strategy}{seed}", judge, strategy=strategy, points=40, seed=seed, space=space
            )
            assert len(found.looked_at) == len(set(points(found))) == 40
            best[strategy, seed] = found.best.us
    assert max(best["tpe", seed] for seed in range(3)) < min(best["random", seed] for seed in range(3)) + 2
    assert sum(best["tpe", seed] for seed in range(3)) < sum(best["random", seed] for seed in range(3)) - 5


async def test_the_estimator_ends_with_the_points_that_there_are(tmp_path):
    judge = StandIn()
    found = await run(tmp_path, judge, strategy="tpe", points=1000)
    assert (found.points, set(judge.profiled), len(judge.profiled)) == (12, ALL, 12)


async def test_a_grid_of_some_points_is_refused_before_anything_starts(tmp_path):
    judge = StandIn()
    with pytest.raises(BadSpace, match="looks at all 12 points, and 5 are asked for"):
        await run(tmp_path, judge, points=5)
    assert judge.profiled == []


async def test_several_at_a_time_find_the_same(tmp_path):
    one = await run(tmp_path / "1", StandIn())
    three = await run(tmp_path / "3", StandIn(), jobs=3)
    assert points(three) == points(one)
    assert three.best.parameters == one.best.parameters


# --- what is kept


@pytest.mark.parametrize("strategy", ["grid", "random", "halving", "tpe"])
async def test_what_was_looked_at_is_not_done_again_and_the_result_is_the_same(tmp_path, strategy):
    judge = StandIn()
    first = await run(tmp_path, judge, strategy=strategy)
    again = StandIn()
    second = await run(tmp_path, again, strategy=strategy)
    assert (again.profiled, second.from_store, first.from_store) == ([], 12, 0)
    assert again.judged == judge.judged, "the winner is judged on fresh seeds each time"
    assert second.looked_at == first.looked_at


@pytest.mark.parametrize("strategy", ["grid", "random", "halving", "tpe"])
async def test_a_search_that_was_cancelled_goes_on_where_it_stopped(tmp_path, strategy):
    whole = await run(tmp_path / "whole", StandIn(), strategy=strategy)
    held = StandIn(hold_after=5)
    async with anyio.create_task_group() as tasks:

        async def begun():
            await run(tmp_path / "cut", held, strategy=strategy)

        tasks.start_soon(begun)
        await held.holding.wait()
        tasks.cancel_scope.cancel()
    judge = StandIn()
    found = await run(tmp_path / "cut", judge, strategy=strategy)
    assert len(judge.profiled) == 7
    assert not set(judge.profiled) & set(held.profiled)
    assert (found.from_store, found.status, found.best.parameters) == (5, whole.status, whole.best.parameters)
    assert points(found) == points(whole)
    assert [each.rung for each in found.looked_at] == [each.rung for each in whole.looked_at]


async def test_a_grid_predicts_what_halving_left_at_an_estimate(tmp_path):
    halved = await run(tmp_path, StandIn(), strategy="halving")
    left = {tuple(each.parameters.values()) for each in halved.looked_at if each.rung == "estimate"}
    judge = StandIn()
    found = await run(tmp_path, judge)
    assert left
    assert set(judge.profiled) == left
    assert found.counts == {"predicted": 9, "compile_error": 3}


async def test_halving_in_another_order_goes_on_from_estimates_that_are_known(tmp_path):
    space = {"A": list(range(1, 10)), "B": [8, 10]}
    rungs = {}
    for name, seed in (("fresh", 1), ("shared", 0), ("shared", 1)):
        judge = StandIn()
        found = await run(tmp_path / name, judge, strategy="halving", space=space, seed=seed)
        rungs[name, seed] = {tuple(p.parameters.values()) for p in found.looked_at if p.rung == "prediction"}
    fresh, earlier = rungs["fresh", 1], rungs["shared", 0]
    assert fresh - earlier
    assert rungs["shared", 1] == fresh | earlier
    assert set(judge.profiled) == fresh - earlier, "estimates are not made again where they decide"
    assert all(each.estimate_us == estimate_us(*each.parameters.values()) for each in found.looked_at)


async def test_a_search_over_other_names_knows_the_texts_that_it_shares(tmp_path):
    await run(tmp_path, StandIn(), space={"A": [1, 4]})
    judge = StandIn()
    found = await run(tmp_path, judge)
    assert len(judge.profiled) == 10
    assert {frozenset(each.parameters) for each in found.looked_at} == {frozenset({"A", "B"})}
    assert set(points(found)) == ALL


async def test_another_judge_or_a_damaged_line_is_looked_at_again(tmp_path):
    await run(tmp_path, StandIn())
    judge = StandIn()
    await run(tmp_path, judge, mark="another")
    assert set(judge.profiled) == ALL
    lines = (tmp_path / "points.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:50]  # cut off, with the next one after it on the same line
    (tmp_path / "points.jsonl").write_bytes(b"".join(lines[:12])[:-20])
    judge = StandIn()
    await run(tmp_path, judge)
    assert len(judge.profiled) == 3
    judge = StandIn()
    await run(tmp_path, judge)
    assert judge.profiled == [], "what came after a cut line was kept on a line of its own"
    kept = [
        json.loads(line)["looked"]["kernel_sha256"]
        for line in (tmp_path / "points.jsonl").read_bytes().splitlines()[-3:]
    ]
    assert len(set(kept)) == 3


@pytest.mark.parametrize("figure", ["-5.0", "NaN", "Infinity"])
async def test_a_point_with_a_time_that_is_none_is_looked_at_again(tmp_path, figure):
    whole = await run(tmp_path, StandIn())
    kept = (tmp_path / "points.jsonl").read_text()
    (tmp_path / "points.jsonl").write_text(kept.replace('"predicted_us":116.0', f'"predicted_us":{figure}'))
    judge = StandIn()
    found = await run(tmp_path, judge)
    assert (judge.profiled, found.looked_at[0].predicted_us) == ([(4, 8)], 100.0)
    assert [each.parameters for each in found.looked_at] == [each.parameters for each in whole.looked_at]


async def test_faults_of_the_harness_are_not_kept_and_end_a_search_when_they_do_not_end(tmp_path):
    judge = StandIn(faulty={(1, 16), (2, 8), (4, 8)})
    found = await run(tmp_path, judge)
    assert (found.stopped_by, found.counts["harness_error"]) == (None, 3)
    judge = StandIn(faulty=ALL)
    found = await run(tmp_path / "all", judge)
    assert (found.stopped_by, len(judge.profiled), found.status) == ("faults", 3, "none_timed")
    judge = StandIn()
    await run(tmp_path, judge)
    assert set(judge.profiled) == {(1, 16), (2, 8), (4, 8)}


async def test_when_time_is_up_no_point_is_taken_up_and_what_is_known_is_judged(tmp_path):
    found = await run(tmp_path, StandIn(), seconds=0.0)
    assert (found.stopped_by, found.status, found.looked_at) == ("seconds", "none_timed", [])
    await run(tmp_path, StandIn())
    judge = StandIn()
    found = await run(tmp_path, judge, seconds=0.0)
    assert (found.stopped_by, found.from_store, judge.profiled, found.status) == (None, 12, [], "better")


async def test_one_search_at_a_time_in_a_folder(tmp_path):
    with alone(tmp_path), pytest.raises(Busy, match="Another search is at work"):
        await run(tmp_path, StandIn())
    assert (await run(tmp_path, StandIn())).status == "better"


async def test_a_folder_that_cannot_be_is_said_to_be_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unusable, match="file"):
        await run(tmp_path / "file" / "folder", StandIn())
    (tmp_path / "points.jsonl").mkdir()
    with pytest.raises(Unusable, match=r"points.jsonl: Is a directory. Make room or choose another folder"):
        await run(tmp_path, StandIn())

"""The autotune tool: there with a run, flat, a job like others, and what it spends."""

import json

import anyio
import pytest
from fake_judge import FakeJudge
from serving import FAIL_AFTER_S, connected, data
from stand_in import SOURCE, SPACE, StandIn

pytestmark = pytest.mark.anyio


def asked(**changed):
    return {"source": SOURCE, "space": json.dumps(SPACE), "strategy": "grid", **changed}


async def test_it_is_there_only_with_a_run_and_every_client_can_use_its_schema(tmp_path):
    async with connected(tmp_path) as client:
        assert "autotune" not in [tool.name for tool in (await client.list_tools()).tools]
    async with connected(tmp_path, run=tmp_path / "run") as client:
        (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == "autotune"]
    assert tool.input_schema["additionalProperties"] is False
    for name, field in tool.input_schema["properties"].items():
        assert field["type"] in ("string", "number", "integer", "boolean"), name
        assert field["description"]
        if field.get("default"):
            assert str(field["default"]).removesuffix(".0") in field["description"]


async def test_it_answers_with_the_winner_the_gain_and_what_was_refused(tmp_path):
    judge = StandIn()
    async with connected(tmp_path, judge, run=tmp_path / "run", max_evaluations=5) as client:
        found = data(await client.call_tool("autotune", asked()))
        assert (found["status"], found["best"], found["best_us"]) == ("better", {"A": 4, "B": 16}, 100.0)
        assert (found["unchanged_us"], found["gain"], found["gain_interval"]) == (206.0, 2.06, [1.702, 2.493])
        assert found["counts"] == {"predicted": 9, "compile_error": 3}
        assert [point["predicted_us"] for point in found["points"]][:2] == [100.0, 116.0]
        assert found["refused"][0].startswith("3 points compile_error, for example A=4 B=32: E1001")
        assert found["evaluations_left"] == 3, "twelve points are free, the winner and the file as it is are not"
        # the winner is an ordinary kernel of this server: judged once, and free from then on
        best = SOURCE.replace("A = 1", "A = 4").replace("0x8", "16")
        again = data(await client.call_tool("evaluate_kernel", {"source": best}))
        assert (again["cached"], again["evaluation_id"], again["evaluations_left"]) == (True, found["evaluation_id"], 3)
        judge.profiled.clear()
        repeated = data(await client.call_tool("autotune", asked()))
        assert (repeated["best"], repeated["evaluations_left"], judge.profiled) == ({"A": 4, "B": 16}, 3, [])


async def test_an_object_will_do_for_the_space(tmp_path):
    async with connected(tmp_path, StandIn(), run=tmp_path / "run") as client:
        found = data(await client.call_tool("autotune", asked(space={"A": [1, 4]})))
    assert found["best"] == {"A": 4}


async def test_without_evaluations_the_points_are_told_and_no_winner(tmp_path):
    async with connected(tmp_path, StandIn(), run=tmp_path / "run", max_evaluations=1) as client:
        await client.call_tool("evaluate_kernel", {"source": SOURCE})
        found = data(await client.call_tool("autotune", asked()))
    assert (found["status"], found["best"], found["evaluations_left"]) == ("not_judged", None, 0)
    assert found["points"][0]["parameters"] == {"A": 4, "B": 16}
    assert "no evaluations are left" in found["message"]


async def test_points_are_spent_over_all_searches_of_the_run_and_known_ones_cost_nothing(tmp_path):
    judge = StandIn()
    async with connected(tmp_path, judge, run=tmp_path / "run", max_points=5) as client:
        first = data(await client.call_tool("autotune", asked(space={"A": [1, 2, 4]})))
        assert (first["stopped_by"], first["best"], len(judge.profiled)) == (None, {"A": 4}, 3)
        other = asked(source=f"{SOURCE}# another text\n")
        second = data(await client.call_tool("autotune", other))
        assert (second["stopped_by"], second["status"], len(judge.profiled)) == ("budget", "indistinguishable", 5)
        third = data(await client.call_tool("autotune", asked(source=f"{SOURCE}# a third text\n")))
        assert (third["stopped_by"], third["status"], len(judge.profiled)) == ("budget", "none_timed", 5)
        assert "budget of points is spent" in third["message"]
        again = data(await client.call_tool("autotune", asked(space={"A": [1, 2, 4]})))
        assert (again["stopped_by"], again["best"], len(judge.profiled)) == (None, {"A": 4}, 5)


async def test_a_point_that_was_estimated_may_be_predicted_although_the_budget_is_spent(tmp_path):
    async with connected(tmp_path, StandIn(), run=tmp_path / "run", max_points=12) as client:
        estimated = data(await client.call_tool("autotune", asked(strategy="halving")))
        predicted = data(await client.call_tool("autotune", asked(strategy="grid")))
    assert (estimated["stopped_by"], estimated["counts"]["estimated"]) == (None, 2)
    assert (predicted["stopped_by"], predicted["counts"]) == (None, {"predicted": 9, "compile_error": 3})


async def test_it_is_a_job_with_progress_that_can_be_cancelled_and_goes_on(tmp_path):
    held, stages = StandIn(hold_after=5), []

    async def beat(value, total, message):
        stages.append(message)

    async with connected(tmp_path, held, run=tmp_path / "run") as client:
        with anyio.fail_after(FAIL_AFTER_S):
            running = data(await client.call_tool("autotune", asked(wait_s=0)))
            assert (running["status"], running["points"]) == ("running", [])
            await held.holding.wait()
            await client.call_tool("job", {"job_id": running["job_id"], "wait_s": 0}, progress_callback=beat)
            ended = data(await client.call_tool("job", {"job_id": running["job_id"], "action": "cancel"}))
    assert stages[-1].startswith("5 of 12: ")
    assert ended["status"] == "cancelled"
    assert "it goes on from what was looked at" in ended["next_step"]
    judge = StandIn()
    async with connected(tmp_path, judge, run=tmp_path / "run") as client:
        found = data(await client.call_tool("autotune", asked()))
    assert (found["status"], len(judge.profiled)) == ("better", 7)


async def test_a_folder_that_cannot_be_had_is_no_fault_of_the_judge(tmp_path):
    held = StandIn(hold_after=1)
    async with (
        connected(tmp_path, held, run=tmp_path / "run") as client,
        connected(tmp_path, StandIn(), run=tmp_path / "run") as other,
    ):
        with anyio.fail_after(FAIL_AFTER_S):
            await client.call_tool("autotune", asked(wait_s=0))
            await held.holding.wait()
            for caller in (client, other):
                found = data(await caller.call_tool("autotune", asked(space={"A": [1, 4]})))
                assert found["status"] == "busy"
                assert found["message"].startswith("Another search is at work in")
                assert "again" in found["next_step"]
        (tmp_path / "run" / "autotune").rename(tmp_path / "searches")
        (tmp_path / "run" / "autotune").write_text("in the way")
        found = data(await other.call_tool("autotune", asked()))
        assert found["status"] == "harness_error"
        assert "autotune" in found["message"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"space": "{"}, "no JSON"),
        ({"space": '{"C": [1]}'}, "It has A = 1, B = 8."),
        ({"space": '{"A": [1]}', "points": -1}, "points"),
        ({"source": ""}, "exactly one of source"),
        ({"points": 3}, "looks at all 12 points"),
        ({"strategy": "best"}, "strategy"),
    ],
)
async def test_a_wrong_call_is_told_what_is_wrong(tmp_path, changed, said):
    async with connected(tmp_path, FakeJudge(), run=tmp_path / "run") as client:
        found = await client.call_tool("autotune", asked(**changed))
    assert found.is_error
    assert said in found.content[0].text


async def test_what_the_judge_says_of_its_inside_is_not_for_clients(tmp_path):
    judge = StandIn(faulty={(a, b) for a in SPACE["A"] for b in SPACE["B"]})
    async with connected(tmp_path, judge, run=tmp_path / "run") as client:
        result = await client.call_tool("autotune", asked())
    assert data(result)["status"] == "none_timed"
    assert "inside" not in result.content[0].text

"""The driver: which kernel counts, what a stop in the middle leaves, and what is never done twice."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import anyio
import pytest
from bench_fixtures import FAKE_SERVER, plan
from fake_judge import FakeJudge
from families import ended, family, until
from hawkeye_bench import driver, runs, schedule
from hawkeye_bench.agents.session import connect
from hawkeye_bench.order import RunKey, pending, planned

from hawkeye_mcp import calllog, content, workloads
from hawkeye_mcp.state import write_atomically
from hawkeye_mcp.tools.answering import LONGEST_WAIT_S, PATIENT_CLIENTS
from hawkeye_mcp.versions import versions

KEY = RunKey("8p_GEMM", "none", 1)


class ScriptedAgent:
    """Submits the given texts through the server; its outputs are not an agent's result."""

    name = "minimal"
    model = "scripted"
    files = False

    def __init__(self, *sources, entered=None):
        self.sources = sources
        self.entered = entered
        self.worked_on = []

    async def run(self, task, emit):
        self.worked_on.append((task.workload, "taxonomy" in task.prompt))
        async with connect(task, emit) as session:
            for source in self.sources:
                await session.call("evaluate_kernel", {"source": source})
            if self.entered:
                self.entered.set()
                await anyio.sleep_forever()
        return "finished"


def verdict(name, status, speedup, kind="evaluate"):
    return {"event": "verdict", "kind": kind, "status": status, "speedup": speedup, "kernel_sha256": name}


def test_the_fastest_correct_kernel_counts_and_ties_go_to_the_earliest():
    log = [
        verdict("slow", "correct", 0.5),
        verdict("unknown", "correct", None),
        verdict("wrong", "incorrect", 9.0),
        verdict("profiled", "correct", 9.0, kind="profile"),
        verdict("first", "correct", 2.0),
        verdict("second", "correct", 2.0),
        {"event": "call_end", "status": "correct", "speedup": 9.0},
    ]
    assert driver.best(log) == driver.Best("first", 2.0)
    bounded = verdict("bounded", "correct", 9.0) | {"lower_bound": True}
    assert driver.best([bounded, *log]) == driver.Best("first", 2.0)
    doubtful = verdict("doubtful", "correct", 2.4) | {"speedup_interval": [1.5, 3.0]}
    sure = verdict("sure", "correct", 2.2) | {"speedup_interval": [2.1, 2.3]}
    assert driver.best([doubtful, *log, sure]) == driver.Best("sure", 2.2)
    assert driver.best(log[1:2]) == driver.Best("unknown", None)
    assert driver.best(log[2:4]) is None


async def all_runs(the_plan, agent, out):
    outcomes, judge = [], FakeJudge()

    async def do(key, progress):
        outcomes.append(await driver.run_one(the_plan, agent, out, key, progress, judge.open, FAKE_SERVER))
        return outcomes[-1]

    await schedule.run_all(the_plan, out, do)
    return outcomes, judge


@pytest.mark.anyio
async def test_runs_are_started_in_the_drawn_order_and_a_finished_one_is_never_done_again(tmp_path):
    both = plan(workloads=["8p_GEMM", "12p_RMSNorm"], conditions=["none", "taxonomy"])
    agent = ScriptedAgent("# fake: speedup 3\n")
    outcomes, judge = await all_runs(both, agent, tmp_path)
    order = [(key.workload, key.condition == "taxonomy") for key in planned(both)]
    assert agent.worked_on == order
    assert [run.speedup for run in outcomes] == [3.0] * 4
    first = outcomes[0]
    assert (first.isolation, first.artifact_sha256, first.baseline_method) == ("rlimits", "a" * 64, "fake")
    # The verdict that counts was reached again, outside the agent's session.
    assert judge.judged == ["# fake: speedup 3\n"] * 4
    assert judge.closed

    assert (await all_runs(both, agent, tmp_path))[0] == []
    assert agent.worked_on == order


@pytest.mark.anyio
async def test_a_run_keeps_what_was_read_in_order(tmp_path):
    class Reading(ScriptedAgent):
        async def run(self, task, emit):
            async with connect(task, emit) as session:
                if "read_taxonomy_cell" in session.tools:
                    parts = session.tools["read_taxonomy_cell"].input_schema["properties"]
                    for row, part in (
                        ("", "all"),
                        ("05_fused_epilogue", "guide"),
                        ("01_mxu_feed", "all"),
                        ("no", "all"),
                    ):
                        asked = {"row": row, "part": part} if "part" in parts else {"row": row}
                        await session.call("read_taxonomy_cell", asked)
            return "finished"

    conditions = ["none", "placebo", "taxonomy", "menu"]
    outcomes, _ = await all_runs(plan(conditions=conditions), Reading(), tmp_path)
    by_condition = {run.condition: run for run in outcomes}
    read = {name: [f"{one.row} {one.part}" for one in run.cells_read] for name, run in by_condition.items()}
    assert read == {
        "none": [],
        "placebo": ["05_fused_epilogue guide", "01_mxu_feed all"],
        "taxonomy": ["05_fused_epilogue guide", "01_mxu_feed all"],
        "menu": ["05_fused_epilogue all", "01_mxu_feed all"],
    }
    assert runs.finished(tmp_path / "8p_GEMM/placebo/1") == by_condition["placebo"]
    for condition in ("placebo", "menu"):
        workspace = (tmp_path / "8p_GEMM" / condition / "1" / "workspace").resolve()
        assert condition not in str(workspace.relative_to(tmp_path))


@pytest.mark.anyio
async def test_a_run_says_what_its_workload_says_of_itself(tmp_path):
    weak, saved = "26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply", "21k_Gemm_Divide_Sum_Scaling"
    outcomes, _ = await all_runs(plan(workloads=[weak, saved, "8p_GEMM"]), ScriptedAgent(), tmp_path)
    assert [(bool(run.no_power), bool(run.algebraic)) for run in outcomes] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert outcomes[0].no_power == workloads.load(weak).no_power
    assert outcomes[1].algebraic == workloads.load(saved).algebraic


def test_the_agent_is_told_the_same_under_placebo_as_under_the_taxonomy():
    assert driver.prompt(plan(), "8p_GEMM", "placebo") == driver.prompt(plan(), "8p_GEMM", "taxonomy")
    menu = driver.prompt(plan(), "8p_GEMM", "menu")
    assert "read_taxonomy_cell" in menu
    assert "naive" not in menu
    assert "guide" not in menu


@pytest.mark.anyio
async def test_where_an_agent_works_says_nothing_of_its_condition(tmp_path):
    seen = {}

    class Looking(ScriptedAgent):
        async def run(self, task, emit):
            seen["taxonomy" if "taxonomy" in task.prompt else "none"] = task.workspace
            (task.workspace / "k.py").write_text("# fake: speedup 3\n")
            async with connect(task, emit) as session:
                assert not (await session.call("evaluate_kernel", {"path": "k.py"})).is_error
            return "finished"

    conditions = ["none", "taxonomy"]
    outcomes, _ = await all_runs(plan(conditions=conditions), Looking(), tmp_path)
    assert [run.speedup for run in outcomes] == [3.0, 3.0]
    assert len(set(seen.values())) == 2
    first = dict(seen)
    for condition, folder in first.items():
        assert folder.relative_to(tmp_path).parts[0] == "workspaces"
        assert not [word for word in ("8p_GEMM", *conditions) if word in str(folder.relative_to(tmp_path))]
        assert (tmp_path / "8p_GEMM" / condition / "1" / "workspace" / "k.py").samefile(folder / "k.py")
    for record in ("run.json", "worked.json"):
        (tmp_path / "8p_GEMM/none/1" / record).unlink()
    await all_runs(plan(conditions=conditions), Looking(), tmp_path)
    assert (tmp_path / "8p_GEMM/none/1.unfinished-1/workspace").samefile(first["none"])
    assert (tmp_path / "8p_GEMM/none/1/workspace").samefile(seen["none"])
    assert seen["none"] != first["none"]


@pytest.mark.anyio
async def test_a_run_that_was_stopped_is_set_aside_and_done_again(tmp_path):
    entered = anyio.Event()
    agent = ScriptedAgent("# fake: speedup 3\n", entered=entered)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(all_runs, plan(), agent, tmp_path)
        await entered.wait()
        server = calllog.read(tmp_path / "8p_GEMM/none/1/calls.jsonl")[0]["pid"]
        running = family(server)
        tasks.cancel_scope.cancel()
    assert list(running) == [server]
    until(lambda: ended(running))
    assert runs.finished(tmp_path / "8p_GEMM/none/1") is None

    outcomes, _ = await all_runs(plan(), ScriptedAgent("# fake: speedup 2\n"), tmp_path)
    assert [(run.speedup, run.evaluations) for run in outcomes] == [(2.0, 1)]
    old = calllog.read(tmp_path / "8p_GEMM/none/1.unfinished-1/calls.jsonl")
    assert [line["speedup"] for line in old if line["event"] == "verdict"] == [3.0]


@pytest.mark.anyio
async def test_a_kernel_that_was_pooled_before_counts_and_its_cached_verdict_is_no_evaluation(tmp_path):
    shared, pooled = tmp_path / "shared", "# fake: speedup 4\n"

    class WithPool(ScriptedAgent):
        """Its server has the pool of another session, in which the same text was judged."""

        async def run(self, task, emit):
            args = [str(shared) if before == "--state" else arg for before, arg in pairwise(["", *task.server.args])]
            return await super().run(replace(task, server=task.server.model_copy(update={"args": args})), emit)

    await all_runs(plan(), WithPool(pooled), tmp_path / "first")
    (run,), _ = await all_runs(plan(), WithPool(pooled, pooled), tmp_path / "second")
    assert (run.status, run.speedup, run.evaluations) == ("correct", 4.0, 0)
    assert run.tool_calls == {"evaluate_kernel": 2}
    start = next(x for x in calllog.read(tmp_path / "second/8p_GEMM/none/1/calls.jsonl") if x["event"] == "call_start")
    assert start["client"]["name"] in PATIENT_CLIENTS, "a name that lets it wait for a verdict in one turn"
    assert start["arguments"]["wait_s"] == LONGEST_WAIT_S


@pytest.mark.anyio
async def test_the_time_limit_stops_the_agent_and_its_kernel_counts(tmp_path, monkeypatch):
    class Outlasting(ScriptedAgent):
        """Its time is over when its kernel has been judged, whatever that took: then the clock jumps."""

        async def run(self, task, emit):
            async with connect(task, emit) as session:
                await session.call("evaluate_kernel", {"source": self.sources[0]})
                loop = asyncio.get_running_loop()
                now = loop.time
                monkeypatch.setattr(loop, "time", lambda: now() + 60 * 60)
                await anyio.sleep_forever()

    outcomes, _ = await all_runs(plan(minutes=30), Outlasting("# fake: speedup 3\n"), tmp_path)
    assert (outcomes[0].stop, outcomes[0].status, outcomes[0].speedup) == ("time_limit", "correct", 3.0)


async def one_run(agent, out, **budget):
    return await driver.run_one(plan(**budget), agent, out, KEY, lambda text: None, FakeJudge().open, FAKE_SERVER)


@pytest.mark.anyio
async def test_an_agent_that_says_nothing_is_held_to_its_budget(tmp_path):
    class Silent(ScriptedAgent):
        async def run(self, task, emit):
            return await super().run(task, lambda kind, data: None)

    agent = Silent("# fake: speedup 2\n", "# fake: speedup 3\n", entered=anyio.Event())
    run = await one_run(agent, tmp_path, productive_turns=2, minutes=30)
    assert (run.stop, run.status, run.speedup, run.productive_turns) == ("productive_turn_limit", "correct", 3.0, 2)


@pytest.mark.anyio
async def test_a_judge_that_fails_at_every_kernel_is_no_fault_of_the_agent(tmp_path):
    run = await one_run(ScriptedAgent("# fake: harness_error\n", "# fake: harness_error\n#\n"), tmp_path)
    assert (run.status, run.stop, run.evaluations, run.productive_turns) == ("broken", "broken", 0, 0)
    assert "the judge failed at every kernel (2)" in run.error
    assert not (KEY.folder(tmp_path) / "worked.json").exists()
    run = await one_run(ScriptedAgent("# fake: harness_error\n", "# fake: incorrect\n"), tmp_path)
    assert (run.status, run.stop, run.evaluations) == ("no_correct_kernel", "finished", 1)


@pytest.mark.anyio
async def test_a_run_in_which_nothing_happened_says_nothing_of_the_agent(tmp_path):
    class Hanging(ScriptedAgent):
        async def run(self, task, emit):
            await anyio.sleep_forever()

    run = await one_run(Hanging(), tmp_path, minutes=0.001)
    assert (run.status, run.stop) == ("broken", "broken")
    assert "no model answered" in run.error


def test_a_damaged_record_of_work_is_told_before_anything_is_run(tmp_path):
    write_atomically(KEY.folder(tmp_path) / "worked.json", "{}")
    with pytest.raises(runs.Unreadable, match="worked.json is damaged"):
        pending(plan(), tmp_path)


@pytest.mark.anyio
async def test_a_kernel_that_is_not_correct_when_judged_again_does_not_count(tmp_path):
    class Stricter(FakeJudge):
        async def evaluate(self, source, workload, tpu, *, progress=lambda stage: None):
            return await super().evaluate("# fake: incorrect\n", workload, tpu, progress=progress)

    run = await driver.run_one(
        plan(),
        ScriptedAgent("# fake: speedup 3\n"),
        tmp_path,
        KEY,
        lambda text: None,
        Stricter().open,
        FAKE_SERVER,
    )
    assert (run.status, run.speedup, run.first_speedup) == ("not_confirmed", None, 3.0)


@pytest.mark.anyio
@pytest.mark.parametrize(("times", "status"), [(1, "correct"), (2, "not_confirmed")])
async def test_a_last_judgement_that_takes_too_long_is_made_once_more(tmp_path, times, status):
    class Slow(FakeJudge):
        async def evaluate(self, source, workload, tpu, *, progress=lambda stage: None):
            slow = len(self.judged) < times
            return await super().evaluate("# fake: timeout\n" if slow else source, workload, tpu, progress=progress)

    judge = Slow()
    agent = ScriptedAgent("# fake: speedup 3\n")
    run = await driver.run_one(plan(), agent, tmp_path, KEY, lambda text: None, judge.open, FAKE_SERVER)
    assert (run.status, len(judge.judged)) == (status, 2)


@pytest.mark.anyio
async def test_a_server_that_does_not_start_breaks_the_run(tmp_path):
    for command in (["/nonexistent/server"], ["/bin/false"]):
        run = await driver.run_one(plan(), ScriptedAgent(), tmp_path, KEY, lambda text: None, FakeJudge().open, command)
        assert (run.status, run.evaluations) == ("broken", 0)
        assert run.error


def test_a_folder_goes_on_with_more_work_but_not_with_other_parameters(tmp_path):
    runs.keep_plan(tmp_path, plan())
    runs.keep_plan(tmp_path, plan(conditions=["taxonomy"], reps=2))
    kept = runs.Plan.model_validate_json((tmp_path / "plan.json").read_bytes())
    assert (kept.conditions, kept.reps) == (["none", "taxonomy"], 2)
    with pytest.raises(runs.PlanDiffers, match="evaluations 5 is now 6"):
        runs.keep_plan(tmp_path, plan(evaluations=6))


def test_the_hash_of_the_cells_follows_what_conditions_show_and_nothing_else(tmp_path, monkeypatch):
    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    monkeypatch.setattr(content, "folder", lambda name: tmp_path)
    write("v5e/01_mxu_feed/guide.md", "one")
    write("placebo/text.md", "two")
    hashes = [runs.cells_hash()]
    write("source/01_mxu_feed/guide.md.j2", "template")
    write("README.md", "for people")
    assert runs.cells_hash() == hashes[0]
    for path, text in (("v5e/01_mxu_feed/guide.md", "1"), ("placebo/text.md", "2"), ("v5p/01_mxu_feed/guide.md", "1")):
        write(path, text)
        hashes.append(runs.cells_hash())
    assert len(set(hashes)) == 4


def test_a_folder_does_not_go_on_with_other_versions(tmp_path):
    runs.keep_plan(tmp_path, plan())
    newer = versions().model_copy(update={"libtpu": "9.9"})
    with pytest.raises(runs.PlanDiffers, match=f"libtpu '{versions().libtpu}' is now '9.9'.*Use another --out"):
        runs.keep_plan(tmp_path, plan(versions=newer))
    with pytest.raises(runs.PlanDiffers, match="judge '0123' is now '4567'"):
        runs.keep_plan(tmp_path, plan(judge="4567"))
    with pytest.raises(runs.PlanDiffers, match="cells '' is now '89ab'"):
        runs.keep_plan(tmp_path, plan(cells="89ab"))
    # One from before versions were kept.
    (tmp_path / "plan.json").write_text(plan().model_dump_json(exclude={"versions", "judge"}))
    with pytest.raises(runs.PlanDiffers, match=f"libtpu None is now '{versions().libtpu}'"):
        runs.keep_plan(tmp_path, plan())

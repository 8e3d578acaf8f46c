"""Several runs at once, what is tried again, and what ends everything."""

import anyio
import pytest
from bench_fixtures import plan
from hawkeye_bench import journal, schedule
from hawkeye_bench.order import RunKey, planned
from hawkeye_bench.schedule import WorkerLost
from test_bench_cli import outcome

from hawkeye_mcp.state import write_atomically

PLAN = plan(workloads=["a", "b", "c"], conditions=["none", "taxonomy"])
FIRST = planned(PLAN)[0]


class Doing:
    """Keeps records as an executor does. failing: what the tries of a run bring before it succeeds."""

    def __init__(self, out, failing=None):
        self.out = out
        self.failing = {key: list(tries) for key, tries in (failing or {}).items()}
        self.started = []
        self.now = self.most = 0

    async def __call__(self, key, progress):
        self.started.append(key)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await anyio.lowlevel.checkpoint()
            trouble = self.failing.get(key)
            if trouble and (problem := trouble.pop(0)):
                if isinstance(problem, Exception):
                    raise problem
                return outcome(*key[:2], None, status="broken", stop=problem, error="as told", repeat=key.repeat)
            run = outcome(*key[:2], 2.0, repeat=key.repeat)
            write_atomically(key.folder(self.out) / "run.json", run.model_dump_json())
            return run
        finally:
            self.now -= 1


async def carried_out(do, the_plan=PLAN, **options):
    told, slept = [], []

    async def sleep(seconds):
        slept.append(seconds)
        await anyio.lowlevel.checkpoint()

    with anyio.fail_after(120):
        await schedule.run_all(
            the_plan, do.out, do, sleep=sleep, on_run=lambda key, run, text: told.append((key, run, text)), **options
        )
    return told, slept


@pytest.mark.anyio
@pytest.mark.parametrize("slots", [1, 2, 6, 9])
async def test_every_run_is_done_once_in_order_and_no_more_than_may_be_at_once(tmp_path, slots):
    do = Doing(tmp_path)
    told, _ = await carried_out(do, slots=slots)
    assert do.started == planned(PLAN)
    assert do.most == min(slots, 6)
    assert [text for *_, text in told] == [""] * 6
    again = Doing(tmp_path)
    assert (await carried_out(again))[0] == []
    assert again.started == []


@pytest.mark.anyio
@pytest.mark.parametrize("trouble", ["broken", WorkerLost("its machine is gone")])
async def test_what_failed_for_no_fault_of_the_agent_is_tried_again_later_and_longer(tmp_path, trouble):
    do = Doing(tmp_path, {FIRST: [trouble, trouble]})
    told, slept = await carried_out(do, delays_s=(1.0, 20.0, 300.0))
    assert slept == [1.0, 20.0]
    assert do.started.count(FIRST) == 3 and len(do.started) == 8
    assert do.started[1] != FIRST, "the others go on meanwhile"
    assert [text for key, _, text in told if key == FIRST][-1] == ""
    assert "tried again in 1 s" in told[0][2]
    events = [line["event"] for line in journal.read(tmp_path) if line.get("workload") == FIRST.workload]
    assert events.count("retry") == 2


@pytest.mark.anyio
async def test_a_run_that_fails_every_time_is_given_up_and_left_to_be_repeated(tmp_path):
    do = Doing(tmp_path, {FIRST: ["broken"] * 9})
    told, _ = await carried_out(do, delays_s=(1.0, 2.0))
    assert do.started.count(FIRST) == 3
    assert "given up after 3 tries" in [text for key, _, text in told if key == FIRST][-1]
    assert schedule.pending(PLAN, tmp_path)[1] == [FIRST]


@pytest.mark.anyio
async def test_what_no_repeat_would_mend_ends_the_whole(tmp_path):
    do = Doing(tmp_path, {planned(PLAN)[1]: ["misconfigured"]})
    told, slept = await carried_out(do)
    assert do.started == planned(PLAN)[:2]
    assert "until that is mended" in told[-1][2]
    assert slept == []


@pytest.mark.anyio
async def test_what_went_on_is_written_down_before_and_after_each_try(tmp_path):
    await carried_out(Doing(tmp_path, {FIRST: ["broken"]}), plan(workloads=[FIRST.workload]), delays_s=(5.0,))
    lines = journal.read(tmp_path)
    assert [line["event"] for line in lines] == [
        "opened",
        "started",
        "ended",
        "retry",
        "started",
        "ended",
        "closed",
    ] or (FIRST.condition != "none")
    assert lines[0]["slots"] == 1


def test_a_folder_is_held_by_one_bench_at_a_time(tmp_path):
    assert not journal.is_held(tmp_path)
    with journal.held(tmp_path):
        assert journal.is_held(tmp_path)
        with pytest.raises(journal.FolderInUse, match="another hawkeye-bench works in"), journal.held(tmp_path):
            pass
    assert not journal.is_held(tmp_path)
    with journal.held(tmp_path):
        pass


def test_a_line_that_a_crash_cut_off_harms_no_other(tmp_path):
    key = RunKey("a", "none", 1)
    journal.write(tmp_path, "started", key)
    with (tmp_path / "journal.jsonl").open("a") as stream:
        stream.write('{"time": "2026')
    journal.write(tmp_path, "ended", key)
    assert [line["event"] for line in journal.read(tmp_path)] == ["started", "ended"]

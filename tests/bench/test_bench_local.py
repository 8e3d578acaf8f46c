"""Runs in processes of their own: what a kill at any moment leaves, and that nothing of it is lost or done twice."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import pytest
from bench_fixtures import TESTS
from hawkeye_bench import runs, schedule, status
from hawkeye_bench.agents.choose import AgentSpec
from hawkeye_bench.executors import local
from hawkeye_bench.order import planned
from hawkeye_bench.processes import tree
from small_bench import FAKE, WORKLOAD, small_plan

from hawkeye_mcp import calllog

SCRIPT = TESTS / "bench" / "small_bench.py"
LONG = ("Replaying 1.py", "ended")
# What a run of it does, in order; a kill comes after one of them.
STEPS = ("Replaying 1.py", "Replaying 2.py", "judging the best kernel again", "ended")


@pytest.fixture
def kernels(tmp_path):
    """Recorded kernels: the second file is the faster one."""
    folder = tmp_path / "kernels" / WORKLOAD
    folder.mkdir(parents=True)
    (folder / "1.py").write_text("# fake: speedup 2\n")
    (folder / "2.py").write_text("# fake: speedup 3\n")
    return tmp_path / "kernels"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Workers find the fake judge."""
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}{os.pathsep}{TESTS / 'bench'}")


def bench(out, kernels, slots=1):
    command = [sys.executable, str(SCRIPT), str(out), str(kernels), str(slots)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def finish(out, kernels, slots=1):
    with bench(out, kernels, slots) as process:
        said = process.stdout.read()
    assert process.returncode == 0, said
    return said


def records(out):
    """What counts of every run, without what differs from one time to another."""
    passing = {"started", "seconds"}
    return [json.loads((key.folder(out) / "run.json").read_text()) for key in planned(small_plan())], passing


def same(one, other):
    (mine, passing), (theirs, _) = records(one), records(other)
    return [{k: v for k, v in run.items() if k not in passing} for run in mine] == [
        {k: v for k, v in run.items() if k not in passing} for run in theirs
    ]


def wait_for_end(pids):
    """Until none of the processes is left; fails after a minute."""
    for pid in pids:
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                assert select.select([handle], [], [], 60)[0], f"process {pid} is still there"
            finally:
                os.close(handle)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A bench that nothing disturbed."""
    home = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{TESTS}{os.pathsep}{TESTS / 'bench'}")
        finish(home / "out", kernels.__wrapped__(home), slots=2)
    return home / "out"


def test_the_best_recorded_kernel_of_each_run_counts(undisturbed):
    found, _ = records(undisturbed)
    assert {(run["condition"], run["speedup"]) for run in found} == {("none", 3.0), ("taxonomy", 3.0)}
    assert all(run["evaluations"] == run["productive_turns"] == 2 for run in found)


@pytest.mark.parametrize("step", [pytest.param(step, marks=[pytest.mark.slow] * (step in LONG)) for step in STEPS])
def test_a_kill_at_any_step_loses_nothing_and_the_next_start_goes_on(step, tmp_path, kernels, undisturbed):
    out = tmp_path / "out"
    with bench(out, kernels) as process:
        for line in process.stdout:
            if step in line:
                break
        started = tree(process.pid)
        process.kill()
    wait_for_end(started)
    before = {path: path.read_bytes() for path in out.rglob("run.json")}
    judged = [line for path in out.rglob("calls.jsonl") for line in calllog.read(path) if calllog.is_verdict(line)]

    finish(out, kernels)
    assert same(out, undisturbed)
    assert {path: path.read_bytes() for path in before} == before, "a record that was there is not written again"
    kept = [line for path in out.rglob("calls.jsonl") for line in calllog.read(path) if calllog.is_verdict(line)]
    assert [line for line in judged if line not in kept] == [], "what was judged before the kill is still recorded"
    if step == "judging the best kernel again":
        folder = planned(small_plan())[0].folder(out)  # of the next one the kill may cut off what it likes
        judged = [line for line in calllog.read(folder / "calls.jsonl") if calllog.is_verdict(line)]
        assert len(judged) == 2, "the agent's work was complete: it is not repeated"
        assert not list(folder.parent.glob("*.unfinished-*"))
    assert [state.state for state in status.read(out).runs] == ["done"] * 2


def test_a_worker_that_is_killed_is_replaced_and_the_bench_goes_on(tmp_path, kernels, undisturbed):
    out, killed = tmp_path / "out", []
    the_plan, first = small_plan(), planned(small_plan())[0]
    own = kernels / WORKLOAD / first.condition
    own.mkdir()
    (own / "1.py").write_text("# fake: speedup 2\n")
    (own / "2.py").write_text("# fake: hold\n")  # so that it is still at work when it is killed
    do = local.doing(the_plan, AgentSpec(agent="replay", kernels=str(kernels)), out, **FAKE)
    problems = []

    async def sleep(seconds):
        await anyio.lowlevel.checkpoint()

    def kill_the_first(key, text):
        if not killed and key == first and "Replaying 2.py" in text:
            server = calllog.read(key.folder(out) / "calls.jsonl")[0]["pid"]
            killed.append(server)
            os.kill(_parent(server), signal.SIGKILL)
            (own / "2.py").write_text("# fake: speedup 3\n")

    def note(key, run, text):
        problems.append(text)

    anyio.run(partial(schedule.run_all, the_plan, out, do, progress=kill_the_first, on_run=note, sleep=sleep, slots=2))
    assert "was ended by signal 9 and left no record" in "".join(problems)
    assert len(problems) == 3
    wait_for_end(killed)
    assert same(out, undisturbed)
    folder = next(out.rglob("*.unfinished-1"))
    assert len([line for line in calllog.read(folder / "calls.jsonl") if calllog.is_verdict(line)]) == 1


def test_a_run_waits_for_a_process_of_an_earlier_bench_that_still_works_on_it(tmp_path, kernels):
    out, key = tmp_path / "out", planned(small_plan())[0]
    lock = out / "workers" / f"{WORKLOAD}-{key.condition}-{key.repeat}.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with bench(out, kernels) as process:
            assert "waiting until the process of an earlier bench has ended" in process.stdout.readline()
            assert not key.folder(out).exists()
            fcntl.flock(held, fcntl.LOCK_UN)
            rest = process.stdout.read()
    assert process.returncode == 0, rest
    assert [state.state for state in status.read(out).runs] == ["done"] * 2


def test_a_worker_that_cannot_be_started_is_tried_again(tmp_path, kernels):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "workers").write_text("no folder")
    do = local.doing(small_plan(), AgentSpec(agent="replay", kernels=str(kernels)), tmp_path / "out", **FAKE)
    with pytest.raises(schedule.WorkerLost, match="its process cannot be started"):
        anyio.run(do, planned(small_plan())[0], print)


def test_status_tells_of_a_run_while_it_works(tmp_path, kernels):
    (kernels / WORKLOAD / "2.py").write_text("# fake: hold\n")
    out = tmp_path / "out"
    with bench(out, kernels) as process:
        for line in process.stdout:
            if "Replaying 2.py" in line:
                break
        found = status.read(out)
        process.kill()
    first, *others = found.runs
    assert found.working and found.slots == 1
    assert (first.state, first.tries, first.productive_turns, first.speedup) == ("running", 1, 1, 2.0)
    assert [other.state for other in others] == ["to do"]
    assert found.left_s is None
    assert [state.state for state in status.read(out).runs] == ["interrupted", "to do"]
    assert runs.finished(planned(small_plan())[0].folder(out)) is None


def test_slots_follow_cores_and_memory(monkeypatch):
    def machine(cores, gibibytes):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
        pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": gibibytes * 2**18}
        monkeypatch.setattr(os, "sysconf", pages.__getitem__)
        return local.slots()

    assert [machine(1, 2), machine(2, 24), machine(16, 24), machine(16, 256)] == [1, 1, 8, 8]


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

"""Runs on a Ray cluster of two machines that is made here: the same as on this one, whatever becomes of a machine.

Recorded kernels and the fake judge. Needs Ray: pip install 'hawkeye-mcp[ray]'. Takes one to five minutes on 2 cores.
"""

import json
import os
import random
import select
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest
from bench_fixtures import FAKE_SERVER, TESTS, plan
from hawkeye_bench import journal, order, runs, schedule
from hawkeye_bench.agents.choose import AgentSpec
from hawkeye_bench.executors import local, node, parcel
from hawkeye_bench.executors import ray as ray_executor
from two_nodes import two_nodes

from hawkeye_mcp import calllog

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'hawkeye-mcp[ray]'"),
]

FAKE = {"judge": "fake_judge:open_fake", "server": FAKE_SERVER}
# The run that is held where a test says so.
HELD = "12p_RMSNorm"
PLAN = plan(agent="replay", model="", workloads=["8p_GEMM", HELD, "41k_Gemm_Add_ReLU"], cells=runs.cells_hash())
TPU_HOST = {"TPU": 4, "accelerator_type:TPU-V6E": 1}


@pytest.fixture(scope="module")
def machines():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))  # workers find the fake judge
        with two_nodes(**TPU_HOST) as cluster:
            yield cluster


@pytest.fixture
def cluster(machines):
    machines.complete()
    yield machines
    assert not list(machines.temporary.glob("hawkeye-run-*"))


@pytest.fixture
def kernels(tmp_path):
    for number, workload in enumerate(PLAN.workloads, start=2):
        folder = tmp_path / "kernels" / workload
        folder.mkdir(parents=True)
        # Long and random, so that the parcel is no small object of Ray's.
        (folder / "1.py").write_text(f"# fake: incorrect\n# {random.Random(number).randbytes(300_000).hex()}\n")
        (folder / "2.py").write_text(f"# fake: speedup {number}\n")
    return tmp_path / "kernels"


def hold(kernels):
    (kernels / HELD / "2.py").write_text("# fake: hold\n")


def release(kernels):
    (kernels / HELD / "2.py").write_text("# fake: speedup 3\n")


def do_all(do, out, *, slots=2, progress=lambda key, text: None):
    """Do the plan without pauses; what was said of the end of each try."""
    said = []

    def ended(key, run, text):
        said.append((key.workload, run.status if run else None, text))

    async def sleep(seconds):
        await anyio.lowlevel.checkpoint()

    runs.keep_plan(out, PLAN)
    anyio.run(
        partial(schedule.run_all, PLAN, out, do, slots=slots, progress=progress, on_run=ended, sleep=sleep),
    )
    return said


def on_ray(cluster, kernels, out, **options):
    with ray_executor.connected(cluster.address, PLAN.tpu) as connected:
        assert (connected.machines, connected.slots, connected.accelerator) == (2, 2, None)
        do = ray_executor.doing(connected, PLAN, AgentSpec(agent="replay", kernels=str(kernels)), out, **FAKE)
        return do_all(do, out, slots=connected.slots, **options)


def here(kernels, out):
    do_all(local.doing(PLAN, AgentSpec(agent="replay", kernels=str(kernels)), out, **FAKE), out)


def results(out):
    """All that a folder of runs says of its plan, but for times and names that are drawn anew each time."""
    passing = {"started", "seconds"}
    found = {}
    for key in order.planned(PLAN):
        folder = key.folder(out)
        record = json.loads((folder / "run.json").read_bytes())
        files = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        files |= {f"workspace/{path.name}" for path in (folder / "workspace").iterdir()}
        verdicts = [
            (line["kernel_sha256"], line["status"], line["speedup"])
            for line in calllog.read(folder / "calls.jsonl")
            if calllog.is_verdict(line)
        ]
        found[key] = ({name: record[name] for name in record.keys() - passing}, files, verdicts)
    return found


def wait_for_end(pid):
    """Fails after a minute."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            assert select.select([handle], [], [], 60)[0], f"process {pid} is still there"
        finally:
            os.close(handle)


def processes_of_runs(cluster):
    """Servers of the runs that are at work on the machines, and their workers."""
    servers = [calllog.read(log)[0]["pid"] for log in cluster.temporary.rglob("calls.jsonl")]
    stats = [Path(f"/proc/{server}/stat").read_text() for server in servers]
    return servers + [int(stat.rpartition(")")[2].split()[1]) for stat in stats]


def test_runs_on_two_machines_leave_what_runs_here_leave(cluster, kernels, tmp_path):
    where = {}

    def note(key, text):
        if text.startswith("on "):
            where[key] = text

    said = on_ray(cluster, kernels, tmp_path / "ray", progress=note)
    here(kernels, tmp_path / "local")
    found = results(tmp_path / "ray")
    assert found == results(tmp_path / "local")
    assert [record["speedup"] for record, _, _ in found.values()] == [2.0, 3.0, 4.0]
    assert said == [(workload, "correct", "") for workload, _, _ in said] and len(said) == 3
    assert len(set(where.values())) == 2, "both machines worked"
    assert sorted(path.name for path in (tmp_path / "ray" / "workspaces").iterdir()) == sorted(
        key.folder(tmp_path / "ray").joinpath("workspace").readlink().name for key in found
    )


def test_a_machine_that_is_killed_in_the_middle_costs_nothing_but_its_try(cluster, kernels, tmp_path):
    hold(kernels)
    out, where, killed = tmp_path / "ray", {}, []

    def kill_once(key, text):
        if text.startswith("on "):
            where[key.workload] = text
        if key.workload == HELD and "Replaying 2.py" in text and not killed:
            killed.extend(processes_of_runs(cluster))
            release(kernels)
            cluster.kill(where[HELD])
            assert not (out / HELD).exists()

    said = on_ray(cluster, kernels, out, progress=kill_once)
    lost = [(workload, text) for workload, status, text in said if status is None]
    assert len(said) == 4 and [workload for workload, _ in lost] == [HELD]
    assert "is gone: Ray says that the node is dead or unavailable; tried again in 10 s" in lost[0][1]
    for pid in killed:
        wait_for_end(pid)
    here(kernels, tmp_path / "local")
    assert results(out) == results(tmp_path / "local")
    ended = [line["workload"] for line in journal.read(out) if line["event"] == "ended" and line["status"] == "correct"]
    assert sorted(ended) == sorted(PLAN.workloads), "each run counts once"
    assert not list(out.rglob("*.unfinished-*")) and not list((out / parcel.ARRIVING).iterdir())
    # What the machine itself would find at its next run.
    for folder in cluster.temporary.glob("hawkeye-run-*"):
        os.utime(folder, (0, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node.tempfile, "tempdir", str(cluster.temporary))
        node.remove_abandoned()


class Enough(Exception):
    pass


def test_cancelling_ends_the_runs_on_their_machines(cluster, kernels, tmp_path):
    hold(kernels)
    at_work = []

    def stop(key, text):
        if key.workload == HELD and "Replaying 2.py" in text:
            at_work.extend(processes_of_runs(cluster))
            raise Enough

    with pytest.raises(ExceptionGroup) as raised:
        on_ray(cluster, kernels, tmp_path / "ray", progress=stop)
    assert raised.group_contains(Enough)
    assert at_work
    for pid in at_work:
        wait_for_end(pid)


def test_a_machine_with_other_versions_ends_the_whole_and_is_named(cluster, kernels, tmp_path, monkeypatch):
    real = node.installation
    monkeypatch.setattr(node, "installation", lambda workload: real(workload) | {"libtpu": "0.0.1"})
    said = on_ray(cluster, kernels, tmp_path / "ray")
    versions = PLAN.versions
    assert {status for _, status, _ in said} == {"broken"} and len(said) <= 2
    for _, _, text in said:
        assert "Ray node " in text and f"libtpu is {versions.libtpu}, not 0.0.1" in text
        assert "nothing more is started until that is mended" in text
    assert order.pending(PLAN, tmp_path / "ray")[0] == []


def test_a_run_for_a_chip_goes_to_a_host_of_it_and_its_server_sees_one_chip(cluster, kernels, tmp_path):
    hold(kernels)
    the_plan = PLAN.model_copy(update={"tpu": "v6e", "workloads": [HELD]})
    out, seen = tmp_path / "ray", []

    def look(key, text):
        if "Replaying 2.py" in text:
            server, _ = processes_of_runs(cluster)
            seen.extend(Path(f"/proc/{server}/environ").read_text().split("\0"))
            raise Enough

    with ray_executor.connected(cluster.address, the_plan.tpu) as connected:
        assert (connected.machines, connected.slots, connected.accelerator) == (1, 1, "TPU-V6E")
        do = ray_executor.doing(connected, the_plan, AgentSpec(agent="replay", kernels=str(kernels)), out, **FAKE)
        with pytest.raises(ExceptionGroup):
            anyio.run(partial(schedule.run_all, the_plan, out, do, slots=2, progress=look))
    chips = {name: value for name, _, value in (entry.partition("=") for entry in seen) if name.startswith("TPU_")}
    assert chips["TPU_VISIBLE_CHIPS"] in ("0", "1", "2", "3")
    assert chips["TPU_CHIPS_PER_HOST_BOUNDS"] == chips["TPU_HOST_BOUNDS"] == "1,1,1"

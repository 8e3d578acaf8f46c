"""A run on a machine of a cluster, without the cluster: real workers, recorded kernels, the fake judge."""

import fcntl
import os
import select
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from bench_fixtures import FAKE_SERVER, TESTS, plan
from hawkeye_bench.agents.choose import AgentSpec
from hawkeye_bench.executors import node, parcel
from hawkeye_bench.executors.node import Ended, Said, Unfit
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import Run
from hawkeye_bench.worker import Job

from hawkeye_mcp import calllog

KEY = RunKey("8p_GEMM", "none", 1)


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Its temporary folder, with nothing in it; its workers find the fake judge."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}")
    return folder


@pytest.fixture
def kernels(tmp_path):
    folder = tmp_path / "kernels" / KEY.workload
    folder.mkdir(parents=True)
    (folder / "1.py").write_text("# fake: speedup 2\n")
    return tmp_path / "kernels"


def performed(kernels, *, judge="fake_judge:open_fake", worked=None, **differing):
    job = Job(
        plan=plan(agent="replay", model=""),
        agent=AgentSpec(agent="replay", kernels=str(kernels)),
        out=Path(),
        **KEY._asdict(),
        judge=judge,
        server=FAKE_SERVER,
    )
    return node.perform(job, node.installation(KEY.workload) | differing, {}, worked)


def wait_for_end(pid):
    """Fails after a minute."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            assert select.select([handle], [], [], 60)[0], f"process {pid} is still there"
        finally:
            os.close(handle)


def until(messages, text):
    for message in messages:
        if text in message.text:
            return
    raise AssertionError(text)


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_run_is_handed_back_whole_and_work_that_is_complete_is_not_repeated(kernels, machine, tmp_path):
    *said, ended = performed(kernels)
    assert [message.text for message in said if isinstance(message, Said)] == [
        "Replaying 1.py (1 of 1).",
        "evaluate_kernel ...",
        "judging the best kernel again",
    ]
    assert isinstance(ended, Ended) and ended.code == 0
    parcel.deliver(ended.parcel, tmp_path / "out", KEY)
    folder = KEY.folder(tmp_path / "out")
    run = Run.model_validate_json((folder / "run.json").read_bytes())
    assert (run.status, run.speedup, run.agent) == ("correct", 2.0, "replay")
    assert {"calls.jsonl", "transcript.jsonl", "worked.json", "judged_again.json", "kernels"} <= {
        path.name for path in folder.iterdir()
    }
    assert not list(machine.iterdir())

    (folder / "run.json").unlink()
    *said, ended = performed(kernels, worked=parcel.pack(folder)[0])
    assert [message.text for message in said] == [
        "the agent's work is complete; only the last judgement is missing",
        "judging the best kernel again",
    ]
    parcel.deliver(ended.parcel, tmp_path / "out", KEY)
    assert Run.model_validate_json((folder / "run.json").read_bytes()).speedup == 2.0
    assert not list(machine.iterdir())


def test_a_worker_that_fails_leaves_no_parcel_and_says_why(kernels):
    *_, ended = performed(kernels, judge="no_such_module:judge")
    assert ended.code != 0 and ended.parcel is None
    assert "No module named 'no_such_module'" in ended.log


def test_a_machine_with_other_versions_code_or_files_does_nothing(kernels, machine):
    (found,) = performed(kernels, libtpu="0.0.1")
    assert isinstance(found, Unfit)
    assert found.problem.startswith(f"libtpu is {node.installation(KEY.workload)['libtpu']}, not 0.0.1. Install")
    (found,) = performed(kernels, **{node.CODE: "0123"})
    assert "not 0123" in found.problem and "libtpu" not in found.problem
    (found,) = performed(kernels.with_name("elsewhere"))
    assert found.problem.startswith("--kernels: ")
    assert not list(machine.iterdir())


def test_a_workload_that_is_not_there_is_named(kernels, monkeypatch):
    messages = performed(kernels)
    monkeypatch.setattr(node.workloads, "names", lambda: ["12p_RMSNorm"])
    node.workloads.load.cache_clear()
    (found,) = messages
    assert isinstance(found, Unfit) and "no workload '8p_GEMM'" in found.problem


def test_stopping_ends_the_worker_and_its_server_and_removes_the_folder(kernels, machine):
    (kernels / KEY.workload / "1.py").write_text("# fake: hold\n")
    messages = performed(kernels)
    until(messages, "evaluate_kernel")
    (log,) = machine.rglob("calls.jsonl")
    server = calllog.read(log)[0]["pid"]
    worker = parent(server)
    messages.close()
    wait_for_end(server)
    wait_for_end(worker)
    assert not list(machine.iterdir())


def test_a_worker_that_is_killed_leaves_no_parcel(kernels, machine):
    (kernels / KEY.workload / "1.py").write_text("# fake: hold\n")
    messages = performed(kernels)
    until(messages, "evaluate_kernel")
    (log,) = machine.rglob("calls.jsonl")
    server = calllog.read(log)[0]["pid"]
    os.kill(parent(server), signal.SIGKILL)
    *_, ended = messages
    wait_for_end(server)
    assert (ended.code, ended.parcel) == (-9, None)
    assert not list(machine.iterdir())


def test_what_a_server_writes_while_it_ends_keeps_no_folder(machine, monkeypatch):
    remove, calls = shutil.rmtree, []

    def slower_than_the_server(folder, **options):
        remove(folder, **options)
        calls.append(folder)
        if len(calls) == 1:
            folder.mkdir()
            (folder / "calls.jsonl").touch()

    monkeypatch.setattr(shutil, "rmtree", slower_than_the_server)
    with node._folder():
        pass
    assert len(calls) == 2
    assert not list(machine.iterdir())


def test_folders_of_runs_that_were_killed_are_removed_and_no_others(machine):
    made = {name: machine / f"hawkeye-run-{name}" for name in ("abandoned", "working", "young")}
    for folder in (*made.values(), machine / "other"):
        folder.mkdir()
        (folder / "lock").touch()
        os.utime(folder, (0, 0))
    os.utime(made["young"])
    with (made["working"] / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        node.remove_abandoned()
    assert sorted(path.name for path in machine.iterdir()) == ["hawkeye-run-working", "hawkeye-run-young", "other"]


def test_the_code_is_told_by_every_module_and_not_by_content_files(tmp_path, monkeypatch):
    before = node.code_hash()
    package = tmp_path / "package"
    (package / "_content" / "workloads").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(node.hawkeye_bench, "__file__", str(package / "__init__.py"))
    empty = node.code_hash()
    (package / "_content" / "workloads" / "workload.py").write_text("content")
    assert node.code_hash() == empty != before
    (package / "module.py").write_text("code")
    assert node.code_hash() not in (empty, before)


def test_what_the_options_name_of_the_environment_travels_beside_the_job(kernels, monkeypatch):
    monkeypatch.setenv("SECRET", "of this machine")
    monkeypatch.delenv("SECRET")
    spec = AgentSpec(agent="command", command="true", pass_env=("SECRET",))
    job = Job(plan=plan(agent="command", model=""), agent=spec, out=Path(), **KEY._asdict())
    (found,) = node.perform(job, node.installation(KEY.workload), {}, None)
    assert "SECRET is not set" in found.problem

    monkeypatch.setattr(node, "remove_abandoned", lambda: pytest.fail(os.environ["SECRET"]))
    with pytest.raises(pytest.fail.Exception, match="hidden"):
        list(node.perform(job, node.installation(KEY.workload), {"SECRET": "hidden"}, None))

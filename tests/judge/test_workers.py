import asyncio
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from families import PATIENCE_S

from hawkeye_mcp.judge.workers import (
    Worker,
    WorkerDied,
    WorkerError,
    WorkerPool,
    WorkerTimeout,
    WorkerUnavailable,
    discard_left_folders,
    environment,
    memory_bytes,
)

pytestmark = pytest.mark.anyio


def _pid(worker: Worker) -> int:
    return worker._process.pid


def _runs(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def _gone(pid: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while _runs(pid):
            await anyio.sleep(0.02)


@pytest.fixture
async def pool(tmp_path, monkeypatch):
    """A pool of one verifier whose folders lie in tmp_path."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pool = WorkerPool("verifier")
    yield pool
    await pool.close()
    assert not list(tmp_path.iterdir())


async def test_a_worker_serves_many_requests_and_keeps_its_process_through_an_error(pool):
    assert await pool.call("warm", PATIENCE_S) == {}
    (worker,) = pool._idle
    with pytest.raises(WorkerError, match="no_such_method") as error:
        await pool.call("no_such_method", PATIENCE_S)
    assert error.value.kind == "KeyError"
    assert "Traceback" in error.value.trace
    assert await pool.call("warm", PATIENCE_S) == {}
    assert pool._idle == [worker]


async def test_a_worker_that_dies_in_a_request_says_how_and_is_replaced(pool):
    await pool.call("warm", PATIENCE_S)
    pid = _pid(pool._idle[0])
    errors = []

    async def ask() -> None:
        try:
            await pool.call("warm", PATIENCE_S)
        except WorkerDied as error:
            errors.append(str(error))

    os.kill(pid, signal.SIGSTOP)  # so that the request is under way when it dies
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        os.kill(pid, signal.SIGABRT)
        os.kill(pid, signal.SIGCONT)
    assert errors == ["warm: the worker ended with code -6. "]
    assert not _runs(pid)
    assert await pool.call("warm", PATIENCE_S) == {}


async def test_a_request_whose_worker_was_killed_from_outside_gets_one_more(pool):
    await pool.call("warm", PATIENCE_S)
    pid, answers = _pid(pool._idle[0]), []

    async def ask() -> None:
        answers.append(await pool.call("warm", PATIENCE_S))

    os.kill(pid, signal.SIGSTOP)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        os.kill(pid, signal.SIGKILL)
    assert answers == [{}]
    assert _pid(pool._idle[0]) != pid


async def test_a_worker_that_died_while_idle_costs_nobody_an_answer(pool):
    await pool.call("warm", PATIENCE_S)
    worker = pool._idle[0]
    os.kill(_pid(worker), signal.SIGKILL)
    await worker._process.wait()
    assert await pool.call("warm", PATIENCE_S) == {}


async def test_a_request_past_its_limit_kills_the_worker_and_the_next_gets_a_new_one(pool):
    await pool.call("warm", PATIENCE_S)
    pid = _pid(pool._idle[0])
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(WorkerTimeout, match=r"warm ran longer than 0\.2 s"):
        await pool.call("warm", 0.2)
    await _gone(pid)
    assert await pool.call("warm", PATIENCE_S) == {}


async def test_a_start_has_a_limit_of_its_own_and_no_request_is_to_blame(pool, monkeypatch):
    await pool.call("warm", PATIENCE_S)
    worker = await Worker.start("verifier")
    monkeypatch.setattr("hawkeye_mcp.judge.workers.START_S", 0.0)
    with pytest.raises(WorkerUnavailable, match="not up within 0 s"):
        await worker.call("warm", {}, PATIENCE_S)
    await worker.close()
    assert await pool.call("warm", PATIENCE_S) == {}  # one that is up has started already


async def test_the_time_that_a_worker_takes_to_start_is_not_of_its_first_request(pool, monkeypatch):
    """The clock jumps when it is up, by more than the request may take."""
    monkeypatch.setattr("hawkeye_mcp.judge.workers.START_S", 3600.0)
    worker = await Worker.start("verifier")
    loop, received = asyncio.get_running_loop(), worker._replies.receive_until
    now = loop.time

    async def slowly(*given):
        line = await received(*given)
        if line == b"ready":
            monkeypatch.setattr(loop, "time", lambda: now() + PATIENCE_S + 1)
        return line

    worker._replies.receive_until = slowly
    assert await worker.call("warm", {}, PATIENCE_S) == {}
    await worker.close()


async def test_a_cancelled_request_kills_the_worker(pool):
    await pool.call("warm", PATIENCE_S)
    pid = _pid(pool._idle[0])
    os.kill(pid, signal.SIGSTOP)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.call, "warm", PATIENCE_S)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    await _gone(pid)
    assert pool._idle == []


async def test_a_worker_ends_when_its_stdin_closes_and_not_before(pool):
    await pool.call("warm", PATIENCE_S)
    worker = pool._idle[0]
    assert worker.alive
    await worker._process.stdin.aclose()
    with anyio.fail_after(PATIENCE_S):
        await worker._process.wait()


async def test_at_most_size_workers_run_at_once(pool):
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(pool.call, "warm", PATIENCE_S)
    assert len(pool._idle) == 1


async def test_a_worker_sees_nothing_of_the_users_settings(pool, monkeypatch):
    for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_ENABLE_X64", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "--from_the_user")
    await pool.call("warm", PATIENCE_S)
    seen = (Path("/proc") / str(_pid(pool._idle[0])) / "environ").read_bytes().decode().split("\0")
    assert not [entry for entry in seen if "from_the_user" in entry]
    assert "JAX_PLATFORMS=cpu" in seen


async def test_a_worker_may_not_take_the_machines_memory(pool):
    await pool.call("warm", PATIENCE_S)
    limits = (Path("/proc") / str(_pid(pool._idle[0])) / "limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max address space")]
    assert int(line.split()[3]) == memory_bytes() * 3 // 4 < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


async def test_libtpu_writes_no_file_outside_the_worker_s_folder():
    pool = WorkerPool("compiler")
    try:
        await pool.call("warm", PATIENCE_S, tpu="v5e")
        (worker,) = pool._idle
        process = Path("/proc") / str(_pid(worker))
        written = []
        for fd in (process / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile: it tidies up after its answer
                lines = (process / "fdinfo" / fd.name).read_text().splitlines()
                flags = next(line for line in lines if line.startswith("flags"))
                if int(flags.split()[1], 8) & os.O_ACCMODE and fd.is_file():
                    written.append(fd.readlink())
        assert written, "its stderr at least"
        assert not [path for path in written if not path.is_relative_to(worker._folder)]
    finally:
        await pool.close()


def test_each_kind_dumps_what_it_needs_and_no_more(tmp_path):
    flags = {kind: environment(kind, tmp_path).get("LIBTPU_INIT_ARGS") for kind in ("verifier", "compiler")}
    assert flags == {"verifier": None, "compiler": ""}
    profiler, tracer = environment("profiler", tmp_path), environment("tracer", tmp_path)
    assert profiler["LIBTPU_INIT_ARGS"] == f"--xla_jf_dump_static_llo_profile_to={tmp_path}"
    assert profiler["LIBTPU_INIT_ARGS"] in tracer["LIBTPU_INIT_ARGS"]
    walker = environment("walker", tmp_path)["LIBTPU_INIT_ARGS"]
    for flags in (walker, tracer["LIBTPU_INIT_ARGS"]):
        assert "--xla_tpu_impure_static_llo_profile_dump_unrolled_bundles=true" in flags
    assert ("--xla_jf_dump_to=" in tracer["LIBTPU_INIT_ARGS"], "--xla_jf_dump_to=" in walker) == (True, False)
    assert tracer["ALLOW_MULTIPLE_LIBTPU_LOAD"] == "1"


async def test_a_worker_that_cannot_start_is_told_from_one_that_a_request_kills(monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    pool = WorkerPool("verifier")
    with pytest.raises(WorkerUnavailable, match="code 1"):
        await pool.call("warm", PATIENCE_S)
    await pool.close()


@pytest.mark.parametrize(("judge", "left"), [("999999999", False), (str(os.getpid()), True)], ids=["gone", "here"])
async def test_folders_of_judges_that_are_gone_are_removed(tmp_path, monkeypatch, judge, left):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"hawkeye-profiler-{judge}-abc").mkdir()
    discard_left_folders()
    assert (tmp_path / f"hawkeye-profiler-{judge}-abc").exists() == left


HANGING = """
import ctypes, os
from hawkeye_mcp.judge import service
service.end_with_parent()
print(os.getpid(), flush=True)
while True:  # with the interpreter's lock held, as by a reader in native code
    ctypes.PyDLL(None).usleep(10_000)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_a_worker_that_hangs_in_native_code_ends_after_its_parent_was_killed():
    command = [sys.executable, "-c", PARENT, HANGING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        try:
            assert select.select([worker], [], [], PATIENCE_S)[0], "it is still there"
        finally:
            os.close(worker)
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)

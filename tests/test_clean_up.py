"""A judge that is cancelled or closed at any moment leaves no process and no file behind.

In a module of its own: no other judge may be alive in this process while children are counted.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from families import PATIENCE_S, command_line

from hawkeye_mcp import workloads
from hawkeye_mcp.judge.evaluate import open_judge
from hawkeye_mcp.sanitizer.run import Sanitizer

HOSTILE = Path(__file__).parent / "hostile"
GOOD = (Path(__file__).parent / "kernels" / "12p_RMSNorm.py").read_text()
NORM = "12p_RMSNorm"


def _source(file: str) -> str:
    return (HOSTILE / f"{file}.py").read_text()


def _children() -> set[int]:
    """Processes below this one, at any depth, zombies left out."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(folder.name)] = int(fields[1])
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below and pid not in below}:
        below |= more
    return below - {os.getpid()}


def _cpu_ticks(pid: int) -> int:
    fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.fixture
def own_folder(tmp_path, monkeypatch) -> Path:
    """The folder for temporary files of this test and what it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


async def _until(condition: Callable[[], bool]) -> None:
    """Wait for something that the kernel finishes on its own, such as the end of a killed process."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            await anyio.sleep(0.02)


@pytest.mark.anyio
async def test_cancelling_at_any_stage_kills_the_work_and_the_next_one_works(own_folder):
    before = _children()
    workload = workloads.load(NORM)

    async def cancelled_at(stage: str) -> bool:
        with anyio.CancelScope() as scope:
            await judge.evaluate(GOOD, workload, "v5e", progress=lambda name: scope.cancel() if name == stage else None)
        return scope.cancelled_caught

    async with open_judge() as judge:
        for stage in ("trace", "audit", "sanitize", "verify", "predict"):
            assert await cancelled_at(stage)
        assert (await judge.evaluate(GOOD, workload, "v5e")).status == "correct"
        assert list(own_folder.iterdir())
    await _until(lambda: _children() <= before)
    assert not list(own_folder.iterdir())


@pytest.mark.anyio
async def test_cancelling_in_the_middle_of_an_endless_run_ends_its_process_at_once(monkeypatch):
    async def nothing(*_: object) -> None:
        """Where there are cores for two verifiers, the sanitizer would have one of its own at the same time."""

    monkeypatch.setattr(Sanitizer, "beside", nothing)
    before = _children()
    async with open_judge() as judge:
        verifying = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                source = _source("endless_run")
                await judge.evaluate(
                    source, workloads.load(NORM), "v5e", progress=lambda s: verifying.set() if s == "verify" else None
                )

            tasks.start_soon(run)
            await verifying.wait()
            (verifier,) = [pid for pid in _children() - before if "verifier" in command_line(pid)]
            used = _cpu_ticks(verifier)
            await _until(lambda: _cpu_ticks(verifier) > used + os.sysconf("SC_CLK_TCK") // 2)
            tasks.cancel_scope.cancel()
        assert verifier not in _children()
    await _until(lambda: _children() <= before)


@pytest.mark.anyio
async def test_closing_while_everything_is_still_starting_leaves_nothing(own_folder):
    before = _children()
    async with open_judge(warm="v5e"):
        await anyio.lowlevel.checkpoint()
    await _until(lambda: _children() <= before)
    assert not list(own_folder.iterdir())

"""Records of programs: made once for what they depend on, whole or not at all."""

import hashlib
import os
import shutil
from pathlib import Path

import anyio
import pytest
from port_records import record

from hawkeye_mcp.intake import captures
from hawkeye_mcp.intake.captures import NothingToRecord, captured
from hawkeye_mcp.intake.job import Job

SOURCE = "def get_inputs():\n    return []\n\ndef workload():\n    pass\n"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "mine.py").write_text(SOURCE)
    return _job(tmp_path / "source" / "mine.py")


def _job(path: Path, **changed) -> Job:
    given = {
        "schema": "hawkeye.job/1",
        "name": "mine",
        "input": {"type": "jax", "path": str(path)},
        "has_reference": False,
        "needs_jax_conversion": False,
    }
    return Job.model_validate_json(
        Job.model_validate({**given, **changed}, strict=False).model_dump_json(by_alias=True)
    )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that a program was recorded into."""
    found: list[Path] = []

    async def capture(job, folder, progress):
        found.append(folder)
        return record(folder)

    monkeypatch.setattr(captures, "capture", capture)
    return found


async def kept(job: Job, state: Path) -> Path:
    return (await captured(job, state, lambda stage: None))[1]


@pytest.mark.anyio
async def test_a_program_is_recorded_once_until_something_that_counts_changes(
    tmp_path: Path, job: Job, runs: list[Path]
):
    state = tmp_path / "state"
    first = await kept(job, state)
    assert (await kept(job, state), len(runs)) == (first, 1)
    assert {path.name for path in first.iterdir()} == {"capture.json", "goldens.npz"}
    told = job.model_copy(update={"description": "in other words", "name": "other"})
    assert (await kept(told, state), len(runs)) == (first, 1)
    seeded = job.model_copy(update={"correctness": job.correctness.model_copy(update={"seed": 7})})
    assert await kept(seeded, state) != first
    Path(job.input.path).write_text(SOURCE + "# changed\n")
    assert await kept(job, state) != first
    (tmp_path / "source" / "helper.py").write_text("SCALE = 2\n")
    await kept(job, state)
    assert len(runs) == 4


@pytest.mark.anyio
async def test_a_change_of_what_the_program_imports_counts_wherever_it_lies(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
):
    layers, runs = tmp_path / "elsewhere" / "layers.py", []
    layers.parent.mkdir()
    layers.write_text("SCALE = 2\n")

    async def capture(job, folder, progress):
        runs.append(folder)
        imported = {"../elsewhere/layers.py": hashlib.sha256(layers.read_bytes()).hexdigest()}
        found = record(folder).model_copy(update={"imported": imported})
        (folder / "capture.json").write_text(found.model_dump_json())
        return found

    monkeypatch.setattr(captures, "capture", capture)
    for expected, text in ((1, "SCALE = 2\n"), (2, "SCALE = 3\n"), (2, "SCALE = 3\n")):
        layers.write_text(text)
        await kept(job, tmp_path / "state")
        assert len(runs) == expected


@pytest.mark.anyio
async def test_a_record_that_does_not_read_is_made_again_and_a_failed_one_leaves_nothing(
    tmp_path: Path, job: Job, runs: list[Path], monkeypatch: pytest.MonkeyPatch
):
    state = tmp_path / "state"
    folder = await kept(job, state)
    (folder / "capture.json").write_text("{")
    assert (await kept(job, state), len(runs)) == (folder, 2)

    async def fails(job, folder, progress):
        record(folder)
        raise OSError("no space left")

    shutil.rmtree(folder)
    monkeypatch.setattr(captures, "capture", fails)
    with pytest.raises(OSError, match="no space"):
        await kept(job, state)
    assert list(folder.parent.iterdir()) == []


@pytest.mark.anyio
async def test_two_gates_at_once_record_into_folders_of_their_own(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
):
    both, found = anyio.Event(), []

    async def capture(job, folder, progress):
        found.append(folder)
        if len(found) == 2:
            both.set()
        await both.wait()
        return record(folder)

    monkeypatch.setattr(captures, "capture", capture)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(kept, job, tmp_path / "state")
    assert found[0] != found[1]
    assert [path.name for path in found[0].parent.iterdir()] == [(await kept(job, tmp_path / "state")).name]


@pytest.mark.anyio
async def test_what_a_killed_process_left_is_removed(tmp_path: Path, job: Job, runs: list[Path]):
    await kept(job, tmp_path / "state")
    ended = runs[0].with_name(runs[0].name.replace(f".{os.getpid()}.", f".{2**22 + 1}."))
    for left in (ended, runs[0]):  # the second is of a process that lives
        left.mkdir()
    await kept(job.model_copy(update={"sizes": {"full": {"N": 1}, "check": {}}}), tmp_path / "state")
    assert not ended.exists()
    assert runs[0].exists()


@pytest.mark.anyio
async def test_the_oldest_records_go(tmp_path: Path, job: Job, runs: list[Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(captures, "MOST_KEPT", 2)
    state, found = tmp_path / "state", []
    for seed in range(3):
        correctness = job.correctness.model_copy(update={"seed": seed})
        found.append(await kept(job.model_copy(update={"correctness": correctness}), state))
    assert not found[0].exists()
    assert found[2].exists()


@pytest.mark.anyio
async def test_what_cannot_run_is_not_recorded(tmp_path: Path, job: Job, runs: list[Path]):
    cuda = job.model_copy(update={"input": job.input.model_copy(update={"type": "cuda"})})
    with pytest.raises(NothingToRecord, match="input.type is cuda"):
        await captured(cuda, tmp_path / "state", lambda stage: None)
    assert runs == []

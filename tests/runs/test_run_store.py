"""The folder of a run: nothing that was recorded is lost, whatever ends the process that recorded it."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from run_results import WORKLOAD, begun, evaluation, profile, record, timing

from hawkeye_mcp.runs import store

HERE = Path(__file__).parent


@pytest.fixture
def run(tmp_path: Path) -> store.Run:
    return begun(tmp_path / "run")


def state_file(run: store.Run) -> dict:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads((run.folder / "state.json").read_text(), parse_constant=refuse)


def ids(run: store.Run) -> list[str]:
    return [result["id"] for result in state_file(run)["evaluations"]]


def process(run: store.Run, code: str) -> subprocess.Popen:
    """Python that has `run`, `store` and `record`."""
    head = f"import os, signal, sys; sys.path.insert(0, {str(HERE)!r})\nfrom pathlib import Path\n"
    head += "from run_results import record\nfrom hawkeye_mcp.runs import store\n"
    head += "store._LOCK_WAIT_S = 600\n"  # how long a slow disk keeps another waiting is no subject here
    head += f"run = store.Run(Path({str(run.folder)!r}))\n"
    return subprocess.Popen([sys.executable, "-c", head + code])


def killed(run: store.Run, code: str) -> None:
    assert process(run, code).wait() == -signal.SIGKILL


KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def test_a_new_run_says_what_it_is_about(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store.create(Path("run"), WORKLOAD, "v6e")
    found = state_file(store.find(Path("run")))
    assert (found["schema"], found["workload"], found["tpu"]) == ("hawkeye.run/1", "8p_GEMM", "v6e")
    assert (found["folder"], found["best_predicted"]) == (str(tmp_path / "run"), None)


def test_a_run_begins_only_in_an_empty_folder(run, tmp_path):
    with pytest.raises(store.RunExists, match="8p_GEMM already"):
        store.create(run.folder, WORKLOAD, "v5e")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(store.RunExists, match=r"thesis\.tex"):
        store.create(tmp_path / "mine", WORKLOAD, "v5e")
    with pytest.raises(store.NoRun, match="hawkeye runs new"):
        store.find(tmp_path / "mine")


def test_of_many_who_begin_one_run_one_does(tmp_path):
    outcomes = []

    def begin() -> None:
        try:
            outcomes.append(store.create(tmp_path / "run", WORKLOAD, "v5e").id)
        except store.RunExists:
            outcomes.append(None)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([id for id in outcomes if id]) == 1
    assert store.read(store.find(tmp_path / "run")).id in outcomes


def test_an_evaluation_is_kept_once_with_its_kernel(run):
    record(run, "one", 50.0, kernel="# text")
    record(run, "one", 50.0, kernel="# text")
    assert ids(run) == ["one"]
    assert store.evaluation(run, "one").timing.candidate_us == 50.0
    assert [path.read_text() for path in (run.folder / "kernels").iterdir()] == ["# text"]


def test_an_evaluation_of_another_workload_or_chip_is_refused(run):
    for changed in ({"workload": "12p_RMSNorm"}, {"tpu": "v6e"}):
        with pytest.raises(store.OtherRun, match="8p_GEMM on v5e"):
            store.record_evaluation(run, "# a", evaluation("one", "# a", **changed), "f")
    assert store.read(run).evaluations == []


def test_a_profile_is_kept_as_an_artifact(run):
    state = store.record_profile(run, "# text", profile("# text", 40.0), "f")
    (found,) = state.profiles
    assert (found.ceiling_us, found.ceiling_unit) == (40.0, "mxu")
    assert (
        json.loads((run.folder / "artifacts" / f"{found.id}.json").read_text())["kernel_sha256"] == found.kernel_sha256
    )


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf])
def test_no_figure_that_is_no_number_is_ever_written(run, figure):
    found = timing(50.0, speedup=figure, speedup_interval=(1.0, figure), candidate_interval_us=(figure, figure))
    store.record_evaluation(run, "# a", evaluation("one", "# a", found), "f")
    store.append(run, "autotune", best_us=figure, points=[{"us": figure}])
    (result,) = state_file(run)["evaluations"]
    assert (result["candidate_us"], result["speedup"], result["speedup_interval"]) == (50.0, None, None)
    for path in run.folder.rglob("*.json*"):
        assert not any(word in path.read_text() for word in ("NaN", "Infinity", "Inf")), path.name


@pytest.mark.parametrize("figure", ["-Infinity", "NaN", "-5.0"])
def test_a_time_that_is_none_in_the_events_is_damage(run, figure):
    record(run, "one", 50.0)
    with (run.folder / "events.jsonl").open("a") as log:
        log.write('{"time": "t", "event": "evaluation", "id": "x", "kernel_sha256": "y", "status": "correct", ')
        log.write(f'"source": "predicted", "candidate_us": {figure}}}\n')
    state = store.read(run)
    assert ([result.id for result in state.evaluations], state.damaged_lines) == (["one"], 1)


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"schema": "hawkeye.run/1"}', None])
def test_a_damaged_state_is_made_again(run, damage):
    record(run, "one", 50.0)
    whole = state_file(run)
    path = run.folder / "state.json"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    store.read(run)
    assert state_file(run) == whole


def test_a_damaged_line_costs_itself_alone(run):
    for number in range(4):
        record(run, f"e{number}", 50.0 - number)
    path = run.folder / "events.jsonl"
    lines = path.read_bytes().splitlines()
    lines[2] = b"\x00 not JSON"
    path.write_bytes(b"\n".join(lines) + b"\n[1]\n" + b'{"event": 5, "time": ""}\n')
    state = store.read(run)
    assert [result.id for result in state.evaluations] == ["e0", "e2", "e3"]
    assert (state.damaged_lines, state.best_predicted.evaluation_id) == (3, "e3")


def test_killed_between_event_and_state(run):
    record(run, "before", 60.0)
    killed(run, f"store._kept = lambda *_: {KILL}\nrecord(run, 'lost', 50.0)")
    assert ids(run) == ["before"]
    assert store.read(run).best_predicted.evaluation_id == "lost"
    assert ids(run) == ["before", "lost"]


def test_killed_between_file_and_event(run):
    killed(run, f"store._append = lambda *_: {KILL}\nrecord(run, 'one', 50.0)")
    assert (run.folder / "evaluations" / "one.json").exists()
    with pytest.raises(store.NoEvaluation):
        store.evaluation(run, "one")
    record(run, "one", 50.0)
    assert ids(run) == ["one"]


def test_killed_in_the_middle_of_an_event(run):
    code = f"real = os.write\ndef torn(fd, data):\n    real(fd, data[:40]); {KILL}\nos.write = torn\n"
    killed(run, code + "record(run, 'torn', 50.0)")
    assert store.read(run).damaged_lines == 1
    record(run, "next", 60.0)
    assert ids(run) == ["next"]
    record(run, "torn", 50.0)
    assert ids(run) == ["next", "torn"]


def test_killed_while_a_run_begins(tmp_path):
    run = store.Run(tmp_path / "run")
    code = f"from run_results import WORKLOAD\nreal = os.write\ndef torn(fd, data):\n    real(fd, data[:40]); {KILL}\n"
    killed(run, code + "os.write = torn\nstore.create(run.folder, WORKLOAD, 'v5e')")
    with pytest.raises(store.NoRun):
        store.find(run.folder)
    store.create(run.folder, WORKLOAD, "v5e")
    assert store.find(run.folder) == run


def test_two_writers_lose_nothing(run):
    writers = [
        process(run, f"for i in range(20):\n    record(run, f'{name}{{i}}', 100.0 - i)\n    store.append(run, 'tick')")
        for name in ("a", "b")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = state_file(run)
    assert sorted(result["id"] for result in found["evaluations"]) == sorted(f"{n}{i}" for n in "ab" for i in range(20))
    assert (found["other_events"], found["damaged_lines"]) == ({"tick": 40}, 0)
    assert found["best_predicted"]["candidate_us"] == 81.0


def test_a_lock_that_is_held_is_an_error_in_words(run, monkeypatch):
    monkeypatch.setattr(store, "_LOCK_WAIT_S", 0.0)
    with store._locked(run), pytest.raises(store.RunBusy, match="stopped server or command"):
        store.append(run, "tick")


def test_nothing_is_changed_where_the_decision_raises(run):
    before = (run.folder / "events.jsonl").read_bytes()

    def refuse(_: object) -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        store.change(run, refuse)
    assert (run.folder / "events.jsonl").read_bytes() == before
    store.append(run, "tick")  # the lock is free again


def test_a_run_that_was_moved_names_where_it_is_now(run, tmp_path):
    record(run, "one", 50.0)
    moved = store.Run(Path(shutil.move(run.folder, tmp_path / "elsewhere")))
    assert Path(store.read(moved).best_predicted.kernel_path).is_file()
    assert state_file(moved)["folder"] == str(tmp_path / "elsewhere")


def test_a_run_that_cannot_be_written_can_be_read(run, monkeypatch):
    record(run, "one", 50.0)
    opened = os.open

    def refuse(path: object, flags: int, *rest: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, *rest)

    monkeypatch.setattr(store.os, "open", refuse)
    assert [result.id for result in store.read(run).evaluations] == ["one"]


def test_a_run_that_lost_its_first_line_can_be_mended_by_hand(run):
    record(run, "one", 50.0)
    events = run.folder / "events.jsonl"
    whole = events.read_bytes()
    events.write_bytes(whole[9:])
    with pytest.raises(store.NoRun, match=r"lost its first line.* Put it back"):
        store.find(run.folder)
    created = {"time": "...", "event": "created", "id": "...", "workload": WORKLOAD.name, "tpu": "v5e"}
    events.write_bytes(json.dumps(created).encode() + b"\n" + events.read_bytes())
    assert [result.id for result in store.read(store.find(run.folder)).evaluations] == ["one"]


def test_a_run_that_cannot_be_read_is_not_told_to_begin(run):
    (run.folder / "events.jsonl").unlink()
    with pytest.raises(store.NoRun, match="holds no run. Begin one"):
        store.find(run.folder)
    (run.folder / "events.jsonl").mkdir()  # as one of somebody else
    with pytest.raises(store.NoRun, match=r"run/events.jsonl cannot be read: Is a directory. Ask"):
        store.find(run.folder)


def test_what_is_recorded_is_told_as_recorded_where_the_state_cannot_be_written(run):
    (run.folder / "state.json").unlink()
    (run.folder / "state.json").mkdir()  # as on a full disk: the event fits, the state does not
    assert [result.id for result in record(run, "one", 50.0).evaluations] == ["one"]
    assert [result.id for result in store.read(run).evaluations] == ["one"]
    (run.folder / "state.json").rmdir()
    store.read(run)
    assert ids(run) == ["one"]


@pytest.mark.parametrize("name", ["../state.json", "/etc/x", "a/../../x", "", ".hidden", "a//b", "x" * 101, "a\0"])
def test_an_artifact_stays_in_its_folder(run, name):
    with pytest.raises(store.RunError, match="no name for an artifact"):
        store.keep_artifact(run, name, b"")
    assert not (run.folder / "artifacts").exists()


def test_artifacts_and_lists(run, tmp_path):
    path = store.keep_artifact(run, "autotune/table.csv", "a,b\n")
    assert path == run.folder / "artifacts" / "autotune" / "table.csv"
    assert path.read_text() == "a,b\n"
    (tmp_path / "no-run").mkdir()
    record(run, "one", 50.0)
    (listed,) = store.listed(tmp_path)
    assert listed.summary() | {"id": "", "created": ""} == {
        "id": "",
        "folder": str(run.folder),
        "workload": "8p_GEMM",
        "tpu": "v5e",
        "created": "",
        "evaluations": 1,
        "correct": 1,
        "best_predicted_us": 50.0,
        "best_measured_us": None,
    }


@pytest.mark.parametrize("id", ["../x", "nope", "", "a/b"])
def test_no_other_file_passes_for_an_evaluation(run, id):
    (run.folder.parent / "x.json").write_text(evaluation("x", "# a").model_dump_json())
    with pytest.raises(store.NoEvaluation):
        store.evaluation(run, id)


def test_a_damaged_evaluation_is_not_taken_for_one(run):
    record(run, "one", 50.0)
    (run.folder / "evaluations" / "one.json").write_text("{")
    with pytest.raises(store.NoEvaluation, match="damaged"):
        store.evaluation(run, "one")

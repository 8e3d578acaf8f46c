import json
import multiprocessing
import os
import signal
import sqlite3
from pathlib import Path

import pytest
from fake_judge import VERSIONS
from families import PATIENCE_S

from hawkeye_mcp import pool, workloads
from hawkeye_mcp.evaluation import Evaluation, Timing
from hawkeye_mcp.pool import Pool


def evaluation(number: int, status: str = "correct", **changed) -> Evaluation:
    speedup = changed.pop("speedup", 1.0)
    source = changed.pop("source", "predicted")
    lower_bound = changed.pop("lower_bound", False)
    return Evaluation(
        id=f"ev-{number}",
        status=status,
        message="m",
        next_step="n",
        workload=changed.get("workload", "8p_GEMM"),
        tpu=changed.get("tpu", "v5e"),
        kernel_sha256="whatever the judge says",
        isolation="rlimits",
        timing=Timing(
            source=source,
            candidate_us=None if speedup is None else 100 / speedup,
            baseline_us=100.0,
            speedup=speedup,
            lower_bound=lower_bound,
            speedup_interval=changed.get("speedup_interval"),
        )
        if status == "correct"
        else None,
        versions=VERSIONS,
        created=f"2026-01-01T00:00:{number % 60:02}+00:00",
    )


@pytest.fixture
def store(tmp_path: Path) -> Pool:
    return Pool(tmp_path / "state" / "pool.sqlite3")


def test_what_was_added_is_read_back_whole(store: Pool):
    store.add("# é kernel", evaluation(1), "f")
    record = store.read("ev-1")
    assert record is not None
    assert record.kernel == "# é kernel"
    assert record.evaluation == evaluation(1)
    assert store.read("ev-2") is None


def test_a_verdict_is_reused_only_for_the_same_text_workload_tpu_and_fingerprint(store: Pool):
    store.add("k", evaluation(1), "f")
    key = pool.sha256("k")
    assert store.cached(key, "8p_GEMM", "v5e", "f") == evaluation(1)
    assert store.cached(pool.sha256("k2"), "8p_GEMM", "v5e", "f") is None
    assert store.cached(key, "12p_RMSNorm", "v5e", "f") is None
    assert store.cached(key, "8p_GEMM", "v6e", "f") is None
    assert store.cached(key, "8p_GEMM", "v5e", "other versions") is None


def test_the_latest_usable_verdict_wins(store: Pool):
    store.add("k", evaluation(1, "incorrect"), "f")
    store.add("k", evaluation(2, "correct"), "f")
    store.add("k", evaluation(3, "harness_error"), "f")
    store.add("k", evaluation(4, "timeout"), "f")
    found = store.cached(pool.sha256("k"), "8p_GEMM", "v5e", "f")
    assert found is not None
    assert found.id == "ev-2"


def test_best_first_and_predicted_apart_from_measured(store: Pool):
    store.add("slow", evaluation(1, speedup=0.5), "f")
    store.add("fast", evaluation(2, speedup=3.0), "f")
    store.add("measured", evaluation(3, speedup=9.0, source="measured"), "f")
    store.add("wrong", evaluation(4, "incorrect"), "f")
    store.add("elsewhere", evaluation(5, speedup=8.0, workload="12p_RMSNorm"), "f")
    store.add("other chip", evaluation(6, speedup=8.0, tpu="v6e"), "f")
    store.add("middle", evaluation(7, speedup=2.0), "f")
    store.add("no number", evaluation(8, speedup=None), "f")
    store.add("bound", evaluation(9, speedup=7.0, lower_bound=True), "f")
    assert [e.id for e in store.best("8p_GEMM", "v5e", "predicted", 10, "f")] == [
        "ev-2",
        "ev-7",
        "ev-1",
        "ev-8",
        "ev-9",
    ]
    assert [e.id for e in store.best("8p_GEMM", "v5e", "predicted", 2, "f")] == ["ev-2", "ev-7"]
    assert [e.id for e in store.best("8p_GEMM", "v5e", "measured", 10, "f")] == ["ev-3"]


def test_a_surer_speedup_ranks_before_a_larger_one_that_may_be_an_error(store: Pool):
    store.add("doubtful", evaluation(1, speedup=2.4, speedup_interval=(1.5, 3.0)), "f")
    store.add("sure", evaluation(2, speedup=2.2, speedup_interval=(2.1, 2.3)), "f")
    store.add("without an interval", evaluation(3, speedup=2.0), "f")
    assert [e.id for e in store.best("8p_GEMM", "v5e", "predicted", 10, "f")] == ["ev-2", "ev-3", "ev-1"]


def test_a_kernel_is_listed_once_with_its_latest_verdict(store: Pool):
    store.add("k", evaluation(1, speedup=5.0), "f")
    store.add("k", evaluation(2, speedup=1.5), "f")
    store.add("later found wrong", evaluation(3, speedup=6.0), "f")
    store.add("later found wrong", evaluation(4, "incorrect"), "f")
    store.add("then a fault", evaluation(5, speedup=1.0), "f")
    store.add("then a fault", evaluation(6, "harness_error"), "f")
    assert [e.id for e in store.best("8p_GEMM", "v5e", "predicted", 10, "f")] == ["ev-2", "ev-5"]


def test_verdicts_of_another_judge_or_compiler_are_not_ranked_with_these(store: Pool):
    store.add("flattered by the old judge", evaluation(1, speedup=9.0), "old")
    store.add("judged by both", evaluation(2, speedup=8.0), "old")
    store.add("judged by both", evaluation(3, speedup=2.0), "f")
    store.add("accepted again by the old one", evaluation(4, "incorrect"), "f")
    store.add("accepted again by the old one", evaluation(5, speedup=7.0), "old")
    assert [e.id for e in store.best("8p_GEMM", "v5e", "predicted", 10, "f")] == ["ev-3"]
    assert [e.id for e in store.best("8p_GEMM", "v5e", "predicted", 10, "old")] == ["ev-1", "ev-2", "ev-5"]


def test_rows_are_only_ever_added(store: Pool):
    store.add("k", evaluation(1), "f")
    db = sqlite3.connect(store.path)
    for statement in ("UPDATE evaluations SET status = 'correct'", "DELETE FROM evaluations"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()
    with pytest.raises(sqlite3.IntegrityError):
        store.add("k", evaluation(1), "f")


def test_the_fingerprint_follows_the_workload_s_files(tmp_path: Path):
    workload = workloads.load("8p_GEMM")
    for path in workload.folder.glob("workload.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    copy = workload.model_copy(update={"folder": tmp_path})
    assert pool.fingerprint(copy) == pool.fingerprint(workload)
    with (tmp_path / "workload.toml").open("a") as file:
        file.write("# a change\n")
    assert pool.fingerprint(copy) != pool.fingerprint(workload)


def test_the_fingerprint_follows_the_workload_s_own_baselines(tmp_path: Path, monkeypatch):
    workload = workloads.load("8p_GEMM")
    (tmp_path / "workloads" / "baselines").mkdir(parents=True)
    monkeypatch.setattr(pool.content, "folder", lambda name: tmp_path / name)

    def with_baselines(**entries: float) -> str:
        (tmp_path / "workloads" / "baselines" / "v5e.json").write_text(json.dumps(entries))
        return pool.fingerprint(workload)

    first = with_baselines(**{"8p_GEMM": 1.0, "12p_RMSNorm": 1.0})
    assert with_baselines(**{"8p_GEMM": 1.0, "12p_RMSNorm": 2.0}) == first
    assert with_baselines(**{"8p_GEMM": 2.0, "12p_RMSNorm": 1.0}) != first
    none = with_baselines()
    for damaged in ("{", "[]", "\xff"):
        (tmp_path / "workloads" / "baselines" / "v5e.json").write_text(damaged, encoding="latin-1")
        assert pool.fingerprint(workload) == none


def _add_many(path: Path, start: int, count: int) -> None:
    store = Pool(path)
    for number in range(start, start + count):
        store.add(f"kernel {number}", evaluation(number), "f")


def _add_until_killed(path: Path, ready) -> None:
    store, number = Pool(path), 0
    while True:
        store.add(f"kernel {number}", evaluation(number), "f")
        number += 1
        if number == 5:
            ready.set()


def test_several_processes_may_write_at_once(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "pool.sqlite3"
    writers = [context.Process(target=_add_many, args=(path, start, 20)) for start in (0, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(PATIENCE_S)
        assert writer.exitcode == 0
    assert len(Pool(path).best("8p_GEMM", "v5e", "predicted", 100, "f")) == 40


def test_a_killed_writer_leaves_whole_records(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    path, ready = tmp_path / "pool.sqlite3", context.Event()
    writer = context.Process(target=_add_until_killed, args=(path, ready))
    writer.start()
    assert ready.wait(PATIENCE_S)
    os.kill(writer.pid, signal.SIGKILL)
    writer.join(PATIENCE_S)
    store = Pool(path)
    found = store.best("8p_GEMM", "v5e", "predicted", 100_000, "f")
    assert len(found) >= 5
    for one in found:
        record = store.read(one.id)
        assert record is not None
        assert record.kernel == f"kernel {one.id.removeprefix('ev-')}"
    store.add("after", evaluation(10**6), "f")
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


@pytest.mark.parametrize("damaged", [b"", b"[]", b'{"id": "ev-1', b"\xff\0\xfe"])
def test_a_damaged_row_is_as_good_as_none_and_hides_no_other(store: Pool, damaged):
    store.add("k", evaluation(1), "f")
    store.add("other", evaluation(2), "f")
    db = sqlite3.connect(store.path)
    db.execute("DROP TRIGGER no_update")
    db.execute("UPDATE evaluations SET evaluation = CAST(? AS TEXT) WHERE id = 'ev-1'", (damaged,))
    db.commit()
    db.close()
    assert store.cached(pool.sha256("k"), "8p_GEMM", "v5e", "f") is None
    assert store.read("ev-1") is None
    assert [found.id for found in store.best("8p_GEMM", "v5e", "predicted", 5, "f")] == ["ev-2"]
    store.add("k", evaluation(3), "f")
    assert store.cached(pool.sha256("k"), "8p_GEMM", "v5e", "f") == evaluation(3)


@pytest.mark.parametrize("folder", ["candidate", "judge", "mosaic_eval", "profiler", "sanitizer"])
def test_a_change_of_what_judges_makes_another_judge(tmp_path, monkeypatch, folder):
    file = tmp_path / folder / "inside" / "checks.py"
    file.parent.mkdir(parents=True)
    file.write_text("one")
    monkeypatch.setattr(pool, "__file__", str(tmp_path / "pool.py"))
    before = pool.judge_code.__wrapped__()
    file.write_text("two")
    assert pool.judge_code.__wrapped__() != before

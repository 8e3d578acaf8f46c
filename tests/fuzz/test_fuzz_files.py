"""Files that people and agents bring: workloads, cells, folders of runs; and those that this program kept for itself."""

import json
import sqlite3
from pathlib import Path

import pytest
import typer
from fake_judge import FakeJudge
from fuzzing import EXAMPLES, attempted, fuzz
from hawkeye_bench import analysis_commands, budget, journal, preregistration, results, runs, status, trajectories
from hawkeye_bench.analysis import choices_for
from hawkeye_bench.budget import Budget
from hypothesis import strategies as st
from mutating import DEEP, json_bytes, mutated
from typer.testing import CliRunner

from hawkeye_mcp import calllog, content, pool, workloads
from hawkeye_mcp.accuracy import collect
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.taxonomy_check import runner as cell_runner
from hawkeye_mcp.taxonomy_check import source
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check import runner as workload_runner

# --- workloads and cells


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "own_workload"
    made.mkdir()
    (made / "workload.py").write_text("")
    return made


def declarations() -> st.SearchStrategy[bytes]:
    names = ("12p_RMSNorm", "8p_GEMM", "11p_Megablox_GMM")
    return mutated([(content.folder("workloads") / name / "workload.toml").read_bytes() for name in names])


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_declaration_is_a_workload_with_shapes_or_says_what_is_wrong(folder, examples):
    def feed(data: bytes) -> None:
        (folder / "workload.toml").write_bytes(data)
        found = attempted(lambda: workloads.find(f"{folder}/"), workloads.UnknownWorkload)
        if isinstance(found, workloads.UnknownWorkload):
            assert "workload.toml" in str(found)
            return
        for size in ("full", "check"):
            for shape, _ in found.shapes((*found.inputs, *found.outputs), size):
                assert all(isinstance(length, int) and length > 0 for length in shape)

    fuzz(
        declarations(),
        feed,
        examples,
        [b"a = " + b"[" * DEEP, b"\xff", b"a = " + b"9" * 5_000, b"name = 1", b"sizes = {}"],
    )


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_cell_is_a_source_or_says_what_is_wrong(tmp_path, monkeypatch, examples):
    samples = [(source.folder() / row / "cell.toml").read_bytes() for row in source.rows()[:3]]
    (tmp_path / "row").mkdir()
    monkeypatch.setattr(source, "folder", lambda: tmp_path)

    def feed(data: bytes) -> None:
        (tmp_path / "row" / "cell.toml").write_bytes(data)
        found = attempted(lambda: source.load("row"), source.BrokenSource)
        assert isinstance(found, source.Source) or "cell.toml" in str(found)

    fuzz(mutated(samples), feed, examples, [b"a = " + b"[" * DEEP, b"a = " + b"9" * 5_000, b"\xff"])


# --- folders of runs

PLAN = runs.Plan(
    agent="minimal", model="m", base_url="", tpu="v5e", budget=Budget(), workloads=["8p_GEMM"],
    conditions=["none", "taxonomy"], reps=1, versions=versions(),
)  # fmt: skip
RUN = runs.Run(
    workload="8p_GEMM", condition="none", repeat=1, tpu="v5e", agent="minimal", model="m", status="correct", stop="finished",
    isolation="bubblewrap", speedup=1.5, speedup_interval=(1.2, 1.9), source="predicted", candidate_us=10, baseline_us=15,
    evaluations=2, tool_calls={"evaluate_kernel": 2}, started="2026-11-30T12:00:00+00:00", seconds=9.5, versions=versions(),
)  # fmt: skip
LOG = [
    {"time": "2026-11-30T12:00:01.000+00:00", "event": "call_end", "outcome": "ok", "cell_read": {"row": "01", "part": "all"}},
    {"time": "2026-11-30T12:00:02.000+00:00", "event": "verdict", "kind": "evaluate", "status": "correct", "speedup": 1.5,
     "kernel_sha256": "a" * 64, "cached": False},
    {"time": "2026-11-30T12:00:03.000+00:00", "event": "verdict", "kind": "evaluate", "status": "incorrect", "cached": True},
]  # fmt: skip
TRANSCRIPT = [
    {
        "time": "2026-11-30T12:00:01.500+00:00",
        "kind": "model",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "cost_usd": 0.1,
    },
    {
        "time": "2026-11-30T12:00:01.600+00:00",
        "kind": "tool_call",
        "tool": "evaluate_kernel",
        "arguments": {"path": "k.py"},
    },
    {"time": "2026-11-30T12:00:01.700+00:00", "kind": "tool_result", "tool": "evaluate_kernel", "text": "{}"},
    {"time": "2026-11-30T12:00:01.800+00:00", "kind": "edit", "path": "k.py"},
]
JOURNAL = [
    {"time": "2026-11-30T12:00:00.000+00:00", "event": "opened", "slots": 2, "to_do": 2},
    {"time": "2026-11-30T12:00:00.100+00:00", "event": "started", "workload": "8p_GEMM", "condition": "taxonomy", "repeat": 1,
     "tries": 1},
    {"time": "2026-11-30T12:00:00.200+00:00", "event": "retry", "workload": "8p_GEMM", "condition": "taxonomy", "repeat": 1,
     "tries": 2, "delay_s": 5.0},
]  # fmt: skip


def lines(objects) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in objects)


@pytest.fixture
def out(tmp_path) -> Path:
    """A folder of two runs, one of which has ended."""
    folder = tmp_path / "out"
    done = runs.folder(folder, "8p_GEMM", "none", 1)
    done.mkdir(parents=True)
    (folder / "plan.json").write_text(PLAN.model_dump_json())
    (folder / "journal.jsonl").write_bytes(lines(JOURNAL))
    (done / "run.json").write_text(RUN.model_dump_json())
    (done / "calls.jsonl").write_bytes(lines(LOG))
    (done / "transcript.jsonl").write_bytes(lines(TRANSCRIPT))
    preregistration_of = tmp_path / "registered"
    preregistration.preregister(preregistration_of, PLAN, choices_for(PLAN.conditions))
    (folder / "preregistered.json").write_bytes((preregistration_of / "preregistered.json").read_bytes())
    return folder


app = typer.Typer(rich_markup_mode=None)
app.command()(analysis_commands.report)
app.command()(status.status)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("name", ["plan.json", "8p_GEMM/none/1/run.json", "preregistered.json"])
def test_a_record_is_one_or_the_folder_is_refused_naming_it(out, name, examples):
    sample = json.loads((out / name).read_bytes())

    def feed(data: bytes) -> None:
        (out / name).write_bytes(data)
        found = attempted(lambda: results.read(out), runs.Unreadable)
        if isinstance(found, runs.Unreadable):
            assert str(out) in str(found)
            return
        found.model_dump_json()
        assert json.loads(status.read(out).model_dump_json())

    unlike = [b"[" * DEEP, b"null", b"\xff", json.dumps(sample | {"plan": {}, "choices": {}, "reps": 10**9}).encode()]
    unlike += [json.dumps(sample | {"speedup": value}).encode() for value in (-3.5, 0, float("inf"), float("nan"))]
    fuzz(json_bytes([sample]), feed, examples, unlike)


@pytest.mark.parametrize("command", ["report", "status"])
@pytest.mark.parametrize("name", ["plan.json", "8p_GEMM/none/1/run.json"])
def test_a_damaged_record_is_wrong_usage_and_no_traceback(out, name, command):
    (out / name).write_text('{"half": ')
    found = CliRunner().invoke(app, [command, str(out), "--json"])
    assert found.exit_code == 2, found.output
    assert f"{name} is damaged" in "".join(found.stderr.split()).replace("isdamaged", " is damaged")


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(
    ("name", "sample"),
    [("calls.jsonl", LOG), ("transcript.jsonl", TRANSCRIPT), ("journal.jsonl", JOURNAL)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_line_of_ours_is_left_out(out, name, sample, examples):
    path = out / name if name == "journal.jsonl" else out / "8p_GEMM" / "none" / "1" / name
    one = json_bytes(sample).map(lambda line: line.replace(b"\n", b" ") + b"\n")
    texts = st.one_of(st.lists(one, max_size=4).map(b"".join), mutated([lines(sample)]))

    def feed(data: bytes) -> None:
        path.write_bytes(data)
        for line in journal.read(out) if name == "journal.jsonl" else calllog.read(path):
            assert isinstance(line, dict)
        for point in trajectories.trajectory(path.parent):
            assert point.tokens is None or 0 <= point.tokens
            assert point.speedup is None or 0 < point.speedup < 1e16
        meter = budget.Meter(Budget(), path)
        meter.note({"kind": "edit"})
        status.read(out).model_dump_json()

    unlike = [b"3\n[]\nnull\n", b"[" * DEEP, b"\xff\n", b'{"event": "opened"}\n{"event": "started", "workload": 1}\n']
    unlike += [lines([line | {name: "x" for name in line}]) for line in sample]
    unlike += [lines([line | {name: value}]) for line in sample for name in line for value in (None, [], 10**400, -1)]
    fuzz(texts, feed, examples, unlike)


# --- what was kept


@pytest.fixture
def verdict(tmp_path) -> Evaluation:
    import anyio

    return anyio.run(FakeJudge().evaluate, "# kernel", workloads.load("8p_GEMM"), "v5e")


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_damaged_verdict_is_as_good_as_none(tmp_path, verdict, examples):
    store = pool.Pool(tmp_path / "pool.sqlite3")
    store.add("# kernel", verdict, "f")
    with sqlite3.connect(store.path) as db:
        db.execute("DROP TRIGGER no_update")
    db.close()

    def feed(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        with sqlite3.connect(store.path) as db:
            db.execute("UPDATE evaluations SET evaluation = ?", (text,))
        db.close()
        found = store.cached(verdict.kernel_sha256, "8p_GEMM", "v5e", "f")
        assert found is None or isinstance(found, Evaluation)
        store.read(verdict.id)
        store.best("8p_GEMM", "v5e", "predicted", 5, "f")

    fuzz(json_bytes([json.loads(verdict.model_dump_json())]), feed, examples, [b"{", b"null", b"[" * DEEP])


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_damaged_file_of_baselines_is_as_good_as_none(tmp_path, monkeypatch, examples):
    workload = workloads.load("8p_GEMM")
    whole = json.loads(baseline.shipped_path("v5e").read_bytes())
    path = tmp_path / "v5e.json"
    monkeypatch.setattr(baseline, "shipped_path", lambda tpu: path)
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path / "cache"))

    def feed(data: bytes) -> None:
        path.write_bytes(data)
        found = baseline.known(workload, "v5e", versions())
        assert found is None or (found.workload, found.tpu) == ("8p_GEMM", "v5e")

    entry = whole["8p_GEMM"]
    mistaken = [
        json.dumps({"8p_GEMM": entry | {name: "other"}}).encode() for name in ("workload", "tpu", "fingerprint")
    ]
    fuzz(json_bytes([{"8p_GEMM": entry}]), feed, examples, [b"[" * DEEP, b"[]", b"\xff", *mistaken])


@pytest.mark.parametrize(
    "read", [workload_runner._read, cell_runner._read, collect.known], ids=["workload", "cell", "row"]
)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_damaged_cache_is_as_good_as_none(tmp_path, monkeypatch, read, examples):
    path = tmp_path / "kept.json"
    given = path
    if read is collect.known:
        monkeypatch.setattr(collect, "folder", lambda: tmp_path)
        given = type("Row", (), {"id": "kept", "kernel": "k", "implementation": "i", "file": "measured.csv"})()

    def feed(data: bytes) -> None:
        path.write_bytes(data)
        found = read(given)
        assert found is None or isinstance(found, dict)

    fuzz(
        json_bytes([{"state": "ok", "cycles": 3, "notes": ["x"]}]),
        feed,
        examples,
        [b"[" * DEEP, b"[]", b"\xff"],
    )

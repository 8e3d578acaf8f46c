"""The results of a folder as logs of Inspect: what they say, and that Inspect reads the same in them."""

import json
import subprocess
from pathlib import Path

import pytest
from bench_fixtures import TESTS, plan
from hawkeye_bench import results, runs
from hawkeye_bench.exports import inspect_logs, inspect_transcript
from synthetic_runs import run

INTERPRETER = TESTS.parent / ".clients/inspect/bin/python"
STARTED = "2026-11-30T12:00:00+00:00"
KERNEL = "def workload(x):\n    return x\n"

TRANSCRIPT = [
    {"time": "2026-11-30T12:00:01.000+00:00", "kind": "note", "prompt": "Make it fast."},
    {
        "time": "2026-11-30T12:00:02.000+00:00",
        "kind": "model",
        "prompt_tokens": 90,
        "completion_tokens": 10,
        "message": {"role": "assistant", "content": [{"type": "text", "text": "I shall."}, {"type": "tool_use"}]},
    },
    {
        "time": "2026-11-30T12:00:03.000+00:00",
        "kind": "tool_call",
        "tool": "evaluate_kernel",
        "arguments": {"path": "k"},
    },
    {"time": "2026-11-30T12:00:04.000+00:00", "kind": "tool_call", "tool": "read_workload", "arguments": {}},
    {"time": "2026-11-30T12:00:05.000+00:00", "kind": "tool_result", "tool": "read_workload", "text": "# w0 \ud83d"},
    {
        "time": "2026-11-30T12:00:06.500+00:00",
        "kind": "tool_result",
        "tool": "evaluate_kernel",
        "is_error": True,
        "text": "no such file",
    },
    {
        "time": "2026-11-30T12:00:07.000+00:00",
        "kind": "tool_call",
        "tool": "evaluate_kernel",
        "arguments": {"path": "l"},
    },
    {"kind": "note", "stop": "finished"},
]

USED = {"prompt_tokens": 90, "completion_tokens": 10}
# Taxonomy: 3 of 4 correct on w0 and w1 (0.75 whichever way), one of unknown speed; w2 can tell nothing.
RUNS = [
    run("w0", "none", 1, speedup=2.0, kernel_sha256="k0", **USED),
    run("w0", "none", 2, status="no_correct_kernel", stop="productive_turn_limit", **USED),
    run("w1", "none", 1, speedup=0.5, **USED),
    run("w1", "none", 2, speedup=0.5, lower_bound=True, **USED),
    run("w2", "none", 1, speedup=9.0, no_power="nothing to tell", **USED),
    run("w2", "none", 2, speedup=9.0, no_power="nothing to tell", **USED),
    run("w0", "taxonomy", 1, speedup=3.0, source="predicted", stop="token_limit", **USED),
]


@pytest.fixture
def folder(tmp_path):
    out = tmp_path / "runs"
    out.mkdir()
    budget = {"budget": {"tokens": 1000, "productive_turns": 7, "minutes": 2.0}}
    the_plan = plan(workloads=["w0", "w1", "w2"], conditions=["none", "taxonomy"], reps=2)
    changed = json.loads(the_plan.model_dump_json()) | budget
    (out / "plan.json").write_text(json.dumps(changed))
    for one in RUNS:
        kept = runs.folder(out, one.workload, one.condition, one.repeat)
        (kept / "kernels").mkdir(parents=True)
        (kept / "run.json").write_text(one.model_dump_json())
        (kept / "kernels/k0.py").write_text(KERNEL)
        (kept / "transcript.jsonl").write_text("".join(json.dumps(line) + "\n" for line in TRANSCRIPT))
    return out


def logs(out):
    found = results.read(out)
    texts = inspect_logs.logs(out, found, results.finished(out, found.plan))
    return {json.loads(text)["eval"]["metadata"]["condition"]: json.loads(text) for text in texts.values()}


def samples(log):
    return {(one["id"], one["epoch"]): one for one in log["samples"]}


def test_scores_are_of_runs_that_count_and_whose_time_is_known(folder):
    log = logs(folder)["none"]
    scores = {key: {name: one["value"] for name, one in s["scores"].items()} for key, s in samples(log).items()}
    assert scores == {
        ("w0", 1): {"correct": "C", "speedup_measured": 2.0},
        ("w0", 2): {"correct": "I"},
        ("w1", 1): {"correct": "C", "speedup_measured": 0.5},
        ("w1", 2): {"correct": "C"},  # at most 0.5
        ("w2", 1): {},
        ("w2", 2): {},
    }
    assert samples(log)["w0", 1]["scores"]["correct"]["answer"] == KERNEL
    correct, speedup = log["results"]["scores"]
    assert correct["metrics"]["accuracy"]["value"] == 0.75  # (1/2 + 1) / 2
    assert speedup["name"] == "speedup_measured"
    assert speedup["metrics"]["geomean"]["value"] == pytest.approx(1.0)
    assert (correct["scored_samples"], correct["unscored_samples"]) == (2, 1)


def test_what_is_no_text_is_replaced(folder):
    messages = samples(logs(folder)["none"])["w0", 1]["messages"]
    assert messages[2]["content"] == "# w0 ?"


def test_a_condition_that_is_not_complete_is_not_called_so(folder):
    found = logs(folder)
    assert (found["none"]["status"], found["taxonomy"]["status"]) == ("success", "started")
    counts = [found["taxonomy"]["results"][name] for name in ("total_samples", "completed_samples")]
    assert counts == [6, 1]
    assert found["taxonomy"]["results"]["scores"][1]["name"] == "speedup_predicted"


def test_limits_and_tokens_are_those_of_the_records(folder):
    found = logs(folder)
    none, taxonomy = samples(found["none"]), samples(found["taxonomy"])
    assert none["w0", 1]["limit"] is None
    assert none["w0", 2]["limit"] == {"type": "custom", "limit": 7, "reason": "productive_turn_limit"}
    assert taxonomy["w0", 1]["limit"] == {"type": "token", "limit": 1000, "reason": "token_limit"}
    assert found["none"]["stats"]["model_usage"]["scripted"]["total_tokens"] == 600
    record = folder / "w0/none/1/run.json"
    record.write_text(RUNS[0].model_copy(update={"completion_tokens": None, "cost_usd": 0.5}).model_dump_json())
    again = logs(folder)["none"]
    assert samples(again)["w0", 1]["model_usage"] == {}
    assert again["stats"]["model_usage"] == {}  # a part would pass for the whole
    assert samples(again)["w0", 1]["metadata"]["cost_usd"] == 0.5


def test_the_same_folder_gives_the_same_files(folder):
    found = results.read(folder)
    records = results.finished(folder, found.plan)
    first, again = (inspect_logs.logs(folder, found, records) for _ in range(2))
    assert first == again
    assert all(name.startswith("2026-11-30T12-00-00+00-00_hawkeye-bench-") for name in first)
    ids = {json.loads(text)["eval"]["run_id"] for text in first.values()}
    assert len(ids) == 1


def test_a_transcript_gives_what_was_said_and_each_call_with_its_answer(folder):
    found = inspect_transcript.read(folder / "w0/none/1/transcript.jsonl", STARTED)
    assert found.prompt == "Make it fast."
    assert [(one["role"], one["content"]) for one in found.messages] == [
        ("user", "Make it fast."),
        ("assistant", "I shall."),
        ("tool", "# w0 \ud83d"),
        ("tool", "no such file"),
    ]
    model, first, other, last = found.events
    assert (model["source"], model["data"]) == ("model", USED)
    assert (first["function"], first["arguments"], first["result"]) == (
        "evaluate_kernel",
        {"path": "k"},
        "no such file",
    )
    assert (first["working_start"], first["completed"]) == (3.0, "2026-11-30T12:00:06.500+00:00")
    assert first["error"] == {"type": "unknown", "message": "no such file"}
    assert (other["result"], other["error"]) == ("# w0 \ud83d", None)
    assert "result" not in last and last["metadata"] == {"answered": False}


def test_results_answer_the_calls_of_their_tool_in_order(tmp_path):
    lines = [
        {"kind": "tool_call", "tool": "job", "arguments": {"job_id": "1"}},
        {"kind": "tool_call", "tool": "job", "arguments": {"job_id": "2"}},
        {"kind": "tool_result", "tool": "job", "text": "one"},
        {"kind": "tool_result", "tool": "job", "text": "two"},
    ]
    path = tmp_path / "transcript.jsonl"
    path.write_text("".join(json.dumps({"time": STARTED} | line) + "\n" for line in lines) + '{"time": "cut o')
    calls = inspect_transcript.read(path, STARTED).events
    assert [(one["arguments"]["job_id"], one["result"]) for one in calls] == [("1", "one"), ("2", "two")]


def test_a_run_without_a_transcript_says_that_its_prompt_is_unknown(folder):
    (folder / "w0/none/1/transcript.jsonl").unlink()
    sample = samples(logs(folder)["none"])["w0", 1]
    assert sample["input"] == "Workload w0 on TPU v5e; the prompt is not in the record."
    assert (sample["messages"], sample["events"]) == ([], [])


@pytest.mark.clients
def test_inspect_reads_the_same_in_them(folder, tmp_path):
    if not INTERPRETER.exists():
        pytest.skip(f"no inspect_ai at {INTERPRETER}: make test-clients installs it")
    target = tmp_path / "logs"
    found = results.read(folder)
    target.mkdir()
    for name, text in inspect_logs.logs(folder, found, results.finished(folder, found.plan)).items():
        (target / name).write_text(text)
    reader = Path(__file__).with_name("inspect_reader.py")
    command = [INTERPRETER, reader, target, tmp_path / "again.eval"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    read = {one["task"]: one for one in json.loads(done.stdout)}
    none = read["hawkeye-bench-none"]
    assert none["metrics"]["correct"]["accuracy"] == found.success["none"].share == 0.75
    assert none["metrics"]["speedup_measured"]["geomean"] == pytest.approx(1.0)
    assert none["header"] == none["metrics"]
    # What Inspect makes of the samples by itself.
    assert none["recomputed"]["correct"]["accuracy"] == 0.75
    assert none["recomputed"]["speedup_measured"] == {"mean": 1.25}
    assert none["rewritten"] == len(none["samples"]) == 6
    assert none["usage"]["scripted"]["total_tokens"] == 600
    by_key = {(one["id"], one["epoch"]): one for one in none["samples"]}
    assert by_key["w0", 1]["scores"] == {"correct": "C", "speedup_measured": 2.0}
    assert by_key["w2", 1]["scores"] == {}
    assert by_key["w0", 1]["roles"] == ["user", "assistant", "tool", "tool"]
    assert by_key["w0", 1]["events"] == ["info", "tool", "tool", "tool"]
    assert by_key["w0", 1]["timestamps"][0] == "2026-11-30T12:00:02+00:00"
    assert by_key["w0", 2]["limit"] == "custom"
    assert (read["hawkeye-bench-taxonomy"]["status"], none["status"]) == ("started", "success")

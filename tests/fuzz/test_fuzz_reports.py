"""The page and the exports of a folder whose logs are damaged: they are written, and say what is still known."""

import csv
import io
import json
from pathlib import Path

import pytest
from fuzzing import attempted, fuzz
from hawkeye_bench import page, results, runs
from hawkeye_bench.exports import inspect_logs, paper, tables
from hypothesis import strategies as st
from mutating import DEEP, json_bytes, mutated
from test_fuzz_files import LOG, RUN, TRANSCRIPT, lines
from test_fuzz_files import out as out  # a fixture

# An answer as clients pass it on, inside which values are changed too.
PROFILE = {
    "kernel_sha256": "a" * 64, "message": "Profiled.", "status": "profiled", "executed_bundles": 12, "bound": "hbm",
    "predicted_us": 1.5, "findings": [{"text": "spills", "costs_us": 0.5}], "ops": ["k 1.5 us"],
    "ceilings": ["hbm: 10 bytes for 5 FLOP at 8.19e+11/s (datasheet)"], "counters": {"bundles": {"total": 12, "peak_share": 0.5}},
}  # fmt: skip
WORDS = [
    *TRANSCRIPT,
    {**TRANSCRIPT[2], "text": PROFILE},
    {**TRANSCRIPT[0], "message": {"content": [{"text": "Done."}]}},
]

EXAMPLES = [pytest.param(3, id="few"), pytest.param(300, id="many", marks=pytest.mark.slow)]


def shown(folder: Path) -> None:
    """Everything that is made of a folder."""
    found = results.read(folder)
    ended = results.finished(folder, found.plan)
    assert page.write(folder, found).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "| " in paper.table(found, ended)
    for text in inspect_logs.logs(folder, found, ended).values():
        json.loads(text)
    for text in tables.csv_files(found, ended).values():
        heads, *rows = csv.reader(io.StringIO(text))
        assert all(len(row) == len(heads) for row in rows)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(("name", "sample"), [("calls.jsonl", LOG), ("transcript.jsonl", WORDS)], ids=["log", "words"])
def test_a_damaged_log_costs_its_lines_and_no_more(out, name, sample, examples):
    path = out / "8p_GEMM" / "none" / "1" / name
    one = json_bytes(sample).map(lambda line: line.replace(b"\n", b" ") + b"\n")

    def feed(data: bytes) -> None:
        path.write_bytes(data)
        shown(out)

    spoiled = [
        {"time": "x"},
        {"kind": ["evaluate"]},
        {"speedup": "x"},
        {"speedup_interval": [1]},
        {"text": PROFILE | {"ceilings": 3}},
    ]
    unlike = [b"3\n[]\nnull\n" + b"[" * DEEP + b"\n\xff\n"]
    unlike += [lines([line | wrong for line in sample]) for wrong in spoiled]
    if examples > 3:  # each costs a tenth of a second
        unlike += [
            lines([line | {name: value}]) for line in sample for name in line for value in ("x", [], -1, 10**400)
        ]
        unlike += [
            lines([WORDS[4] | {"text": PROFILE | {name: value}}])
            for name in PROFILE
            for value in ("x", 3, [3], {"x": 3})
        ]
    fuzz(st.one_of(st.lists(one, max_size=4).map(b"".join), mutated([lines(sample)])), feed, examples, unlike)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_record_of_other_values_is_shown_or_refused(out, examples):
    path = out / "8p_GEMM" / "none" / "1" / "run.json"

    def feed(data: bytes) -> None:
        path.write_bytes(data)
        found = attempted(lambda: shown(out), runs.Unreadable)
        assert found is None or str(out) in str(found)

    sample = json.loads(RUN.model_dump_json())
    fuzz(json_bytes([sample]), feed, examples, [json.dumps(sample | {"speedup": 1e308, "tool_calls": {}}).encode()])

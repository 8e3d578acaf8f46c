import json
import os
import resource
from pathlib import Path

import pytest
from serving import ERAS, connected, data

from hawkeye_mcp import calllog, pool, state
from hawkeye_mcp.calllog import CallLog


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log" / "calls.jsonl").read_text().splitlines()]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_is_one_line_at_its_start_and_one_at_its_end(tmp_path: Path, mode):
    async with connected(tmp_path, mode=mode, condition="taxonomy") as client:
        found = data(
            await client.call_tool(
                "evaluate_kernel", {"source": "k é"}, meta={"claudecode/toolUseId": "toolu_1", "callId": "c1"}
            )
        )
    logged = lines(tmp_path)
    assert [x["event"] for x in logged] == [
        "server_start",
        "call_start",
        "submitted",
        "verdict",
        "call_end",
        "server_end",
    ]
    server, start, submitted, verdict, end, _ = logged
    sha = pool.sha256("k é")
    assert (server["condition"], server["tpu"], server["workload"]) == ("taxonomy", "v5e", "8p_GEMM")
    assert start["tool"] == end["tool"] == "evaluate_kernel"
    assert start["arguments"] == {"source": f"sha256:{sha}"}
    assert start["client"]["name"] == "mcp"
    assert start["protocol"] == ("2026-07-28" if mode == "auto" else "2025-11-25")
    assert start["meta"] == {"claudecode/toolUseId": "toolu_1", "callId": "c1"}
    assert start["call"] == end["call"]
    assert (end["outcome"], end["status"], end["evaluation_id"]) == ("ok", "correct", found["evaluation_id"])
    assert end["elapsed_s"] >= 0
    assert submitted["kernel_sha256"] == verdict["kernel_sha256"] == end["kernel_sha256"] == sha
    assert (verdict["speedup"], verdict["source"]) == (2.0, "predicted")
    assert (tmp_path / "log" / "kernels" / f"{sha}.py").read_bytes() == "k é".encode()


@pytest.mark.anyio
async def test_refused_and_unknown_calls_are_logged_too(tmp_path: Path):
    async with connected(tmp_path) as client:
        await client.call_tool("evaluate_kernel", {"sorce": "x"})
        await client.call_tool("nonsense", {})
        await client.call_tool("read_workload", {})
    ends = [x for x in lines(tmp_path) if x["event"] == "call_end"]
    assert [(x["tool"], x["outcome"]) for x in ends] == [
        ("evaluate_kernel", "tool_error"),
        ("nonsense", "tool_error"),
        ("read_workload", "ok"),
    ]
    assert "did you mean 'source'?" in ends[0]["error"]


def test_a_text_is_kept_once_whatever_it_holds(tmp_path: Path):
    log = CallLog(tmp_path / "calls.jsonl")
    names = {log.keep_kernel("a\r\nb"), log.keep_kernel("a\r\nb"), log.keep_kernel("\ud800")}
    log.write("note", text="\ud800")
    log.close()
    assert sorted(p.stem for p in (tmp_path / "kernels").iterdir()) == sorted(names)
    assert (tmp_path / "kernels" / f"{pool.sha256('a' + chr(13) + chr(10) + 'b')}.py").read_bytes() == b"a\r\nb"
    assert [x["event"] for x in calllog.read(log.path)] == ["note"]


@pytest.mark.anyio
async def test_a_text_too_large_to_be_a_kernel_is_not_stored(tmp_path: Path):
    async with connected(tmp_path) as client:
        for tool, source in (("evaluate_kernel", "#" * 1_000_001), ("nonsense", "é" * 500_001)):
            assert (await client.call_tool(tool, {"source": source})).is_error
    starts = [x for x in lines(tmp_path) if x["event"] == "call_start"]
    assert [x["arguments"]["source"] for x in starts] == ["1000001 bytes, not kept", "1000002 bytes, not kept"]
    assert not (tmp_path / "log" / "kernels").exists()


def test_a_line_cut_by_a_crash_spoils_no_other(tmp_path: Path):
    path = tmp_path / "calls.jsonl"
    path.write_text('{"event": "one"}\n{"event": "tw')
    log = CallLog(path)
    log.write("three")
    log.close()
    assert [x["event"] for x in calllog.read(path)] == ["one", "three"]


def test_two_logs_on_one_file_both_append(tmp_path: Path):
    one, two = CallLog(tmp_path / "c.jsonl"), CallLog(tmp_path / "c.jsonl")
    for number in range(3):
        one.write("x", writer=1, number=number)
        two.write("x", writer=2, number=number)
    one.close()
    two.close()
    assert [(x["writer"], x["number"]) for x in calllog.read(tmp_path / "c.jsonl")] == [
        (w, n) for n in range(3) for w in (1, 2)
    ]


def test_a_disk_that_is_full_for_a_while_costs_the_line_alone_and_no_file_is_left(tmp_path: Path):
    log = CallLog(tmp_path / "c.jsonl")
    log.write("before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.path.stat().st_size + 7, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.write("during")
        with pytest.raises(OSError, match="File too large"):
            log.keep_kernel("k" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.path.read_bytes().count(b"\n") == 1
    log.write("after")
    log.close()
    assert [x["event"] for x in calllog.read(log.path)] == ["before", "after"]
    assert list((tmp_path / "kernels").iterdir()) == []


def test_what_a_killed_process_had_begun_to_write_is_removed_and_nothing_of_another(tmp_path: Path):
    names = [f".k.py.{state._host()}.{writer}.1.part" for writer in (2**22 + 1, os.getpid())]
    names += [f".k.py.elsewhere.{2**22 + 1}.1.part", "k.py"]
    (tmp_path / "kernels").mkdir()
    for name in names:
        (tmp_path / "kernels" / name).touch()
    CallLog(tmp_path / "c.jsonl").close()
    assert sorted(path.name for path in (tmp_path / "kernels").iterdir()) == sorted(names[1:])

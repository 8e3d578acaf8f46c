"""The server as a real process: what reaches its stdout, how it ends, and what it leaves behind."""

import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from raw_server import PATIENCE_S, command, raw
from serving import data

from hawkeye_mcp import calllog


def is_progress(message: dict[str, Any]) -> bool:
    return message.get("method") == "notifications/progress" and message["params"].get("message") == "trace"


def test_stdout_carries_json_lines_only_even_when_the_judge_prints(tmp_path: Path):
    with raw(tmp_path) as server:
        server.initialize()
        server.send(b"this is no JSON \xff")
        server.send(b'{"jsonrpc": "2.0", "id": 7, "method": "no/such/method"}')
        server.send(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}')
        server.call(2, "evaluate_kernel", source="# fake: print")
        structured = server.answer(2)["result"]["structuredContent"]
        server.call(3, "read_workload")
        assert "8p_GEMM" in server.answer(3)["result"]["content"][0]["text"]
        server.process.stdin.close()
        assert server.process.wait(PATIENCE_S) == 0
        server.rest()
    assert structured["status"] == "correct"
    stray = (tmp_path / "stderr").read_text()
    assert "a stray line on stdout" in stray
    assert "and one past Python" in stray


def test_both_eras_answer_at_once(tmp_path: Path):
    with raw(tmp_path) as server:
        assert server.initialize()["result"]["protocolVersion"] == "2025-06-18"
    with raw(tmp_path) as server:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        server.ask(1, "server/discover", _meta=meta)
        assert "2026-07-28" in server.answer(1)["result"]["supportedVersions"]


@pytest.mark.parametrize("end", ["EOF", "SIGTERM", "SIGINT", "SIGHUP"])
def test_an_end_in_mid_call_stops_the_work_closes_the_judge_and_flushes_the_log(tmp_path: Path, end):
    with raw(tmp_path) as server:
        server.initialize()
        server.call(2, "evaluate_kernel", source="# fake: hold")
        server.until(is_progress)
        if end == "EOF":
            server.process.stdin.close()
            expected = 0
        else:
            server.process.send_signal(getattr(signal, end))
            expected = 128 + getattr(signal, end)
        assert server.process.wait(PATIENCE_S) == expected
        server.rest()
        assert "fake judge closed" in (tmp_path / "stderr").read_text()
        assert [x["outcome"] for x in server.logged("call_end")] == ["cancelled"]
        assert len(server.logged("server_end")) == 1


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT", "EOF"])
def test_what_was_printed_before_an_end_in_mid_call_never_reaches_stdout(tmp_path: Path, end):
    with raw(tmp_path) as server:
        server.initialize()
        server.call(2, "evaluate_kernel", source="# fake: print\n# fake: hold")
        server.until(is_progress)
        if end == "EOF":
            server.process.stdin.close()
        else:
            server.process.send_signal(getattr(signal, end))
        server.process.wait(PATIENCE_S)
        assert all("jsonrpc" in message for message in server.rest())
        assert "a stray line on stdout" in (tmp_path / "stderr").read_text()


def test_a_killed_server_leaves_its_log_and_pool_usable(tmp_path: Path):
    with raw(tmp_path) as server:
        server.initialize()
        server.call(2, "evaluate_kernel", source="# judged before")
        before = server.answer(2)["result"]["structuredContent"]
        server.call(3, "evaluate_kernel", source="# fake: hold")
        server.until(is_progress)
        server.process.kill()
        server.process.wait(PATIENCE_S)
        server.rest()
        assert [x["tool"] for x in server.logged("call_start")] == ["evaluate_kernel"] * 2
        assert len(server.logged("call_end")) == 1
    with raw(tmp_path) as server:
        server.initialize()
        server.call(2, "evaluate_kernel", source="# judged before")
        after = server.answer(2)["result"]["structuredContent"]
        server.call(3, "evaluate_kernel", source="# fake: hold", wait_s=0)
        assert server.answer(3)["result"]["structuredContent"]["status"] == "running"
    assert after == {**before, "cached": True, "job_id": ""}


def test_a_client_that_closes_its_reading_end_ends_the_server(tmp_path: Path):
    with raw(tmp_path) as server:
        server.initialize()
        server.process.stdout.close()
        server.call(2, "read_workload")
        assert server.process.wait(PATIENCE_S) == 0
        assert len(server.logged("server_end")) == 1


def test_a_cancelled_notification_stops_the_call_and_a_late_one_is_ignored(tmp_path: Path):
    with raw(tmp_path) as server:
        server.initialize()
        server.call(2, "evaluate_kernel", source="# fake: hold")
        server.until(is_progress)
        cancelled = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}'
        server.send(cancelled)
        server.send(cancelled)
        server.call(3, "evaluate_kernel", source="# next")
        assert server.answer(3)["result"]["structuredContent"]["status"] == "correct"
        server.send(cancelled)
        server.call(4, "read_workload")
        server.answer(4)
    assert [x["outcome"] for x in server.logged("call_end")] == ["cancelled", "ok", "ok"]
    assert "fake judge cancelled" in (tmp_path / "stderr").read_text()


def test_the_live_process_holds_no_jax(tmp_path: Path):
    with raw(tmp_path) as server:
        server.initialize()
        server.call(2, "evaluate_kernel", source="# k")
        server.answer(2)
        server.call(3, "read_taxonomy_cell", row="01_mxu_feed")
        server.answer(3)
        maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    for library in ("jaxlib", "libtpu"):
        assert library not in maps


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_two_processes_on_one_state_judge_one_text_once(tmp_path: Path, mode):
    (tmp_path / "workspace").mkdir()
    line = command(tmp_path)
    target = StdioServerParameters(command=line[0], args=line[1:])
    found: list[dict[str, Any]] = []

    async def run(client: Client) -> None:
        found.append(data(await client.call_tool("evaluate_kernel", {"source": "# the same"})))

    with anyio.fail_after(PATIENCE_S):
        async with Client(target, mode=mode) as one, Client(target, mode=mode) as two:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, one)
                tasks.start_soon(run, two)
    log = calllog.read(tmp_path / "log" / "calls.jsonl")
    # Both have their verdict on record; it was reached once.
    assert sorted(x["cached"] for x in log if x["event"] == "verdict") == [False, True]
    assert found[0]["evaluation_id"] == found[1]["evaluation_id"]

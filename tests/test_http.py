"""The server over streamable HTTP, as a real process on the loopback interface."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client
from serving import ERAS, FAIL_AFTER_S, Waiting, data

from hawkeye_mcp import calllog

SCRIPT = Path(__file__).with_name("fake_judge_server.py")


class Http:
    def __init__(self, folder: Path) -> None:
        self.log = folder / "calls.jsonl"
        pins = ["--tpu", "v5e", "--workload", "8p_GEMM", "--transport", "http", "--port", "0"]
        paths = ["--workspace", str(folder), "--state", str(folder / "state"), "--call-log", str(self.log)]
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *pins, *paths],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.url = ""
        while not self.url:
            line = os.fsdecode(self.process.stderr.readline())
            assert line, "the server ended before it listened"
            if found := re.search(r"serving on (http://127\.0\.0\.1:\d+/mcp)", line):
                self.url = found[1]

    def until(self, words: str) -> None:
        """Read the server's stderr up to a line with these words."""
        while words not in (line := os.fsdecode(self.process.stderr.readline())):
            assert line, f"the server never said {words!r}"


@pytest.fixture
def http(tmp_path: Path) -> Iterator[Http]:
    server = Http(tmp_path)
    yield server
    server.process.kill()
    server.process.wait()
    server.process.stdout.close()
    server.process.stderr.close()


@pytest.mark.anyio
async def test_clients_of_both_eras_share_one_server_which_ends_by_signal(http: Http):
    found = []
    with anyio.fail_after(FAIL_AFTER_S):
        for mode in ERAS:
            async with Client(http.url, mode=mode) as client:
                found.append(data(await client.call_tool("evaluate_kernel", {"source": "# fake: print"})))
        http.process.send_signal(signal.SIGTERM)
        code = await anyio.to_thread.run_sync(http.process.wait, abandon_on_cancel=True)
    assert [x["cached"] for x in found] == [False, True]
    assert code == 128 + signal.SIGTERM
    assert http.process.stdout.read() == b""
    assert [x["event"] for x in calllog.read(http.log)].count("server_end") == 1


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_disconnects_mid_call_stops_the_work(http: Http, mode):
    with anyio.fail_after(FAIL_AFTER_S):
        async with Client(http.url, mode=mode) as client:
            async with anyio.create_task_group() as tasks:
                call = Waiting(client, "evaluate_kernel", {"source": "# fake: hold"})
                tasks.start_soon(call)
                await call.waits.wait()
                tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(http.until, "fake judge cancelled", abandon_on_cancel=True)
        async with Client(http.url, mode=mode) as client:
            after = data(await client.call_tool("evaluate_kernel", {"source": "# next"}))
    assert after["status"] == "correct"

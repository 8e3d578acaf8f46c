"""A real server with its real workers, ended in the middle of two evaluations: nothing of it may live on."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hawkeye_bench.processes import tree
from raw_server import PATIENCE_S, REAL, raw

HOSTILE = Path(__file__).parent / "hostile"


def start_ticks(pid: int) -> int | None:
    """When a process started, which tells it from a later one of the same number; None when it has ended.

    One that has ended may wait a while for init to take note.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def until(condition: Callable[[], bool]) -> None:
    """Wait for what the kernel does on its own, such as the end of a killed process."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_ended_while_it_traces_and_verifies_leaves_no_process_and_no_folder(tmp_path: Path, number):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    arguments = ("--workload", "12p_RMSNorm")
    with raw(tmp_path, *arguments, program=REAL, TMPDIR=str(temporary)) as server:
        server.initialize()
        # One is being verified without end in a worker, then another is traced without end in a sandbox.
        for call, (file, stage) in enumerate((("endless_run", "verify"), ("infinite_loop", "trace")), start=2):
            server.call(call, "evaluate_kernel", source=(HOSTILE / f"{file}.py").read_text())
            server.until(lambda m, call=call, stage=stage: _progress(m) == (call, stage))
        pid = server.process.pid
        until(lambda: all(any(word in command_line(p) for p in tree(pid)) for word in ("verifier", "tracer.py")))
        alive = {p: start_ticks(p) for p in tree(pid)}
        assert len([p for p in alive if "hawkeye_mcp.judge.service" in command_line(p)]) >= 2
        assert list(temporary.iterdir())
        os.kill(pid, number)
        assert server.process.wait(PATIENCE_S) == (-number if number == signal.SIGKILL else 128 + number)
        until(lambda: not [p for p, started in alive.items() if started is not None and start_ticks(p) == started])
        until(lambda: not list(temporary.iterdir()))
        if number == signal.SIGTERM:
            assert [line["outcome"] for line in server.logged("call_end")] == ["cancelled"] * 2


def _progress(message: dict) -> tuple[int, str] | None:
    if message.get("method") != "notifications/progress":
        return None
    return message["params"]["progressToken"], message["params"].get("message")

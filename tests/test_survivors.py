"""A real server with its real workers, ended in the middle of two evaluations: nothing of it may live on."""

import os
import signal
from pathlib import Path

import pytest
from families import ended, family, until
from raw_server import PATIENCE_S, REAL, raw

HOSTILE = Path(__file__).parent / "hostile"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_ended_while_it_traces_and_verifies_leaves_no_process_and_no_folder(tmp_path: Path, number):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    arguments = ("--workload", "12p_RMSNorm")
    with raw(tmp_path, *arguments, program=REAL, TMPDIR=str(temporary)) as server:
        server.initialize("hawkeye-bench")  # so that both calls are waited for until the end comes
        # One is being verified without end in a worker, then another is traced without end in a sandbox.
        for call, (file, stage) in enumerate((("endless_run", "verify"), ("infinite_loop", "trace")), start=2):
            server.call(call, "evaluate_kernel", source=(HOSTILE / f"{file}.py").read_text(), wait_s=280)
            server.until(lambda m, call=call, stage=stage: _progress(m) == (call, stage))
        pid = server.process.pid
        alive = family(pid, "service verifier", "service compiler", "tracer.py")
        assert list(temporary.iterdir())
        os.kill(pid, number)
        assert server.process.wait(PATIENCE_S) == (-number if number == signal.SIGKILL else 128 + number)
        until(lambda: ended(alive))
        until(lambda: not list(temporary.iterdir()))
        if number == signal.SIGTERM:
            assert [line["outcome"] for line in server.logged("call_end")] == ["cancelled"] * 2


def _progress(message: dict) -> tuple[int, str] | None:
    if message.get("method") != "notifications/progress":
        return None
    return message["params"]["progressToken"], message["params"].get("message")

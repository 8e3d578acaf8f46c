"""The command itself with the real judge: a whole run, and a stop in the middle of one."""

import json
import os
import signal
import subprocess
import sys

from families import ended, family, until

COMMAND = [sys.executable, "-m", "hawkeye_bench.cli", "--workloads", "12p_RMSNorm", "--max-evaluations", "1"]


def test_a_run_with_the_builtin_optimiser_ends_in_a_predicted_speedup_and_is_not_done_twice(tmp_path):
    command = [*COMMAND, "--out", str(tmp_path / "out")]
    env = os.environ | {"COLUMNS": "200"}
    first = subprocess.run(command, capture_output=True, text=True, env=env, timeout=900)
    assert first.returncode == 0, first.stdout + first.stderr
    record = tmp_path / "out" / "12p_RMSNorm" / "none" / "1" / "run.json"
    run = json.loads(record.read_text())
    assert (run["status"], run["source"], run["evaluations"]) == ("correct", "predicted", 1)
    assert run["model"] == "builtin optimiser (not a language model)"
    # 1.07 GB at 820 GB/s: no kernel can be faster, and this one streams.
    assert 1300 < run["candidate_us"] < 2600
    assert "not a language model" in first.stdout
    assert f"{run['speedup']:.3f}x predicted" in first.stdout
    assert str(tmp_path / "out") in first.stdout
    assert run["isolation"] in ("bubblewrap", "rlimits")
    assert len(run["artifact_sha256"]) == 64
    assert run["baseline_method"]
    assert f"{run['speedup']:.3f}x predicted" in (tmp_path / "out" / "summary.md").read_text()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["runs"] == [run]

    before = record.read_bytes()
    again = subprocess.run(command, capture_output=True, text=True, env=env, timeout=900)
    assert again.returncode == 0
    assert "1 runs are finished already; 0 to do" in again.stdout
    assert record.read_bytes() == before


def test_ctrl_c_leaves_a_folder_that_can_go_on_and_no_process(tmp_path):
    command = [*COMMAND, "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that were started in the background may have been told to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as bench:
        for line in bench.stdout:
            if "evaluate_kernel" in line:
                break
        started = family(bench.pid, "hawkeye_bench.worker", "hawkeye_mcp.server")
        os.killpg(bench.pid, signal.SIGINT)  # as a terminal does: everyone in the foreground group gets it
        rest = bench.stdout.read()
    assert bench.returncode == 130
    assert "1 runs are still to do. To go on:" in rest
    until(lambda: ended(started))  # killed, some need a moment to end
    folder = tmp_path / "out" / "12p_RMSNorm" / "none" / "1"
    assert (folder / "calls.jsonl").exists()
    assert not (folder / "run.json").exists()

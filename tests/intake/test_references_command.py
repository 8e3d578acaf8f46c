"""`hawkeye references`."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from hawkeye_mcp.cli import app

SOFTMAX = Path(__file__).parent / "jobs" / "scaled_softmax.cu"


def hawkeye(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["references", *map(str, arguments)])


def test_facts_for_programs():
    found = hawkeye(SOFTMAX, "--json")
    assert found.exit_code == 0
    (told,) = json.loads(found.stdout)
    assert (told["path"], told["languages"]) == (str(SOFTMAX), ["cuda"])
    assert [launch["block"] for launch in told["launches"]] == [[{"text": "THREADS", "value": 256}]]
    by_name = {one["name"]: one for one in told["mechanisms"]}
    assert by_name["block_reduction"]["tpu_counterpart"] == "jnp.sum or jnp.max"
    assert by_name["block_synchronisation"]["tpu_counterpart"] is None
    assert "online_softmax" not in by_name


def test_facts_for_people():
    text = hawkeye(SOFTMAX).stdout
    assert "kernel, lines 6-33: __global__ void scaled_softmax(" in text
    assert "launch, line 36: scaled_softmax, grid rows, block THREADS = 256\n" in text
    assert "block_synchronisation, line 14, 17, 20, 25, 28: on a TPU none." in text


def test_shared_memory_of_a_launch_is_told_and_no_text_of_a_file_acts_on_the_terminal(tmp_path):
    (tmp_path / "k.cu").write_text("__global__ void k(int \x1b[8m a) {}\nint main() { k<<<1, 64, 48 * 1024>>>(0); }\n")
    text = hawkeye(tmp_path / "k.cu").stdout
    assert "grid 1, block 64, dynamic shared memory 48 * 1024 = 49152 bytes" in text
    assert "\x1b" not in text
    assert "int \N{REPLACEMENT CHARACTER}[8m a" in text


def test_a_file_without_a_kernel_ends_with_3(tmp_path):
    (tmp_path / "plain.cu").write_text("int x;")
    found = hawkeye(SOFTMAX, tmp_path / "plain.cu", "--json")
    assert found.exit_code == 3
    assert [len(one["kernels"]) for one in json.loads(found.stdout)] == [1, 0]
    assert "plain.cu: no kernel found" in found.stderr


def test_a_file_that_cannot_be_read_ends_with_2(tmp_path):
    found = hawkeye(tmp_path / "missing.cu")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "there is no such file" in " ".join(found.stderr.split())

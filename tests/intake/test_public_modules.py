"""Modules of torch.nn as anybody has them, through `hawkeye job import`, to a kernel that the judge finds correct."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
JOBS = {name: HERE / "public" / f"{name}.json" for name in ("rms_norm", "conv_stack", "transformer_block")}
JOBS["gated_mlp"] = HERE / "jobs" / "gated_mlp.json"
# One slip for each: it must not pass for the module's computation.
WRONG = {
    "rms_norm": (" * weight_ref[...].astype(jnp.float32)", ""),
    "conv_stack": ("enumerate(TAPS)", "enumerate(TAPS[:8])"),
    "transformer_block": ("query * each**-0.5", "query"),
    "gated_mlp": ("gate * jax.nn.sigmoid(gate)", "jax.nn.sigmoid(gate)"),
}


def hawkeye(*arguments: object) -> tuple[int, dict]:
    done = subprocess.run(
        [sys.executable, "-m", "hawkeye_mcp.cli", *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_module_of_torch_becomes_a_workload_whose_kernels_are_judged(tmp_path, name):
    code, imported = hawkeye("job", "import", JOBS[name], "--dir", tmp_path)
    assert (code, imported["route"]) == (0, "torchax"), imported
    passed = {gate["name"]: gate["message"] for gate in imported["gates"]}
    assert passed["same program"] == "identical at full size, identical at check size"
    assert ("source" in passed) == (name == "rms_norm"), "the job of that one asks to be compared with"
    assert ("hawkeye compare" in imported["next_steps"][-1]) == ("source" in passed)
    kernel = (HERE / "public" / "kernels" / f"{name}.py").read_text()
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(kernel)
    assert WRONG[name][0] in kernel
    wrong.write_text(kernel.replace(*WRONG[name]))
    code, found = hawkeye("evaluate", "--workload", imported["folder"], "--kernel", right)
    assert (code, found["status"]) == (0, "correct"), found["message"]
    assert found["timing"]["source"] == "predicted"
    assert found["timing"]["speedup"] > 0.1
    code, found = hawkeye("evaluate", "--workload", imported["folder"], "--kernel", wrong)
    assert (code, found["status"]) == (1, "incorrect"), found["message"]

"""A whole import: a JAX function of one's own to a workload folder, through every gate, or to nothing at all."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import job_files
import numpy as np
import pytest
from job_files import JOBS, changed
from mcp import Client, StdioServerParameters
from raw_server import FAKE
from serving import data, text
from typer.testing import CliRunner

from hawkeye_mcp import pool, workloads
from hawkeye_mcp.cli import app
from hawkeye_mcp.intake import gate, importing, rules, written
from hawkeye_mcp.intake.beside import beside
from hawkeye_mcp.intake.capture import Capture, CaptureFailed
from hawkeye_mcp.intake.imported import GateFailed, Imported
from hawkeye_mcp.runs import store

SOURCE = """
import jax
import jax.numpy as jnp
import numpy as np

ROWS, WIDTH = 32, 256
TABLE = np.linspace(0.5, 1.5, 64, dtype=np.float32) ** 2  # an array of the program's own


def workload(x, ids, scale):
    picked = x[ids].astype(jnp.float32)
    normed = picked * jax.lax.rsqrt(jnp.mean(picked * picked, axis=-1, keepdims=True) + 1e-5)
    return (normed * jnp.tile(TABLE, picked.shape[1] // 64)).astype(x.dtype) * scale


def get_inputs(seed=0):
    one, two, three = jax.random.split(jax.random.key(seed), 3)
    return [
        jax.random.normal(one, (ROWS, WIDTH)).astype(jnp.bfloat16),
        jax.random.permutation(two, ROWS).astype(jnp.int32),
        (1 + 0.2 * jax.random.normal(three, (WIDTH,))).astype(jnp.bfloat16),
    ]
"""
KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(x_ref, table_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    normed = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    out_ref[...] = (normed * table_ref[...] * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)


def workload(x, ids, scale, table):
    picked = x[ids]
    width = x.shape[1]
    rows = min(32, x.shape[0])
    row = pl.BlockSpec((1, width), lambda i: (0, 0))
    block = pl.BlockSpec((rows, width), lambda i: (i, 0))
    return pl.pallas_call(
        _kernel, grid=(x.shape[0] // rows,), in_specs=[block, row, row], out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(picked, jnp.tile(table, width // 64)[None], scale[None])
"""


def job(folder: Path, source: str = SOURCE, **fields: Any) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "norm.py").write_text(source)
    told = {
        "schema": "hawkeye.job/1",
        "name": "picked_norm",
        "description": "Rows picked by ids, normalised.",
        "input": {"type": "jax", "path": "norm.py"},
        "has_reference": False,
        "needs_jax_conversion": False,
        "sizes": {"full": {"ROWS": 128, "WIDTH": 512}, "check": {"ROWS": 32, "WIDTH": 256}},
        **fields,
    }
    (folder / "job.json").write_text(json.dumps(told))
    return folder / "job.json"


def imported(path: Path, into: Path, progress: Callable[[str], None] = lambda _: None) -> Imported:
    return anyio.run(importing.run, rules.load(path), into, progress)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder, moved away from where it was made, and what the command said."""
    folder = tmp_path_factory.mktemp("import")
    done = CliRunner().invoke(app, ["job", "import", str(job(folder / "job")), "--dir", str(folder / "here"), "--json"])
    assert done.exit_code == 0, done.output
    (folder / "elsewhere").mkdir()
    (folder / "here" / "picked_norm").rename(folder / "elsewhere" / "picked_norm")
    assert not list((folder / "here").iterdir())
    return folder / "elsewhere" / "picked_norm", json.loads(done.stdout)


def test_every_gate_was_passed_and_tells_its_figures(made: tuple[Path, dict[str, Any]]) -> None:
    _, said = made
    names = [one["name"] for one in said["gates"]]
    assert names == ["capture", "emit", "same program", "verify_folder", "check", "oracle"]
    by_name = {one["name"]: one for one in said["gates"]}
    assert by_name["same program"]["message"] == "identical at full size, identical at check size"
    assert by_name["verify_folder"]["message"].startswith(f"{3 * 32 * 256} results as recorded")
    assert 0 < by_name["check"]["figures"]["honest, jitted"] < 0.01
    assert by_name["oracle"]["figures"]["E"] < 1e-6
    assert said["route"] == "jax"
    assert said["survivors"] == []


def test_the_declaration_says_what_the_program_takes(made: tuple[Path, dict[str, Any]]) -> None:
    found = workloads.find(f"{made[0]}/")
    assert found.family == "imported"
    assert found.sizes == {"full": {"ROWS": 128, "WIDTH": 512}, "check": {"ROWS": 32, "WIDTH": 256}}
    assert [(array.name, array.shape, array.dtype) for array in found.inputs] == [
        ("x", ("ROWS", "WIDTH"), "bfloat16"),
        ("ids", ("ROWS",), "int32"),
        ("scale", ("WIDTH",), "bfloat16"),
        ("constant", (64,), "float32"),
    ]
    assert found.inputs[1].what == "(always the values that were recorded, each in [0, 127])"
    assert found.outputs[0].shape == ("ROWS", "WIDTH")
    assert found.least_bytes == 2 * 128 * 512 * 2 + 128 * 4 + 512 * 2 + 64 * 4
    assert found.flops > 128 * 512 * 5
    assert found.baseline is None
    assert found.tolerance.metric == "E"
    assert found.tolerance.limit == 0.01


def test_a_host_would_take_it(made: tuple[Path, dict[str, Any]]) -> None:
    assert written.check(made[0]) == ["workload.py", "workload.toml", "workload.npz"]


def test_agents_see_the_program_and_neither_draws_nor_oracle(made: tuple[Path, dict[str, Any]]) -> None:
    shown = workloads.statement(workloads.find(f"{made[0]}/"))
    assert "def workload(x, ids, scale, constant):\n    WIDTH = x.shape[1]\n    ROWS = ids.shape[0]" in shown or (
        "def workload(x, ids, scale, constant):\n    ROWS = x.shape[0]\n    WIDTH = x.shape[1]" in shown
    )
    assert "float32[ROWS, WIDTH]" in shown
    assert "create_inputs" not in shown
    assert "workload.npz" not in shown


def test_arrays_that_are_kept_count_for_verdicts_and_checks(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = made
    with np.load(folder / "workload.npz") as arrays:
        assert sorted(arrays) == ["check/ids", "constant", "full/ids"]
        assert sorted(arrays["full/ids"]) == list(range(128))
        np.testing.assert_array_equal(arrays["constant"], np.linspace(0.5, 1.5, 64, dtype=np.float32) ** 2)
    copy = tmp_path / "picked_norm"
    subprocess.run(["cp", "-r", folder, copy], check=True)
    before = pool.fingerprint(workloads.find(f"{copy}/"))
    assert before == pool.fingerprint(workloads.find(f"{folder}/"))
    (copy / "workload.npz").write_bytes((copy / "workload.npz").read_bytes() + b" ")
    assert pool.fingerprint(workloads.find(f"{copy}/")) != before


def test_the_source_is_there_for_people(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    assert (folder / "source" / "norm.py").read_text() == SOURCE
    assert rules.check(folder / "job.json").valid
    assert not list(folder.rglob("__pycache__"))
    assert "source/" in workloads.find(f"{folder}/").source


def test_a_kernel_is_judged_against_it(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(KERNEL)
    done = CliRunner().invoke(app, ["evaluate", "--workload", f"{made[0]}/", "--kernel", str(kernel), "--json"])
    said = json.loads(done.stdout)
    assert said["status"] == "correct", done.output
    assert said["timing"]["source"] == "predicted"


PORT = """
import jax
import jax.numpy as jnp

def workload(x, ids, scale):
    picked = x[ids].astype(jnp.float32)
    table = jnp.linspace(0.5, 1.5, 64, dtype=jnp.float32) ** 2
    normed = picked / jnp.sqrt(jnp.mean(picked * picked, axis=-1, keepdims=True) + 1e-5)
    return (normed * jnp.tile(table, picked.shape[1] // 64)).astype(x.dtype) * scale
"""
CANDIDATE = "# fake: speedup 2\nROWS = 32\n"


@pytest.mark.anyio
async def test_an_agent_works_on_it_with_every_tool_of_one_server(
    made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Job, run and workload at once, over stdio: the judge is a stand-in, the port's gate is real."""
    folder, _ = made
    declared = json.loads((folder / "job.json").read_text()) | {"budget": {"evaluations": 2, "autotune_points": 3}}
    (folder / "job.json").write_text(json.dumps(declared))
    run = store.create(tmp_path / "run", workloads.find(f"{folder}/"), "v5e")
    (tmp_path / "workspace").mkdir()
    program, *options = [
        *FAKE, "--job", str(folder / "job.json"), "--run", run.folder, "--workspace", str(tmp_path / "workspace"),
        "--state", str(tmp_path / "state"),
    ]  # fmt: skip
    with anyio.fail_after(900):
        async with Client(StdioServerParameters(command=program, args=options)) as client:

            async def call(tool: str, **given: str) -> dict[str, Any]:
                found = data(await client.call_tool(tool, given))
                while found["status"] == "running" if "status" in found else False:
                    found = data(await client.call_tool("job", {"job_id": found["job_id"]}))
                return found

            assert {"verify_port", "reference_facts", "ideas", "run_state", "autotune"} <= {
                tool.name for tool in (await client.list_tools()).tools
            }
            assert "def workload(x, ids, scale, constant)" in text(await client.call_tool("read_workload", {}))
            port = await call("verify_port", source=PORT)
            assert (port["status"], port["workload"]) == ("agrees", "picked_norm"), port
            said = {"claim": "Rows of 64", "evidence": "none", "kind": "STRUCTURAL", "falsifiable_as": "no faster"}
            await call("ideas", action="propose", **said)
            await call("ideas", action="adopt", idea="idea-1")
            judged = await call("evaluate_kernel", source=CANDIDATE)
            assert (judged["status"], judged["workload"], judged["evaluations_left"]) == ("correct", "picked_norm", 1)
            await call("ideas", action="confirm", idea="idea-1", evaluation_id=judged["evaluation_id"])
            tuned = await call("autotune", source=CANDIDATE, space='{"ROWS": [16, 32, 64, 128]}', strategy="grid")
            assert (tuned["stopped_by"], tuned["counts"]) == ("budget", {"predicted": 3})
            state = await call("run_state")
            again = await call("evaluate_kernel", source="# fake: incorrect")
            spent = await call("evaluate_kernel", source="# fake: incorrect, and another")
    assert (state["workload"], state["by_idea_status"]) == ("picked_norm", {"confirmed": 1})
    assert state["best_predicted"]["evaluation_id"] == judged["evaluation_id"]
    assert (state["evaluations"], again["status"], spent["status"]) == (1, "incorrect", "budget_spent")


def test_a_module_that_does_not_run_at_full_size_is_not_imported_to_be_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded at the check size alone it may have been; `hawkeye compare` runs it at full size."""
    asked: list[str] = []

    async def capture(job: Any, folder: Path, progress: Any) -> Capture:
        return Capture(source_sha256="", route="torchax", versions={}, sizes={}, trials=3)

    async def timed(job: Any, progress: Any) -> None:
        asked.append(job.input.path)
        raise CaptureFailed("too_big", "It needs more memory.", "Make it smaller.")

    monkeypatch.setattr("hawkeye_mcp.intake.capture.capture", capture)
    monkeypatch.setattr("hawkeye_mcp.intake.capture.timed", timed)
    declared = changed(JOBS["pytorch"], {"evaluation.compare_against_source": True})
    with pytest.raises(GateFailed) as stopped:
        imported(job_files.write(tmp_path, declared), tmp_path / "into")
    assert (stopped.value.gate, asked) == ("source", [str(tmp_path / "torch_module.py")])
    assert "It needs more memory." in str(stopped.value)
    assert "set evaluation.compare_against_source to false" in stopped.value.fix
    assert not (tmp_path / "into").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "picked_norm").mkdir()
    (tmp_path / "picked_norm" / "mine").write_text("mine")
    with pytest.raises(GateFailed, match="exists, and nothing is overwritten") as failed:
        imported(job(tmp_path / "job"), tmp_path)
    assert failed.value.gate == "write"
    assert (tmp_path / "picked_norm" / "mine").read_text() == "mine"


def test_a_failed_gate_leaves_nothing_and_says_which(tmp_path: Path) -> None:
    path = job(tmp_path / "job", SOURCE.replace("jax.lax.rsqrt(", "undefined("))
    done = CliRunner().invoke(app, ["job", "import", str(path), "--dir", str(tmp_path / "a" / "b"), "--json"])
    assert done.exit_code == 1
    said = json.loads(done.stdout)["stopped"]
    assert said["gate"] == "capture"
    assert "undefined" in said["message"]
    assert said["fix"]
    assert not (tmp_path / "a").exists()


ENDING = """
import os, signal, sys
from pathlib import Path
import typer
from hawkeye_mcp.commands import running
from hawkeye_mcp.intake import importing, rules

def at(stage):
    if stage.startswith(sys.argv[3]):
        os.kill(os.getpid(), getattr(signal, sys.argv[4]))

try:
    running.judged(lambda _: importing.run(rules.load(Path(sys.argv[1])), Path(sys.argv[2]), at), stopped="nothing")
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""


def ended(tmp_path: Path, stage: str, by: str) -> subprocess.CompletedProcess[str]:
    path = job(tmp_path / "job")
    command = [sys.executable, "-c", ENDING, str(path), str(tmp_path / "into"), stage, by]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


@pytest.mark.parametrize(
    "stage",
    [
        "capture",
        pytest.param("tracing", marks=pytest.mark.slow),
        pytest.param("write", marks=pytest.mark.slow),
        pytest.param("compare", marks=pytest.mark.slow),
        pytest.param("run the written", marks=pytest.mark.slow),
        pytest.param("measure", marks=pytest.mark.slow),
        pytest.param("check with", marks=pytest.mark.slow),
    ],
)
def test_a_signal_at_any_stage_leaves_nothing(tmp_path: Path, stage: str) -> None:
    done = ended(tmp_path, stage, "SIGTERM")
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert not (tmp_path / "into").exists()


def test_what_a_killed_import_left_goes_with_the_next(tmp_path: Path) -> None:
    done = ended(tmp_path, "capture", "SIGKILL")
    assert done.returncode == -signal.SIGKILL
    (left,) = (tmp_path / "into").iterdir()
    assert not workloads._NAME.fullmatch(left.name)
    mine = tmp_path / "into" / f".importing-{os.getpid()}-x"  # of an import that still runs
    mine.mkdir()
    with beside(tmp_path / "into" / "other") as scratch:
        assert set((tmp_path / "into").iterdir()) == {mine, scratch}
    assert list((tmp_path / "into").iterdir()) == [mine]


def test_the_gate_follows_from_what_right_programs_score() -> None:
    def figures(**scores: tuple[float | None, float | None]) -> dict[str, Any]:
        honest = {name: {"E": e, "R": r} for name, (e, r) in scores.items()}
        return {"axis": 1, "honest": honest, "products": "products" in scores}

    wide, row, *rest = gate.candidates(figures(xla=(0.002, 0.004)), True, 0.1, 0.2)
    assert (wide.gate, row.gate) == ("E <= 0.01", "R <= 0.02")
    assert (wide.axis, wide.rtol, wide.atol) == (1, 0.1, 0.2)
    assert "scores 0.002 xla; the limit is 3 times" in wide.reason
    assert rest == []
    assert [g.gate for g in gate.candidates(figures(xla=(0.0, 1e-6)), False, 1, 1)] == ["E <= 0.0001", "R <= 0.0001"]
    of_products = gate.candidates(figures(xla=(0.0, 0.0), products=(0.001, None)), False, 1, 1)
    assert [g.gate for g in of_products] == ["E <= 0.01", "E <= 0.005"]
    unrounded = gate.candidates(figures(xla=(0.0, 0.0), products=(0.4, 0.9)), False, 1, 1)
    assert unrounded[0].gate == "E <= 0.0001"
    assert "a kernel must not round them" in unrounded[0].reason
    assert gate.candidates(figures(xla=(0.3, None)), True, 1, 1) == []
    assert [gate.rounded_up(value) for value in (0.0021, 0.002, 0.00051, 0.06, 9)] == [0.005, 0.002, 0.001, 0.1, 10]

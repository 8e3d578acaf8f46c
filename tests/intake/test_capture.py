"""The process that runs a person's program: what it is kept from, how it ends, and what is told of it."""

import os
import socket
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from capturing import captured, jax_source, run
from families import until
from port_records import record

from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.intake import capture as capturing
from hawkeye_mcp.intake.capture import Capture, CaptureFailed, Kept, Limits, Normal, Uniform, capture
from hawkeye_mcp.intake.job import Job

GOOD = """
import jax, jax.numpy as jnp
B, D = 4, 32
WIDE: int = D * 2

def get_inputs():
    keys = jax.random.split(jax.random.key(0))
    x = jax.random.normal(keys[0], (B, D), jnp.bfloat16)
    return [x, {"scale": jnp.ones(D), "up": jax.random.uniform(keys[1], (D, WIDE))}, jnp.arange(B) % 3, 1e-5]

def workload(x, params, rows, eps):
    print("told by the program")
    wide = x.astype(jnp.float32)
    y = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps) * params["scale"]
    return y @ params["up"], y[rows].astype(x.dtype)
"""


def job(folder: Path, text: str, *, kind: str = "jax", **sizes: Any) -> Job:
    (folder / "source.py").write_text(text, encoding="utf-8")
    declared = {
        "schema": "hawkeye.job/1", "name": "mine", "input": {"type": kind, "path": str(folder / "source.py")},
        "has_reference": False, "needs_jax_conversion": kind == "pytorch", "sizes": sizes or {"full": {}},
        "conversion": {"method": "torchax" if kind == "pytorch" else "none"},
    }  # fmt: skip
    return Job.model_validate(declared)


# Lines where the process itself says how it goes.
FORGED = """
import os
for file in range(3, 20):
    try:
        os.write(file, b'no JSON\\n3\\n{"stage": 3}\\n{"failed": {"kind": "x"}}\\n')
    except OSError:
        pass
os._exit(0)
"""


async def failure(folder: Path, text: str, limits: Limits | None = None, **more: Any) -> CaptureFailed:
    with pytest.raises(CaptureFailed) as failed:
        await capture(job(folder, text, **more), folder / "out", limits=limits)
    until(lambda: not left(folder))  # killed, some need a moment to end
    assert not (folder / "out" / "capture.json").exists()
    return failed.value


def left(folder: Path) -> list[str]:
    """Command lines of processes that speak of this folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.anyio
async def test_a_jax_function_is_recorded_though_it_prints(tmp_path: Path) -> None:
    stages: list[str] = []
    found = await capture(job(tmp_path, GOOD, full={"B": 128, "D": 256}, check={}), tmp_path / "out", stages.append)
    assert found == Capture.model_validate_json((tmp_path / "out/capture.json").read_text())
    assert len(stages) == 3
    until(lambda: not left(tmp_path))
    check, full = found.sizes["check"], found.sizes["full"]
    assert [(a.name, a.shape) for a in full.arrays] == [
        ("x", (128, 256)), ("params_scale", (256,)), ("params_up", (256, 512)), ("rows", (128,)),
    ]  # fmt: skip
    assert {a.role for a in full.arrays} == {"input"}
    assert [o.dtype for o in check.outputs] == ["float32", "bfloat16"]
    x, scale, up, rows = (a.draw for a in full.arrays)
    # inputs of one fixed key are still of chance
    assert isinstance(x, Normal) and x.std == pytest.approx(1, abs=0.2)
    assert scale == Normal(mean=1, std=0.1)
    assert isinstance(up, Uniform) and (up.low, up.high) == pytest.approx((0, 1), abs=0.01)
    assert rows == Kept(key="full/0/in/rows")
    with np.load(tmp_path / "out/goldens.npz") as file:
        goldens = dict(file)
    assert goldens["full/0/in/rows"].tolist() == [n % 3 for n in range(128)]
    assert goldens["check/2/in/x"].dtype == np.uint16
    for trial in range(3):
        first, second = run(found, goldens, trial)
        np.testing.assert_allclose(first, goldens[f"check/{trial}/out/0"], rtol=1e-5, atol=1e-6)
        assert np.array_equal(second.view(np.uint16), goldens[f"check/{trial}/out/1"])
    assert any("stay in float32" in note for note in found.notes)
    assert found.route == "jax"
    assert found.deterministic


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "told", "output"),
    [
        ("print('before')\nimport os\nos._exit(7)", "ended by itself with exit code 7", "before"),
        ("import os\nos.write(2, b'oh no')\nos.abort()", "died of SIGABRT", "oh no"),
        ("print('spoken')\n1 / 0", "source.py line 2, in <module>: ZeroDivisionError", "spoken"),
        ("import sys\nsys.exit(3)", "it ends the process (sys.exit, code 3)", ""),
        ("import threading\nthreading.Event().wait()", "was ended", ""),
        ("import numpy\nnumpy.ones((1 << 20, 1 << 20))", "not enough memory", ""),
        ("def f(:", "cannot be read: invalid syntax", ""),
        (FORGED, "ended by itself with exit code 0", ""),
    ],
)
async def test_whatever_the_program_does_is_told(text: str, told: str, output: str, tmp_path: Path) -> None:
    failed = await failure(tmp_path, text, Limits(wall_s=600 if "wait" not in text else 3))
    assert failed.kind == ("too_big" if "memory" in told else "source_fails")
    assert told in failed.message
    assert output in failed.output
    assert failed.fix


@pytest.mark.anyio
async def test_cancelling_ends_the_process(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        await capture(
            job(tmp_path, "import threading\nthreading.Event().wait()"), tmp_path / "out", lambda stage: scope.cancel()
        )
    assert scope.cancelled_caught
    until(lambda: not left(tmp_path))


@pytest.mark.anyio
@pytest.mark.skipif(isolation.isolation() != "bubblewrap", reason="bubblewrap does not work here")
async def test_the_program_has_no_network_and_changes_no_file(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = f"""
import socket
for attempt in (lambda: socket.create_connection({server.getsockname()!r}), lambda: open(__file__, "a")):
    try:
        attempt()
        print("done", attempt)
    except OSError as error:
        print("held back", error)
raise ValueError
"""
        failed = await failure(tmp_path, text)
    assert failed.output.count("held back") == 2, failed.output
    assert "done" not in failed.output
    failed = await failure(tmp_path, "open(__file__, 'a')")
    assert "tempfile" in failed.fix


@pytest.mark.anyio
@pytest.mark.parametrize("absent", ["torch", "torchax"])
async def test_without_pytorch_the_command_that_brings_it_is_told(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hidden").mkdir()
    hidden = f"raise ModuleNotFoundError('No module named {absent}', name='{absent}')"
    (tmp_path / "hidden" / f"{absent}.py").write_text(hidden)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hidden"))
    failed = await failure(tmp_path, "import torch", kind="pytorch")
    assert failed.kind == "torch_missing"
    assert f"{absent} cannot be imported here: No module named" in failed.message
    assert failed.fix.endswith("-m pip install torch==2.13.0 torchax==0.0.13")


# --- sizes, in this process

SIZED = (
    "name = 'größer'; N = 8\nDEPTH, LAYERS = 2, 3; E = 2 * N\nEPS: float = 1e-5\n"
    + """
import jax.numpy as jnp
def get_inputs():
    return [jnp.arange(float(N)) ** 2] * DEPTH + [jnp.zeros((E, LAYERS)[:RANK])]
def workload(*xs):
    return sum(x.sum() for x in xs) + EPS
RANK = 2
"""
)


def test_constants_are_replaced_and_what_hangs_on_them_follows(tmp_path: Path) -> None:
    found, goldens = captured(tmp_path, SIZED, **jax_source(check={"N": 5, "LAYERS": 7, "EPS": 100.0}))
    assert [a.shape for a in found.sizes["check"].arrays] == [(5,), (5,), (10, 7)]
    drawn = sum(goldens[f"check/0/in/{a.name}"].sum() for a in found.sizes["check"].arrays)
    assert goldens["check/0/out/0"] == pytest.approx(drawn + 100, rel=1e-5)


@pytest.mark.parametrize(
    ("full", "told"),
    [
        (
            {"M": 3, "name": 4},
            "names M, name, but model.py has no such number at its top level; it has N = 8, DEPTH = 2",
        ),
        ({"DEPTH": 3}, "input_3 (float32, 2 axes)"),
        ({"RANK": 1}, "input_2 (float32, 2 axes), input_2 (float32, 1 axes)"),
    ],
)
def test_sizes_that_do_not_fit_the_source(full: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureFailed) as failed:
        captured(tmp_path, SIZED, **jax_source(full=full))
    assert failed.value.kind == "bad_sizes"
    assert told in failed.value.message


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("no_entry_point", "def other(x): return x", "it defines other, get_inputs"),
        ("non_deterministic", "import random\ndef workload(x): return x * random.random()", "12 of 12 elements"),
        ("source_fails", "def workload(x): return x / 0 * 0", "NaN or infinite in every element"),
        ("source_fails", "def workload(x): return x if x.sum() > 0 else -x", "TracerBoolConversionError"),
        ("source_fails", "def workload(x): return ()", "returns no array"),
        ("not_convertible", "import jax\ndef workload(x): return jax.pure_callback(abs, x, x)", "pure_callback"),
        (
            "not_convertible",
            "from jax.experimental import pallas as pl\ndef copy(x, y): y[...] = x[...]\n"
            "def workload(x): return pl.pallas_call(copy, out_shape=x)(x)",
            "'pallas_call'",
        ),
    ],
)
def test_functions_that_cannot_be_recorded(kind: str, text: str, told: str, tmp_path: Path) -> None:
    inputs = "\nimport numpy as np\ndef get_inputs(): return [np.random.randn(3, 4)]\n"
    with pytest.raises(CaptureFailed) as failed:
        captured(tmp_path, text + inputs, **jax_source())
    assert failed.value.kind == kind, failed.value.message
    assert told in failed.value.message
    assert os.sep + "hawkeye_mcp" not in failed.value.message


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "instead"), [('"name": "x"', '"name": "x\\nimport os"'), ('"float32"', '"float32)+f("')]
)
async def test_a_program_that_writes_the_record_itself_puts_no_text_into_a_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, instead: str
) -> None:
    honest = record(tmp_path / "honest").model_dump_json().replace('":', '": ')

    async def forges(job: Job, folder: Path, *_: Any) -> None:
        assert said in honest
        (folder / "capture.json").write_text(honest.replace(said, instead))

    monkeypatch.setattr(capturing, "_ask", forges)
    with pytest.raises(CaptureFailed, match="does not read"):
        await capture(job(tmp_path, GOOD), tmp_path / "out")

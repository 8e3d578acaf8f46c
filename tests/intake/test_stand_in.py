"""A JAX file that stands for a program: only what its sandbox says, as data, becomes what is recorded."""

import hashlib
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import job_files
import numpy as np
import pytest
from capturing import jax_source
from job_files import JOBS, REMOVED, changed

from hawkeye_mcp.candidate import isolation, tracer
from hawkeye_mcp.candidate.sandbox import Ended
from hawkeye_mcp.intake import importing, recording, rules, specification, stand_in
from hawkeye_mcp.intake.capture import Capture, Kept
from hawkeye_mcp.intake.imported import GateFailed
from hawkeye_mcp.intake.inside.__main__ import record
from hawkeye_mcp.intake.inside.request import Request
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.stand_in import StandIn
from hawkeye_mcp.intake.trace_port import PortRefused

TENSORS = [
    {"name": "x", "role": "input", "shape": ["ROWS", "WIDTH"], "dtype": "bfloat16"},
    {"name": "ids", "role": "input", "shape": ["ROWS"], "dtype": "int32"},
    {"name": "scale", "role": "parameter", "shape": ["WIDTH"], "dtype": "float32"},
    {"name": "normed", "role": "output", "shape": ["ROWS", "WIDTH"], "dtype": "float32"},
    {"name": "largest", "role": "output", "shape": ["ROWS"], "dtype": "int32"},
]
FILE = """
import jax
import jax.numpy as jnp
import numpy as np

ROWS, WIDTH = 3, 4; HALF = WIDTH // 2
TABLE = np.linspace(0.5, 1.5, 64, dtype=np.float32) ** 2


def workload(x, ids, scale):
    wide = x[ids].astype(jnp.float32)
    normed = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)
    assert normed.shape[1] == 2 * HALF == 2 * (WIDTH // 2)
    return normed * jnp.tile(TABLE, WIDTH // 64) * scale, jnp.argmax(x, axis=-1)
"""
GIVES = """

def get_inputs(key):
    one, two, three = jax.random.split(key, 3)
    x, scale = jax.random.normal(one, (ROWS, WIDTH)), jax.random.uniform(three, (WIDTH,))
    return [x.astype(jnp.bfloat16), np.array(jax.random.permutation(two, ROWS), np.int64), np.float64(scale)]
"""


class Here:
    """A sandbox without a process of its own. forges: makes another reply of each."""

    def __init__(self, forges: Callable[[dict[str, Any]], Any] = lambda reply: reply) -> None:
        self._forges, self._function = forges, None

    async def ask(self, request: dict[str, Any], chip: Any) -> Ended:
        request = json.loads(json.dumps(request))
        try:
            self._function = tracer.load(request["source"]) if "source" in request else self._function
            reply = tracer.answer(self._function, request)
        except tracer.Failed as failed:
            reply = {"failed": {"stage": failed.stage, **tracer.describe(failed.cause)}}
        return Ended(json.loads(json.dumps(self._forges(reply))))


def job(folder: Path, text: str, **changes: Any) -> Job:
    (folder / "stand_in.py").write_text(text, encoding="utf-8")
    inside = "input.specification"
    declared = {
        f"{inside}.reference_formula": REMOVED,
        f"{inside}.baseline": "stand_in.py",
        f"{inside}.tensors": TENSORS,
        "sizes": {"full": {"ROWS": 96, "WIDTH": 192}, "check": {"ROWS": 32, "WIDTH": 128}},
    }
    return rules.load(job_files.write(folder, changed(JOBS["specification"], {**declared, **changes})))


def taken(asked: Job, box: Any = None) -> StandIn:
    before = sys.path[:]
    try:
        return anyio.run(stand_in._Asked(asked, specification.source(asked)).all_of, box or Here())
    finally:
        sys.path[:] = before


def captured(asked: Job, folder: Path) -> tuple[Capture, dict[str, Any]]:
    """What is recorded of a job of type jax."""
    folder.mkdir()
    request = {
        "language": "jax", "path": asked.input.path, "entry": "workload", "inputs_fn": asked.input.inputs_fn,
        "init_inputs_fn": "", "convert": True, "sizes": asked.sizes, "seed": 7, "trials": 1, "folder": str(folder),
        "record_bytes": 10_000_000, "memory_bytes": 16 << 30,
    }  # fmt: skip
    found = record(Request.model_validate(jax_source(**request)), lambda stage: None)
    with np.load(folder / "goldens.npz") as file:
        return found, dict(file)


@pytest.mark.parametrize("gives", [GIVES, pytest.param("", marks=pytest.mark.slow)])
def test_what_is_recorded_of_it_is_what_the_file_itself_gives(tmp_path: Path, gives: str) -> None:
    asked = job(tmp_path, FILE + gives, **{"correctness.seed": 7, "correctness.trials": 1})
    brought = specification.as_jax(asked, tmp_path)
    of_it = taken(asked)
    assert of_it.inputs is None or not np.array_equal(of_it.inputs[7][0], of_it.inputs[8][0])
    written = recording.write(asked, brought, of_it, tmp_path / "recorded")
    assert "TABLE" not in Path(str(written.input.path)).read_text(encoding="utf-8")
    honest, expected = captured(brought, tmp_path / "honest")
    found, goldens = captured(written, tmp_path / "found")
    assert found.sizes["check"].arrays == honest.sizes["check"].arrays
    assert found.sizes["full"].arrays == honest.sizes["full"].arrays
    assert [(a.name, a.shape) for a in found.sizes["full"].arrays] == [
        ("x", (96, 192)),
        ("ids", (96,)),
        ("scale", (192,)),
    ]
    assert (found.sizes["full"].outputs, found.trials) == (honest.sizes["full"].outputs, 1)
    assert isinstance(found.sizes["full"].arrays[1].draw, Kept)
    assert (of_it.inputs is None) == (not gives)
    for key in expected:
        if "/out" not in key and "/constants/" not in key:
            np.testing.assert_array_equal(goldens[key], expected[key], err_msg=key)
    np.testing.assert_allclose(goldens["check/0/out/0"], expected["check/0/out/0"], rtol=1e-6)
    np.testing.assert_array_equal(goldens["check/0/out/1"], expected["check/0/out/1"])

    # in 64 bits throughout, although the file says float32
    x = (goldens["check/0/in/x"].astype(np.uint32) << 16).view(np.float32).astype(np.float64)[goldens["check/0/in/ids"]]
    table = np.tile((np.linspace(0.5, 1.5, 64, dtype=np.float32) ** 2).astype(np.float64), 2)
    exact = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * table * goldens["check/0/in/scale"].astype(np.float64)
    np.testing.assert_allclose(goldens["check/0/out64/0"], exact, rtol=1e-12)
    assert not any("float64" in note for note in found.notes)


def test_a_length_that_the_job_does_not_give_is_the_files_own(tmp_path: Path) -> None:
    tensors = [
        {"name": n, "role": r, "shape": ["ROWS", "W"], "dtype": "float32"} for n, r in (("x", "input"), ("y", "output"))
    ]
    text = "ROWS = 5\nW = 2 * ROWS\ndef workload(x): return x + W\n"
    sizes = {"full": {"ROWS": 6, "W": 7}, "check": {"ROWS": 8}}
    found = taken(job(tmp_path, text, **{"input.specification.tensors": tensors, "sizes": sizes}))
    assert {size: of.shapes["x"] for size, of in found.sizes.items()} == {"check": (8, 16), "full": (6, 7)}
    assert "16" in found.sizes["check"].program and "7" in found.sizes["full"].program


ONE = "def workload(x, ids, scale):\n    return x.astype('float32') + scale, ids\n"


@pytest.mark.parametrize(
    ("text", "says", "fix"),
    [
        ("1 / 0\n" + ONE, "cannot be imported: stand_in.py line 1, in <module>: ZeroDivisionError", "Run the file by itself"),
        ("open('weights.npy')\n" + ONE, "line 1, in <module>: FileNotFoundError", "without files and network"),
        ("import torch_of_mine\n" + ONE, "No module named 'torch_of_mine'", "install what it imports"),
        ("import sys\nsys.exit(3)\n" + ONE, "SystemExit: 3", "by itself"),
        (ONE.replace("ids\n", "unknown\n"), "cannot be traced: stand_in.py line 2, in workload: NameError", "Let jax.jit run it"),
        (ONE.replace("scale, ids", "scale"), "outputs declared: 2, results: 1", "jax.jit"),
        (ONE.replace("ids\n", "ids.sum()\n"), "largest is declared with the shape (32,) and comes out with ()", "jax.jit"),
        (ONE.replace("+ scale", "+ scale * __import__('random').random()"), "Two traces of stand_in.py are not one", "random"),
        (ONE.replace("ids\n", "jax.pure_callback(abs, ids, ids)\n") + "import jax\n", "pure_callback", "without it"),
        (ONE + "WIDTH = 'wide'\n", "`sizes` names WIDTH, but stand_in.py has no such number", "Name one of these"),
        (ONE + "def get_inputs(): return 3\n", "get_inputs fails", "by itself"),
        (ONE + "def get_inputs(): return [3]\n", "gives 1 arrays instead of 3", "x, ids, scale"),
        (ONE + "def get_inputs(): return [3, {}, 4]\n", "gives dict where an array is declared", "by itself"),
        (
            ONE + "import jax.numpy as np\ndef get_inputs(): return [np.ones((4, 5)), np.arange(3), 1.0]\n",
            "gives x as bfloat16 [4, 5], and it is declared as bfloat16 [32, 128]",
            "Mend the file",
        ),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_told_by_its_line(tmp_path: Path, text: str, says: str, fix: str) -> None:
    with pytest.raises(PortRefused) as refused:
        taken(job(tmp_path, text))
    assert says in refused.value.message
    assert fix in refused.value.fix


@pytest.mark.parametrize(
    ("forged", "says"),
    [
        ({"lengths": {"ROWS": "5; import os"}}, "is to be a length"),
        ({"lengths": {"ROWS": 1 << 50}}, "is to be a length"),
        ({"lengths": []}, "is to be a length"),
        ({"program": {"source": "import os\ndef workload(x, ids, scale):\n    return x\n", "constants": []}}, "is no program"),
        ({"program": {"source": "def workload(x, ids, scale):\n    return _np\n", "constants": []}}, "is no program"),
        ({"program": {"source": "def workload(x):\n    return x\n", "constants": []}}, "takes other arguments"),
        ({"program": {"source": 3, "constants": []}}, "does not read"),
        ({"program": ["x"]}, "does not read"),
        ({"inputs": [{"name": "x", "shape": [1 << 39], "dtype": "float32", "data": ""}] * 3}, "does not read"),
        ({"inputs": [{"name": "x", "shape": [1], "dtype": "object", "data": "AAAAAAAAAAA="}] * 3}, "cannot have"),
        ({"inputs": [{"name": "x", "shape": [1], "dtype": "float32", "data": "AAAAAA=="}] * 3}, "declared as bfloat16"),
    ],
)  # fmt: skip
def test_what_its_process_forges_is_refused(tmp_path: Path, forged: dict[str, Any], says: str) -> None:
    sizes = {"full": {"ROWS": 96, "WIDTH": 192}, "check": {"WIDTH": 128}}
    asked = job(tmp_path, FILE + GIVES, sizes=sizes)
    with pytest.raises(PortRefused, match=says):
        taken(asked, Here(lambda reply: {**reply, **{key: forged[key] for key in forged if key in reply}}))


def test_a_program_that_is_not_as_declared_is_not_recorded(tmp_path: Path) -> None:
    """Its own process checks that too, and may say what it likes."""
    forged = "def workload(x, ids, scale):\n    return (ids, x)\n"
    asked = job(tmp_path, FILE)
    found = taken(asked, Here(lambda reply: {**reply, "program": {"source": forged, "constants": []}}))
    written = recording.write(asked, specification.as_jax(asked, tmp_path), found, tmp_path / "recorded")
    with pytest.raises(Exception, match="its results are declared as"):
        captured(written, tmp_path / "found")


HOSTILE = """
import os, socket

attempts = {
    "read": lambda: open(SECRET).read(),
    "write": lambda: open(SECRET + ".written", "w").write("x"),
    "the package": lambda: __import__("hawkeye_mcp.intake.capture"),
    "content": lambda: os.listdir(CONTENT)[0],
    "the recorder": lambda: os.kill(RECORDER, 0),
    "network": lambda: socket.create_connection(LISTENER, 5),
    "environment": lambda: os.environ["HAWKEYE_TEST_SECRET"],
}
reached = []
for name, attempt in attempts.items():
    try:
        attempt()
        reached.append(name)
    except Exception:
        pass
raise RuntimeError(f"reached {reached}")
"""


@pytest.mark.skipif(isolation.isolation() != "bubblewrap", reason="bubblewrap does not work here")
def test_a_hostile_file_reaches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAWKEYE_TEST_SECRET", "x")
    secret, content = tmp_path / "secret", Path(stand_in.__file__).parents[1] / "taxonomy"
    secret.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = f"SECRET, CONTENT, LISTENER = {str(secret)!r}, {str(content)!r}, {server.getsockname()!r}\n"
        asked = job(tmp_path, given + f"RECORDER = {os.getpid()}\n" + HOSTILE + ONE)
        with pytest.raises(PortRefused, match="reached \\['read', 'write', .*'environment'\\]"):
            taken(asked)  # that it would all be there without a sandbox
        secret.with_name("secret.written").unlink()
        with pytest.raises(PortRefused, match=r"reached \[\]"):
            anyio.run(stand_in.taken, asked, specification.source(asked))
    assert not secret.with_name("secret.written").exists()


PATCHING = """
import sys
import numpy as np
sys.path.append("/port")
import hawkeye_mcp.intake.emit as emitting

def patched(*_, **__):
    raise RuntimeError("patched")

np.load = np.savez = np.allclose = np.isfinite = np.lib.format.write_array = patched
emit = emitting.emit

def forging(*given, **named):
    found = emit(*given, **named)
    return emitting.Emitted(found.text + TAIL, found.constants)

emitting.emit = forging

def workload(x):
    return x * 2.0
"""


@pytest.mark.slow
@pytest.mark.parametrize(("tail", "passes"), [("", True), ("import os\nos.system('touch made')\n", False)])
def test_an_import_of_a_file_that_patches_what_is_beside_it(tmp_path: Path, tail: str, passes: bool) -> None:
    tensors = [
        {"name": n, "role": r, "shape": ["ROWS", 128], "dtype": "float32"} for n, r in (("x", "input"), ("y", "output"))
    ]
    asked = job(
        tmp_path,
        f"TAIL = {tail!r}\n" + PATCHING,
        **{"input.specification.tensors": tensors, "sizes": {"full": {"ROWS": 64}}},
    )
    if not passes:
        with pytest.raises(GateFailed, match="is no program") as failed:
            anyio.run(importing.run, asked, tmp_path / "into", lambda stage: None)
        assert (failed.value.gate, (tmp_path / "into").exists()) == ("baseline", False)
        return
    made = anyio.run(importing.run, asked, tmp_path / "into", lambda stage: None)
    assert [gate.name for gate in made.gates][:3] == ["baseline", "capture", "emit"]
    capture = Capture.model_validate_json((tmp_path / "into/mine/capture.json").read_text(encoding="utf-8"))
    shown = (tmp_path / "into/mine/source/from_specification.py").read_bytes()
    assert capture.source_sha256 == hashlib.sha256(shown).hexdigest()
    with np.load(tmp_path / "into/mine/goldens.npz") as arrays:
        np.testing.assert_array_equal(arrays["check/2/out/0"], arrays["check/2/in/x"] * np.float32(2))
        np.testing.assert_array_equal(arrays["check/2/out64/0"], arrays["check/2/in/x"] * 2.0)

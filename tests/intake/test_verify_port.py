"""The value gate of a port: what passes, what does not, and what a port's process may forge."""

import base64
from pathlib import Path

import anyio
import jax.numpy as jnp
import numpy as np
import pytest
from port_records import Here, program, record, traced
from pydantic import ValidationError

from hawkeye_mcp.candidate.sandbox import SandboxPool
from hawkeye_mcp.intake import trace_port
from hawkeye_mcp.intake.port_gates import compare_port, traced_port
from hawkeye_mcp.intake.trace_port import PortRefused
from hawkeye_mcp.intake.verify_port import Verified, structures, verify

HONEST = """
import jax
import jax.numpy as jnp

def workload(x, weight, bias):
    mean = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return jax.lax.rsqrt(mean + 1e-5) * x * weight + bias, jnp.argmax(x, axis=-1)
"""

# It computes the right thing, and has other text written down in its name, with the structure of the right one.
FORGING = (
    HONEST
    + """
import sys, types
forged = types.ModuleType("hawkeye_mcp.intake.emit")

class NotEmittable(Exception):
    pass

class Emitted:
    text = "def workload(x, weight, bias):\\n    result = lax.exp(x)\\n    index = lax.argmax(x, 1, jnp.int32)\\n    return (result, index)\\n"
    constants = {}

forged.NotEmittable = NotEmittable
forged.emit = lambda closed, names: Emitted
sys.modules["hawkeye_mcp.intake.emit"] = forged
"""
)


async def verified(folder: Path, port, *, converted: bool = True, bias: float | None = None) -> Verified:
    capture = record(folder, converted=converted, bias=bias)
    given = port if isinstance(port, trace_port.Traced) else traced(port)
    return await verify(given, capture, folder, atol=1e-2, rtol=1e-2, verifiers=Here())


@pytest.mark.anyio
async def test_a_right_port_agrees_and_its_structure_is_that_of_the_program(tmp_path: Path):
    found = await verified(tmp_path, lambda x, w, b: (x * (w * program(x, 1.0, 0.0)[0] / x) + b, program(x, w, b)[1]))
    assert found.status == "agrees", found.problems
    assert [(one.elements, one.failing) for one in found.outputs] == [(2 * 4 * 128, 0), (2 * 4, 0)]
    again = await verified(tmp_path, program)
    assert compare_port(record(tmp_path), again.structures).status == "identical"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("port", "said"),
    [
        pytest.param(
            lambda x, w, b: (x * jnp.nan, program(x, w, b)[1]),
            "1024 of 1024 elements are wrong, 1024 of them NaN",
            id="all NaN",
        ),
        pytest.param(
            lambda x, w, b: (program(x, w, b)[0].astype(jnp.bfloat16), program(x, w, b)[1]),
            "has dtype bfloat16 and must have float32",
            id="dtype",
        ),
        pytest.param(lambda x, w, b: program(x, w, 0.0), "elements are wrong", id="ignores the bias"),
        pytest.param(lambda x, w, b: program(x, w, b)[0], "Output 1 is missing", id="missing output"),
        pytest.param(lambda x, w, b: (program(x, w, b)[0].T, program(x, w, b)[1]), "has shape [128, 4]", id="shape"),
        pytest.param(lambda x, w, b: (program(x, w, b)[0], jnp.argmin(x, -1)), "must be equal", id="integers"),
    ],
)
async def test_a_wrong_port_differs(tmp_path: Path, port, said):
    found = await verified(tmp_path, port)
    assert (found.status, found.passed) == ("differs", False)
    assert said in " ".join(found.problems)
    assert found.message == found.problems[0]


@pytest.mark.anyio
async def test_results_cannot_excuse_a_port_that_ignores_what_the_program_uses(tmp_path: Path):
    def ignores(x, w, b):
        return program(x, w, 0.0)

    known = await verified(tmp_path / "converted", ignores, bias=0.0)
    assert (known.status, known.problems) == ("differs", ["The port ignores bias, which the program uses. Use it."])
    unknown = await verified(tmp_path / "golden", ignores, converted=False, bias=0.0)
    assert unknown.status == "differs"
    assert "every recorded element of it is the same number" in unknown.message


@pytest.mark.anyio
async def test_a_port_that_does_not_run_or_is_no_plain_program_is_refused(tmp_path: Path):
    honest = traced(program)
    check = honest.sizes["check"]
    for forged, said in (
        ({"cpu": base64.b64encode(b"no program").decode()}, "cannot be read"),
        ({"cpu": honest.sizes["full"].cpu}, "not the workload's inputs"),
        ({"source": check.source.replace("lax.rsqrt(", "__import__('os').system(")}, "which is never emitted"),
        ({"source": check.source.replace("lax.rsqrt(", "lax.exp(")}, "are different computations"),
        ({"source": check.source.replace("1e-05", "1e-03")}, "is not so"),
        ({"structure": traced(lambda x, w, b: program(x, b, w)).sizes["check"].structure}, "is not so"),
    ):
        one = honest.model_copy(update={"sizes": {**honest.sizes, "check": check.model_copy(update=forged)}})
        found = await verified(tmp_path, one)
        assert found.status == "refused", forged
        assert said in found.message


@pytest.mark.anyio
async def test_a_program_of_another_size_may_not_differ_from_that_which_was_run(tmp_path: Path):
    def otherwise(x, w, b):
        return program(x, w if len(x) == 4 else w * 2, b)

    found = await verified(tmp_path, otherwise)
    assert found.status == "agrees"
    compared = compare_port(record(tmp_path), found.structures)
    assert compared.status == "divergent"
    assert [(one.sizes, one.comparison.verdict) for one in compared.compared] == [
        (["full"], "divergent"),
        (["check"], "identical"),
    ]


@pytest.mark.anyio
async def test_arrays_of_the_port_itself_come_along(tmp_path: Path):
    table = np.linspace(0.5, 1.5, 128, dtype=np.float32)
    port = traced(lambda x, w, b: program(x, w * table / table, b))
    assert [one.name for one in port.sizes["check"].constants]
    found = await verified(tmp_path, port)
    assert found.status == "agrees"


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {},
        {"cpu": "", "structure": "%%%"},
        {"cpu": "", "structure": base64.b64encode(b"{}").decode(), "source": "aGk="},
        {"cpu": 3, "structure": "", "source": ""},
        {"cpu": "", "structure": base64.b64encode(b"[" * 100_000).decode(), "source": "aGk="},
    ],
)
def test_what_does_not_read_is_the_ports_fault(reply):
    with pytest.raises(PortRefused):
        trace_port._size(reply, "check", [])


@pytest.mark.parametrize(("field", "said"), [("name", "x, y"), ("dtype", "float16)\nimport os #")])
def test_what_would_become_text_of_a_program_is_a_name(field: str, said: str):
    constant = {"name": "table", "shape": [1], "dtype": "float32", "data": ""}
    with pytest.raises(ValidationError, match=field):
        trace_port.Constant(**constant | {field: said})


@pytest.mark.anyio
async def test_in_the_sandbox_an_honest_port_passes_and_what_others_send_back_is_refused(tmp_path: Path):
    capture = record(tmp_path)
    async with anyio.create_task_group() as tasks:
        sandboxes = SandboxPool(tasks, warm=0)
        honest = await traced_port(HONEST, capture, sandboxes)
        forging = await traced_port(FORGING, capture, sandboxes)
        with pytest.raises(PortRefused) as refused:
            await traced_port("def workload(x):\n    return x", capture, sandboxes)
        await sandboxes.close()
        tasks.cancel_scope.cancel()
    found = await verify(honest, capture, tmp_path, atol=1e-2, rtol=1e-2, verifiers=Here())
    assert found.status == "agrees", found.problems
    assert compare_port(capture, found.structures).status == "equivalent"
    lie = await verify(forging, capture, tmp_path, atol=1e-2, rtol=1e-2, verifiers=Here())
    assert (lie.status, lie.message) == (
        "refused",
        "Its exported program and its emitted source are different computations.",
    )
    with pytest.raises(PortRefused):
        await structures(forging.model_copy(update={"sizes": {"check": forging.sizes["check"]}}), Here())
    assert "cannot be traced at check size" in refused.value.message
    assert "workload(x: float32[4, 128], weight: float32[128], bias: float32[128])" in refused.value.fix

"""What a candidate hands in: an exported program, the MLIR inside it, and the Mosaic kernels inside that.

Read where the judge reads it, in a worker, for the parsers are native code: bytes may end their process, which is a
verdict on the candidate and no more.
"""

import base64
import dataclasses
import json
import re

import anyio.from_thread
import exporting
import jax
import pytest
from fuzzing import bounded, fuzz
from jax import export
from jax.experimental import pallas as pl
from jaxlib.mlir.dialects import stablehlo
from mutating import mutated

from hawkeye_mcp import artifact, workloads
from hawkeye_mcp.evaluation import Audit
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.profiler import mosaic

EXAMPLES = [pytest.param(6, id="few"), pytest.param(1_000, id="many", marks=pytest.mark.slow)]
LIMIT_S = 20.0  # the judge allows 60
INPUTS = workloads.load("8p_GEMM").shapes(workloads.load("8p_GEMM").inputs, "check")


def add(x, *others):
    def kernel(x_ref, out_ref):
        out_ref[...] = x_ref[...] + x_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@pytest.fixture(scope="module")
def whole() -> bytes:
    return exporting.tpu_bytes(add, INPUTS)


def with_module(data: bytes, module: bytes) -> bytes:
    """The artifact with another module in it."""
    exported = export.deserialize(bytearray(data))
    return bytes(dataclasses.replace(exported, mlir_module_serialized=module).serialize())


def with_body(data: bytes, body: bytes) -> bytes:
    """The artifact with another Mosaic kernel in it, well formed around it."""
    program = artifact.read(data)
    with program.context:
        text = program.module.operation.get_asm()
        changed, times = re.subn(
            r"(\\22body\\22: ?\\22)[A-Za-z0-9+/=]*", lambda m: m[1] + base64.b64encode(body).decode(), text
        )
        assert times == 1
        module = mosaic.ir.Module.parse(changed)
        return with_module(data, stablehlo.serialize_portable_artifact(module, stablehlo.get_minimum_version()))


def body_of(data: bytes) -> bytes:
    program = artifact.read(data)
    (call,) = mosaic.mosaic_calls(program)
    return base64.b64decode(call.config["custom_call_config"]["body"])


@pytest.fixture(scope="module")
def audited():
    """Audit bytes in a worker, as the judge does, and count their work: the reply, or None where they ended it or took
    too long.
    """
    cpu = exporting.both(add, INPUTS)["cpu"]
    with anyio.from_thread.start_blocking_portal() as portal:
        pool = portal.call(lambda: WorkerPool("verifier"))

        async def ask(data: bytes, limit_s: float):
            encoded = base64.b64encode(data).decode()
            try:
                reply = await pool.call("audit", limit_s, workload="8p_GEMM", size="check", tpu=encoded, cpu="")
                if reply.get("audit", {"ok": False})["ok"]:
                    pair = {"full": {"tpu": encoded, "cpu": cpu}}
                    reply["work"] = await pool.call("same_work", limit_s, workload="8p_GEMM", artifacts=pair)
            except WorkerError:  # what the readers raise, which the judge takes for work that cannot be compared
                pass
            except (WorkerDied, WorkerTimeout):
                return None
            return reply

        yield lambda data, limit_s=LIMIT_S: portal.call(ask, data, limit_s)
        portal.call(pool.close)


def judged(reply) -> None:
    if reply is None:
        return
    if "unreadable" in reply:
        assert len(reply["unreadable"]) <= 2_000
        return
    Audit.model_validate(reply["audit"])
    assert set(reply.get("work", {"problem": None, "note": None})) == {"problem", "note"}
    json.dumps(reply)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("layer", ["artifact", "module", "kernel"])
def test_an_artifact_of_other_bytes_is_refused_or_audited_and_never_the_harness_fault(audited, whole, layer, examples):
    if layer == "artifact":
        strategy, build = mutated([whole]), lambda data: data
    elif layer == "module":
        inner = bytes(export.deserialize(bytearray(whole)).mlir_module_serialized)
        strategy, build = mutated([inner]), lambda data: with_module(whole, data)
    else:
        body = body_of(whole)
        strategy, build = mutated([body, b"module {}"]), lambda data: with_body(whole, data)
    fuzz(strategy, lambda data: judged(audited(build(data))), examples, [b""], smallest=False)


def test_a_sound_artifact_is_still_audited(audited, whole):
    """Else the others would be refused for nothing."""
    found = audited(with_body(whole, body_of(whole)), limit_s=900)  # also where the worker starts slowly
    assert found["audit"]["ok"]
    assert found["work"] == {"problem": None, "note": None}


def doubling(data: bytes, depth: int) -> str:
    """The artifact's module as text, its program wrapped in functions that each call the one before twice."""
    program = artifact.read(data)
    with program.context:
        text = program.module.operation.get_asm()
    kind = re.search(r"@main\((.*?)\) -> \(?(tensor<[^>]*>)", text)
    arguments = re.findall(r"tensor<[^>]*>", kind[1])
    names = [f"%arg{at}" for at in range(len(arguments))]
    given = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, arguments, strict=True))
    types = f"({', '.join(arguments)}) -> {kind[2]}"

    def calls(callee: str) -> str:
        again = ", ".join(["%0", *names[1:]])
        return f"%0 = call @{callee}({', '.join(names)}) : {types}\n %1 = call @{callee}({again}) : {types}\n return %1 : {kind[2]}"

    functions = [f"func.func private @f{n}({given}) -> {kind[2]} {{ {calls(f'f{n - 1}')} }}" for n in range(1, depth)]
    entry = f"func.func public @main({given}) -> {kind[2]} {{ {calls(f'f{depth - 1}')} }}"
    inner = text.replace("func.func public @main(", "func.func private @f0(")
    return inner.rstrip().removesuffix("}") + "\n".join([*functions, entry]) + "}"


def counted(text: str) -> list[int]:
    context = artifact.mlir_context()
    with context:
        program = artifact.Program(None, mosaic.ir.Module.parse(text), context)
    return [call.calls for call in mosaic.mosaic_calls(program)]


def test_functions_that_call_each_other_more_often_than_anybody_could_count_are_counted(whole):
    with bounded():
        assert counted(doubling(whole, 3)) == [8]
        assert counted(doubling(whole, 60)) == [2**60]

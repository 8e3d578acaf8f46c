"""Artifacts for the TPU against workloads' oracles: right ones agree, one that differs from its CPU twin is found."""

import base64
import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from exporting import tpu_bytes
from jax.experimental import pallas as pl

from hawkeye_mcp import workloads
from hawkeye_mcp.judge import verify
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerTimeout
from hawkeye_mcp.mosaic_eval import run

KERNELS = Path(__file__).parents[1] / "kernels"
HOSTILE = Path(__file__).parents[1] / "hostile"


def bind(workload, function, *, seeds=1):
    declared = workloads.load(workload)
    data = tpu_bytes(function, declared.shapes(declared.inputs, "check"))
    return verify.bind(workload, "check", base64.b64encode(data).decode(), seeds)


def fixture(name):
    spec = importlib.util.spec_from_file_location("fixture", KERNELS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.workload


@pytest.mark.parametrize("name", ["8p_GEMM", pytest.param("11p_Megablox_GMM", marks=pytest.mark.slow), "12p_RMSNorm"])
def test_fixture_kernels_agree(name):
    found = bind(name, fixture(name), seeds=2)
    assert found["outcome"] == "agrees", found
    assert found["seeds"] == 2
    tolerance = workloads.load(name).tolerance
    (output,) = found["outputs"]
    assert 0 < output[f"error_{tolerance.metric.lower()}"] <= tolerance.limit


def _rms_norm(body):
    def workload(x, scale):
        flat = x.reshape(-1, x.shape[-1])
        block = pl.BlockSpec((64, flat.shape[1]), lambda i: (i, 0))
        out = pl.pallas_call(
            body, grid=(flat.shape[0] // 64,), in_specs=[block, pl.BlockSpec((1, flat.shape[1]), lambda i: (0, 0))],
            out_specs=block, out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        )(flat, scale.reshape(1, -1))  # fmt: skip
        return out.reshape(x.shape)

    return workload


def test_a_kernel_that_computes_something_else_differs():
    def body(x_ref, scale_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        inverse = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) * 1.2 + 1e-5)
        o_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(o_ref.dtype)

    found = bind("12p_RMSNorm", _rms_norm(body))
    assert found["outcome"] == "differs"
    assert found["outputs"][0]["error_r"] == pytest.approx(1 - 1.2**-0.5, rel=0.02)


def test_what_is_not_supported_is_named_with_its_line_and_nothing_is_claimed():
    def body(x_ref, scale_ref, o_ref):
        from jax.experimental.pallas import tpu as pltpu

        pltpu.prng_seed(0)
        o_ref[...] = x_ref[...] + pltpu.prng_random_bits(x_ref.shape).astype(o_ref.dtype)

    found = bind("12p_RMSNorm", _rms_norm(body))
    assert (found["outcome"], found["operation"], found["seeds"]) == ("unsupported", "tpu.prng_set_seed_32", 0)
    assert "test_mosaic_bind.py line" in found["where"]


def test_bytes_that_are_no_artifact_claim_nothing():
    found = verify.bind("12p_RMSNorm", "check", base64.b64encode(b"no artifact").decode(), 1)
    assert found["outcome"] == "unsupported"


def test_a_program_of_other_inputs_claims_nothing():
    def function(x):
        return pl.pallas_call(lambda x, o: None, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)

    data = tpu_bytes(function, [((8, 128), "float32")])
    found = verify.bind("12p_RMSNorm", "check", base64.b64encode(data).decode(), 1)
    assert (found["outcome"], found["operation"].split(" [")[0]) == ("unsupported", "a program that takes")


def test_rounding_of_float32_matmuls_is_told_from_a_difference(monkeypatch):
    declared = workloads.load("8p_GEMM")
    limit = declared.tolerance.model_copy(update={"limit": 1e-3})  # between bfloat16's operands and float32's
    tight = declared.model_copy(update={"tolerance": limit})
    monkeypatch.setattr(verify.workloads, "find", lambda name: tight)
    monkeypatch.setattr(verify, "_jitted", _float32_matmul)

    def body(a_ref, b_ref, o_ref):
        o_ref[...] = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

    def workload(a, b):
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))(a, b)

    data = tpu_bytes(workload, [((128, 256), "float32"), ((256, 128), "float32")])
    monkeypatch.setattr(type(tight), "shapes", lambda self, arrays, size: [((128, 128), "float32")])
    found = verify.bind("8p_GEMM", "check", base64.b64encode(data).decode(), 1)
    assert found["outcome"] == "rounding", found
    assert 1e-3 < found["outputs"][0]["error_e"] < 1e-2
    assert "HIGHEST" in found["message"]


def _float32_matmul(workload, size):
    def draw(key):
        left, right = jax.random.split(key)
        return jax.random.normal(left, (128, 256)), jax.random.normal(right, (256, 128))

    return draw, lambda a, b: jnp.matmul(a, b, precision="highest")


@pytest.mark.anyio
async def test_a_candidate_that_exports_two_programs_is_found():
    source = (HOSTILE / "two_programs.py").read_text()  # zeros on the TPU, right for the interpreter
    found = await run.evaluate(source, workloads.load("12p_RMSNorm"), "v5e")
    assert found.outcome == "differs", found
    assert "is nan at [1, 0, 0]" in found.message  # its grid writes one block alone


CHANGED_LOWERING = """
from jax._src.pallas.mosaic import lowering
from jax._src.lax import lax as laxlib
from jax._src.pallas.mosaic.core import CoreType
"""


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_candidate_that_changes_how_its_kernels_are_lowered_is_found():
    honest = (KERNELS / "12p_RMSNorm.py").read_text()
    skips = CHANGED_LOWERING + "lowering.lowering_rules[CoreType.TC][laxlib.rsqrt_p] = lambda ctx, x, **_: x\n" + honest
    found = await run.evaluate(skips, workloads.load("12p_RMSNorm"), "v5e")
    assert found.outcome == "differs", found


@pytest.mark.slow
def test_known_kernels_run_and_agree():
    from hawkeye_mcp.mosaic_eval import share

    found = list(share.run(KERNELS, ["v5e"]))
    assert len(found) >= 11 + 32 + 32
    assert [one.line() for one in found if one.outcome != "agrees" or one.census] == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "outcome", "said"),
    [
        (
            WorkerError("TypeError", "TypeError: a fault of the evaluator", ""),
            "unsupported",
            "a fault of the evaluator",
        ),
        (WorkerDied("bind: the worker ended with code -6. "), "exhausted", "code -6"),
        (WorkerTimeout("bind ran longer than 180 s"), "exhausted", "longer than 180 s"),
    ],
)
async def test_what_befalls_the_evaluator_is_no_verdict_on_the_kernel(error, outcome, said):
    class Pool:
        async def call(self, method, limit_s, **params):
            raise error

    found = await run.bound(Pool(), workloads.load("12p_RMSNorm"), "check", "", seeds=1)
    assert (found.outcome, said in found.message) == (outcome, True)

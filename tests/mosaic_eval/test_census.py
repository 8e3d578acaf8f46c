"""What a census of two artifacts says: how much of each kind is executed, what is in one alone, what is gone."""

import base64
import math
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from exporting import both, kernels
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp import artifact, workloads
from hawkeye_mcp.judge.same_work import same_work
from hawkeye_mcp.mosaic_eval import census
from hawkeye_mcp.mosaic_eval.amounts import amounts

ROOT = Path(__file__).parents[1]
ITEMS = 8 * 128


def _amounts(body, grid, scratch=()):
    def workload(x):
        return pl.pallas_call(
            body, grid=grid, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), scratch_shapes=list(scratch),
        )(x)  # fmt: skip

    _, calls = kernels(workload, [((8, 128), "float32")])
    return dict(amounts(calls[0]))


def test_what_the_grid_decides_is_counted_where_it_is_taken():
    def body(x_ref, o_ref):
        step, inner = pl.program_id(0), pl.program_id(1)
        o_ref[...] = jnp.tanh(x_ref[...])

        @pl.when((inner == 0) & (step > 0))
        def _():
            o_ref[...] += jnp.exp(x_ref[...])

        @pl.when(step >= pl.num_programs(0))
        def _():
            o_ref[...] += jnp.log(x_ref[...])

    assert _amounts(body, (4, 3)) == {"tanh": 12 * ITEMS, "exponential": 3 * ITEMS, "logarithm": 0}


def test_a_loop_counts_its_turns_and_one_of_unknown_length_has_no_end():
    def body(x_ref, o_ref):
        def turn(i, value):
            return value + jnp.tanh(value)

        o_ref[...] = jax.lax.fori_loop(0, pl.program_id(0) + 2, turn, x_ref[...])
        many = jnp.sum(x_ref[...]).astype(jnp.int32)
        o_ref[...] = jax.lax.fori_loop(0, many, lambda i, value: value + jnp.exp(value), o_ref[...])

    found = _amounts(body, (3,))
    assert found["tanh"] == (2 + 3 + 4) * ITEMS
    assert found["exponential"] == math.inf


def test_what_values_decide_counts_as_taken():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]

        @pl.when(jnp.max(x_ref[...]) > 1e30)
        def _():
            o_ref[...] = jnp.sqrt(x_ref[...])

    assert _amounts(body, (5,)) == {"reduction": 5 * ITEMS, "root": 5 * ITEMS}


def test_a_matrix_product_counts_its_multiplications_and_sin_the_sine():
    def body(x_ref, o_ref, kept_ref):
        kept_ref[...] = jnp.sin(x_ref[...])
        o_ref[...] = jax.lax.dot_general(kept_ref[...], x_ref[...], (((1,), (1,)), ((), ())))[:, :1] + x_ref[...]

    found = _amounts(body, (2,), [pltpu.VMEM((8, 128), jnp.float32)])
    assert found["matrix product"] == 2 * 8 * 8 * 128


def _workload(file):
    module = types.ModuleType(file)
    exec(compile((ROOT / f"{file}.py").read_text(), file, "exec"), module.__dict__)
    return module.workload


def _made(name, function, sizes=("check", "full")):
    declared = workloads.load(name)
    return {size: both(function, declared.shapes(declared.inputs, size)) for size in sizes}


@pytest.mark.parametrize("name", ["8p_GEMM", "12p_RMSNorm", "1p_Flash_Attention", "16p_Mamba2_SSD", "9p_SwiGLU_MLP"])
def test_a_right_kernel_is_one_computation(name):
    assert same_work(name, _made(name, _workload(f"kernels/{name}"))) == {"problem": None, "note": None}


NORM = "12p_RMSNorm"


@pytest.mark.parametrize("file", ["size_gated", "size_gated_plausible", "work_never_reached"])
def test_work_that_is_gone_at_the_full_size_is_named(file):
    found = same_work(NORM, _made(NORM, _workload(f"hostile/{file}")))
    assert found["problem"].endswith("where they are verified: division, reduction, root.")


def test_two_artifacts_that_are_not_one_computation_are_told_apart():
    other = _workload("hostile/copy_first_operand")
    made, wrong = (_made(NORM, function, ["check"]) for function in (_workload(f"kernels/{NORM}"), other))
    made["check"]["tpu"] = wrong["check"]["tpu"]
    found = same_work(NORM, made)["problem"]
    assert found == (
        "The two artifacts of the kernel at check size are not one computation: division for the interpreter alone,"
        " reduction for the interpreter alone, root for the interpreter alone."
    )


LOWERED = {
    "sigmoid": (jax.nn.sigmoid, {"exponential", "division"}),
    "silu": (jax.nn.silu, {"exponential", "division"}),
    "softplus": (jax.nn.softplus, {"exponential", "logarithm"}),
    "mish": (jax.nn.mish, {"exponential", "logarithm", "tanh"}),
    "gelu": (jax.nn.gelu, {"tanh"}),
    "erf": (jax.lax.erf, {"division"}),
    "erf_inv": (jax.lax.erf_inv, {"logarithm", "root"}),
    "exp2": (jnp.exp2, {"exponential"}),
    "log10": (jnp.log10, {"logarithm"}),
    "rsqrt": (jax.lax.rsqrt, {"root"}),
    "cos": (jnp.cos, {"sine or cosine"}),
    "pow": (lambda x: jnp.abs(x) ** x, {"power"}),
    "cube": (lambda x: x**3, set()),
    "inverse square": (lambda x: x**-2, {"division"}),
    "mod": (lambda x: jnp.mod(x, 3.0), set()),
    "approximate reciprocal": (lambda x: pl.reciprocal(x, approx=True), {"division"}),
    "division of integers": (lambda x: (x.astype(jnp.int32) // 3).astype(x.dtype), set()),
    "softmax": (jax.nn.softmax, {"exponential", "division", "reduction"}),
    "variance": (lambda x: x - jnp.var(x, 1, keepdims=True), {"division", "reduction"}),
    "argmax": (lambda x: x + jnp.argmax(x, 1, keepdims=True), {"reduction"}),
    "any": (lambda x: x + jnp.any(x > 0).astype(x.dtype), {"reduction"}),
    "product": (lambda x: x + jnp.dot(x, x.T)[:, :1], {"matrix product"}),
}


@pytest.mark.parametrize("name", LOWERED)
def test_what_is_lowered_for_two_platforms_is_one_kind(name):
    function, wanted = LOWERED[name]

    def body(x_ref, o_ref):
        o_ref[...] = function(x_ref[...])

    def workload(x):
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    made = both(workload, [((8, 128), "float32")])
    found = {platform: census.census(artifact.read(base64.b64decode(data))) for platform, data in made.items()}
    assert found["tpu"].kinds == wanted
    assert census.apart(found["tpu"], found["cpu"]) == []


GEMM = "8p_GEMM"


def test_fewer_multiplications_than_the_product_needs_are_too_few():
    honest = _workload(f"kernels/{GEMM}")

    def half(a, b):
        if a.shape[1] > 4096:  # the first half of the summed axis
            a, b = a[:, : a.shape[1] // 2], b[: b.shape[0] // 2]
        return honest(a, b)

    found = same_work(GEMM, _made(GEMM, half))["problem"]
    assert found == "At full size the kernels can do 0.5 of the operations that the workload cannot be done without."


def test_work_that_hardly_grows_with_the_outputs_is_told():
    honest = _workload(f"kernels/{NORM}")

    def some(x, scale):
        if x.shape[1] <= 64:
            return honest(x, scale)
        return x.at[:1, :1024].set(honest(x[:1, :1024], scale))

    found = same_work(NORM, _made(NORM, some))
    assert found["problem"] is None
    assert (
        "the outputs grow 256 times, but division 8 times, reduction 8 times, root 8 times: look at why"
        in found["note"]
    )


def test_a_workload_that_is_not_traced_at_its_check_size_is_compared_at_the_full_one():
    assert same_work(NORM, _made(NORM, _workload(f"kernels/{NORM}"), ["full"])) == {"problem": None, "note": None}

"""What the builtin optimiser recognises, and that the kernels it writes are right and legal."""

import jax
import jax.extend.core as jex_core
import jax.numpy as jnp
import numpy as np
import pytest
from hawkeye_bench.agents.builtin import (
    Techniques,
    feasible,
    first_design,
    neighbours,
    read_statement,
)
from hawkeye_bench.agents.kernels import Blocks, vmem_bytes, write
from hawkeye_bench.agents.reference import Array, UnknownFamily, recognise
from jax._src.core import jaxpr_as_fun

from hawkeye_mcp import workloads

KNOWN = {
    "8p_GEMM": "matmul",
    "41k_Gemm_Add_ReLU": "matmul with an elementwise tail",
    "50k_Matmul_GELU_Softmax": "matmul with a row-wise tail",
    "12p_RMSNorm": "row-wise operation",
}
TAUGHT = Techniques(fuse_tail=True, large_blocks=True)


def problem(name):
    return read_statement(workloads.statement(workloads.load(name)))


def matrix(name, *shape):
    return Array(name, shape, "bfloat16")


def recognised(body, inputs, out):
    names = ", ".join(array.name for array in inputs)
    code = f"import jax\nimport jax.numpy as jnp\n\ndef workload({names}):\n    {body}\n"
    return recognise(code, inputs, [out])


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_the_family_is_read_from_the_reference(name):
    assert problem(name).recipe.family == KNOWN[name]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("9p_SwiGLU_MLP", "more than one matmul"),
        ("1p_Flash_Attention", "indexing"),
        ("11p_Megablox_GMM", "ragged_dot"),
        ("13p_Cross_Entropy", "one_hot"),
    ],
)
def test_other_families_are_declined(name, reason):
    with pytest.raises(UnknownFamily, match=reason):
        problem(name)


@pytest.mark.parametrize(
    "body",
    [
        "return jnp.dot(x, w.T)",
        "return jnp.cumsum(jnp.dot(x, w), axis=-1)",
        "return jnp.dot(x, w) - jnp.max(jnp.dot(x, w), axis=0, keepdims=True)",
        "z = jnp.dot(x, w); return z - jnp.max(z, axis=0, keepdims=True)",
        "return jnp.dot(x, w)[0]",
        "return jnp.dot(x, w) + x",
        "return jnp.dot(x, w).astype(jnp.int32).astype(x.dtype)",
        "return jnp.sum(jnp.dot(x, w), axis=-1)",
        "for _ in range(2): x = x + 1\n    return jnp.dot(x, w)",
    ],
)
def test_what_it_could_get_wrong_is_declined(body):
    with pytest.raises(UnknownFamily):
        recognised(body, [matrix("x", 256, 256), matrix("w", 256, 256)], matrix("out", 256, 256))


def test_helpers_constants_and_row_indexing_are_carried_into_the_kernel():
    code = """
import jax.numpy as jnp
from jax import lax

SLOPE = 0.25

def act(value):
    return jnp.where(value > 0, value, SLOPE * value)

def unused(value):
    return value

def workload(x, w, b):
    z = (x @ w).astype(jnp.float32) + b[None, :]
    return act(z).astype(x.dtype)
"""
    arrays = [matrix("x", 64, 128), matrix("w", 128, 256), matrix("b", 256)]
    recipe = recognise(code, arrays, [matrix("out", 64, 256)])
    assert (recipe.lhs, recipe.rhs, recipe.operands) == ("x", "w", (("b", "row"),))
    text = write(recipe, Blocks(m=32, n=128, k=128, rows=16, fused=True), 16 << 20)
    rng = np.random.default_rng(0)
    x, w, b = (jnp.asarray(rng.normal(size=a.shape), jnp.bfloat16) for a in arrays)
    product = np.asarray(x, np.float64) @ np.asarray(w, np.float64) + np.asarray(b, np.float64)
    expected = np.where(product > 0, product, 0.25 * product)
    assert error_e(run(text, x, w, b), expected) < 0.005
    assert "unused" not in text


def designs(name):
    """Every kernel that the search could start from or try next, without and with what the cells teach."""
    found = problem(name)
    starts = [first_design(found.recipe, Techniques()), first_design(found.recipe, TAUGHT)]
    following = [b for start in starts for bound in ("hbm", "static_schedule") for b in neighbours(found, start, bound)]
    texts = {}
    for blocks in starts + following:
        if feasible(found, blocks, "v5e"):
            texts[write(found.recipe, blocks, vmem_bytes(found.recipe, blocks, found.shape))] = blocks
    return list(texts)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_kernel_it_would_try_passes_the_workloads_gate(name):
    workload = workloads.load(name)
    module: dict = {}
    exec(compile(workload.code(), name, "exec"), module)
    inputs = module["create_inputs"](jax.random.key(3), workload.sizes["check"])
    expected = np.asarray(module["oracle"](*inputs), np.float64)
    assert len(designs(name)) >= 2
    for text in designs(name):
        out = run(text, *inputs)
        assert out.dtype == jnp.bfloat16
        error = error_e(out, expected) if workload.tolerance.metric == "E" else error_r(out, expected)
        assert error < workload.tolerance.limit


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_kernel_it_would_try_lowers_for_the_tpu_at_full_size(name):
    workload = workloads.load(name)
    shapes = [jax.ShapeDtypeStruct(*shape) for shape in workload.shapes(workload.inputs, "full")]
    for text in designs(name):
        module: dict = {}
        exec(compile(text, "kernel", "exec"), module)
        lowered = jax.jit(module["workload"]).trace(*shapes).lower(lowering_platforms=("tpu",))
        assert "tpu_custom_call" in lowered.as_text()
        assert "dot_general" not in lowered.as_text()


def test_without_cells_the_tail_is_apart_and_with_them_it_is_fused():
    found = problem("41k_Gemm_Add_ReLU")
    plain, taught = (first_design(found.recipe, t) for t in (Techniques(), TAUGHT))
    assert write(found.recipe, plain, 16 << 20).count("pl.pallas_call(") == 2
    assert write(found.recipe, taught, 16 << 20).count("pl.pallas_call(") == 1
    assert taught.k > plain.k


def test_a_bandwidth_bound_matmul_gets_wider_blocks_and_a_row_kernel_at_its_floor_is_left_alone():
    matmul, rows = problem("8p_GEMM"), problem("12p_RMSNorm")
    blocks = Blocks(m=512, n=512, k=1024, rows=16, fused=False)
    wider, deeper = (neighbours(matmul, blocks, bound)[0] for bound in ("hbm", "static_schedule"))
    assert (wider.m, wider.n, wider.k) == (1024, 1024, 1024)
    assert (deeper.m, deeper.n, deeper.k) == (512, 512, 2048)
    assert [b.rows for b in neighbours(rows, blocks, "hbm")] == [64, 32]
    assert neighbours(rows, blocks.scaled(rows=4), "hbm") == []
    assert [b.rows for b in neighbours(rows, blocks, "static_schedule")] == [64, 32, 8]


def test_designs_beyond_the_chips_memory_or_a_sane_compile_time_are_not_feasible():
    found = problem("8p_GEMM")
    large = Blocks(m=1024, n=2048, k=512, rows=16, fused=True)
    assert feasible(found, large, "v5e")
    assert not feasible(found, large.scaled(k=2), "v5e")
    # 7x has half the memory: 2 * 2 * (0.25 + 1 + 4) Mi of windows and two float32 tiles of 16 Mi.
    assert vmem_bytes(found.recipe, large.scaled(n=2, k=0.5), found.shape) == 53 << 20
    assert feasible(found, large.scaled(n=2, k=0.5), "v5e")
    assert not feasible(found, large.scaled(n=2, k=0.5), "7x")


def run(text, *inputs):
    """The kernel file's result with every Pallas call interpreted, so that it runs on a CPU."""
    module: dict = {}
    exec(compile(text, "kernel", "exec"), module)
    traced = _interpreted(jax.make_jaxpr(module["workload"])(*inputs))
    return jax.jit(lambda *arrays: jaxpr_as_fun(traced)(*arrays)[0])(*inputs)


def _interpreted(closed):
    equations = []
    for eqn in closed.jaxpr.eqns:
        params = {k: _interpreted(v) if isinstance(v, jex_core.ClosedJaxpr) else v for k, v in eqn.params.items()}
        if eqn.primitive.name == "pallas_call":
            params["interpret"] = True
        equations.append(eqn.replace(params=params))
    return jex_core.ClosedJaxpr(closed.jaxpr.replace(eqns=equations), closed.consts)


def error_e(out, expected):
    return np.linalg.norm(np.asarray(out, np.float64) - expected) / np.linalg.norm(expected - expected.mean(0))


def error_r(out, expected):
    difference = np.asarray(out, np.float64) - expected
    return np.max(np.linalg.norm(difference, axis=-1) / np.linalg.norm(expected, axis=-1))

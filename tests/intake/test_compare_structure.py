"""Structures of real programs compared: what is the same, what is as good, and every difference that values hide."""

import copy
import random

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from hawkeye_mcp.intake.compare_structure import BadStructure, Comparison, compare
from hawkeye_mcp.intake.structure import structure

X = jax.ShapeDtypeStruct((8, 128), jnp.float32)
SQUARE = jax.ShapeDtypeStruct((128, 128), jnp.float32)
ROW = jax.ShapeDtypeStruct((128,), jnp.float32)
HALF = jax.ShapeDtypeStruct((8, 128), jnp.bfloat16)


def of(function, *shapes) -> dict:
    return structure(jax.make_jaxpr(function)(*shapes))


def between(reference, candidate, *shapes) -> Comparison:
    return compare(of(reference, *shapes), of(candidate, *shapes))


def rms(x, w, eps=1e-5):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * w


def test_what_is_written_in_another_order_with_calls_and_dead_code_is_identical():
    def other(x, w):
        unused = jnp.sin(x).sum()
        squared = jax.jit(lambda a: a * a)(lax.stop_gradient(x))
        mean = jax.checkpoint(lambda a: jnp.mean(a, axis=1, keepdims=True))(squared)
        found = w * (lax.rsqrt(1e-5 + mean) * x).astype(jnp.float32).reshape(8, 128)
        del unused
        return found

    found = between(rms, other, X, ROW)
    assert (found.verdict, found.differences, found.counted) == ("identical", [], {})


def test_a_custom_jvp_and_a_custom_vjp_are_looked_into():
    @jax.custom_vjp
    def scaled(x):
        return x * 3.0

    scaled.defvjp(lambda x: (x * 3.0, None), lambda _, g: (g,))
    assert between(lambda x: jnp.maximum(x, 0.0) * 3.0, lambda x: scaled(jax.nn.relu(x)), X).verdict == "identical"
    assert between(lambda x: jnp.maximum(x, 0.0) * 3.1, lambda x: scaled(jax.nn.relu(x)), X).verdict == "divergent"


@pytest.mark.parametrize(
    ("reference", "candidate", "shapes"),
    [
        pytest.param(lambda x, w: x @ w.T, lambda x, w: jnp.einsum("ik,jk->ij", x, w), (X, SQUARE), id="transpose"),
        pytest.param(lambda x, w: x @ w.T, lambda x, w: (w @ x.T).T, (X, SQUARE), id="operands of a product exchanged"),
        pytest.param(
            lambda x: jnp.sum(x, axis=1), lambda x: jnp.sum(x.T.reshape(1, 128, 8), axis=(0, 1)), (X,), id="reduced"
        ),
        pytest.param(
            lambda x: jnp.exp(x.reshape(4, 2, 128)).reshape(8, 128), lambda x: jnp.exp(x), (X,), id="reshape and back"
        ),
        pytest.param(
            lambda x, w: (x.reshape(4, 2, 128) @ w).reshape(8, 128), lambda x, w: x @ w, (X, SQUARE), id="merged rows"
        ),
        pytest.param(
            lambda x: x / jnp.sqrt(jnp.sum(x * x, axis=1, keepdims=True) + 1e-6),
            lambda x: x * lax.rsqrt(jnp.sum(jnp.square(x), axis=1) + 1e-6)[:, None],
            (X,),
            id="rsqrt, square, broadcast",
        ),
        pytest.param(lambda x: x / 128, lambda x: x * (1 / 128), (X,), id="a power of two"),
        pytest.param(lambda x, w: (x * w) * 3.0, lambda x, w: x * (w * 3.0), (X, ROW), id="factors"),
        pytest.param(lambda x, w: x - w + 2.0, lambda x, w: (2.0 + x) - w, (X, ROW), id="terms"),
        pytest.param(lambda x: x**3, lambda x: x * x * x, (X,), id="power"),
        pytest.param(lambda x: lax.pow(x, 2.0), jnp.square, (X,), id="power of a float"),
        pytest.param(
            lambda x: jax.nn.softmax(x, axis=-1),
            lambda x: (lambda e: e / e.sum(1, keepdims=True))(jnp.exp(x - x.max(1, keepdims=True))),
            (X,),
            id="softmax by hand",
        ),
        pytest.param(lambda x: x + 1, lambda x: x.astype(jnp.float32).astype(jnp.bfloat16) + 1, (HALF,), id="widened"),
        pytest.param(
            lambda x: jnp.where(jnp.arange(8)[:, None] > jnp.arange(128)[None, :], x, 0.0),
            lambda x: jnp.where(
                lax.broadcasted_iota(jnp.int32, (8, 128), 1) < lax.broadcasted_iota(jnp.int32, (8, 128), 0), x, 0.0
            ),
            (X,),
            id="a mask",
        ),
    ],
)
def test_layout_and_spelling_are_equivalent(reference, candidate, shapes):
    found = between(reference, candidate, *shapes)
    assert found.verdict == "equivalent", found.differences
    assert between(candidate, reference, *shapes).verdict == "equivalent"


ATTENTION = jax.ShapeDtypeStruct((64, 64), jnp.float32)


def attention(x, w, axis=-1, values=lambda v: v):
    scores = (x @ w) @ (x @ (w * 2.0)).T
    return jax.nn.softmax(scores, axis=axis) @ values(x)


@pytest.mark.parametrize(
    ("reference", "candidate", "shapes", "lines"),
    [
        pytest.param(
            rms,
            lambda x, w: rms(x, w, 1e-6),
            (X, ROW),
            [
                "- add(f32 1e-05, f32[8,1]) -> f32[8,1]  (add of f32 1e-05, mul)",
                "+ add(f32 1e-06, f32[8,1]) -> f32[8,1]  (add of f32 1e-06, mul)",
            ],
            id="another epsilon",
        ),
        pytest.param(
            rms,
            lambda x, w: x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True)) * w,
            (X, ROW),
            ["- add(", "+ rsqrt("],
            id="no epsilon",
        ),
        pytest.param(
            lambda x: x / jnp.sqrt(jnp.sum(x * x, axis=1, keepdims=True) + 1e-5),
            lambda x: x / (jnp.sqrt(jnp.sum(x * x, axis=1, keepdims=True)) + 1e-5),
            (X,),
            ["- add(", "+ sqrt("],
            id="epsilon outside the root",
        ),
        pytest.param(
            lambda x: jnp.sum(x, axis=1),
            lambda x: jnp.sum(x, axis=0),
            (SQUARE,),
            [
                "- reduce_sum axes=(1,) of f32[128,128] -> f32[128]",
                "+ reduce_sum axes=(0,) of f32[128,128] -> f32[128]",
            ],
            id="a reduction over another axis",
        ),
        pytest.param(
            lambda x: jnp.sum(x, axis=1),
            lambda x: jnp.sum(x.T, axis=1),
            (SQUARE,),
            ["- reduce_sum axes=(1,)", "+ reduce_sum axes=(1,)"],
            id="hidden by a transpose",
        ),
        pytest.param(
            lambda x, w: x @ w,
            lambda x, w: x @ w.T,
            (SQUARE, SQUARE),
            ["- dot_general of f32[128,128] x f32[128,128] over (1,) x (0,)", "+ dot_general"],
            id="a contraction over another axis",
        ),
        pytest.param(
            lambda x, w: x * w,
            lambda x, w: x * w[:, None],
            (SQUARE, ROW),
            ["- mul(", "+ mul("],
            id="broadcast along another",
        ),
        pytest.param(
            lambda x: x - x.T,
            lambda x: x.T - x,
            (SQUARE,),
            ["- output 0: the same values along other axes"],
            id="minus it",
        ),
        pytest.param(lambda x: x @ x, lambda x: (x @ x).T, (SQUARE,), ["- output 0"], id="transposed output"),
        pytest.param(
            attention, lambda x, w: attention(x, w, 0), (ATTENTION,) * 2, ["- reduce_max", "+ reduce_max"], id="softmax"
        ),
        pytest.param(lambda x: lax.pow(x, 0.5), jnp.sqrt, (X,), ["- pow", "+ sqrt"], id="a root of -0"),
        pytest.param(lambda x: x / 3.0, lambda x: x * (1 / 3.0), (X,), ["- div(", "+ mul("], id="a rounded reciprocal"),
        pytest.param(
            lambda x: jnp.sum(x, axis=1, dtype=jnp.float32).astype(jnp.bfloat16),
            lambda x: lax.reduce_sum_p.bind(x, axes=(1,), out_sharding=None),
            (HALF,),
            ["- convert bf16[8,128] -> f32[8,128]", "+ reduce_sum axes=(1,) of bf16[8,128] -> bf16[8]"],
            id="accumulated in bfloat16",
        ),
        pytest.param(
            lambda x: jnp.dot(x, x.T, preferred_element_type=jnp.float32),
            lambda x: jnp.dot(x, x.T).astype(jnp.float32),
            (HALF,),
            ["- dot_general", "+ dot_general"],
            id="a product accumulated in bfloat16",
        ),
        pytest.param(
            lambda x: jnp.dot(x, x.T),
            lambda x: jnp.dot(x, x.T, precision="highest"),
            (X,),
            ["- dot_general", "+ dot_general"],
            id="another precision",
        ),
        pytest.param(
            lambda x: lax.scan(lambda c, r: (c + r, c * 2.0), x[0], x)[1],
            lambda x: lax.scan(lambda c, r: (c + r, c * 2.5), x[0], x)[1],
            (X,),
            ["- scan", "+ scan"],
            id="inside a scan",
        ),
        pytest.param(
            lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
            lambda x: lax.cond(x[0, 0] > 0, jnp.cos, jnp.sin, x),
            (X,),
            ["- cond", "+ cond"],
            id="branches exchanged",
        ),
        pytest.param(lambda x: x[:4] * 1.0, lambda x: x[4:] * 1.0, (X,), ["- slice", "+ slice"], id="another slice"),
        pytest.param(
            lambda x: lax.concatenate([jnp.zeros((1, 128)), x, jnp.zeros((2, 128))], 0),
            lambda x: lax.concatenate([jnp.zeros((2, 128)), x, jnp.zeros((1, 128))], 0),
            (X,),
            ["- concatenate", "+ concatenate"],
            id="padding at the other end",
        ),
        pytest.param(
            lambda x, w: (x, w), lambda x, w: (w, x), (SQUARE, SQUARE), ["- output 0"], id="outputs exchanged"
        ),
    ],
)
def test_what_values_may_hide_is_divergent(reference, candidate, shapes, lines):
    found = between(reference, candidate, *shapes)
    assert found.verdict == "divergent"
    for line in lines:
        assert any(one.startswith(line) for one in found.differences), found.differences


def test_the_constant_alone_is_named_where_the_census_is_the_same():
    found = between(rms, lambda x, w: rms(x, w, 1e-6), X, ROW)
    assert list(found.counted) == ["constants"]
    assert found.counted["constants"].reference == ["f32 1e-05 in add"]
    assert found.counted["constants"].candidate == ["f32 1e-06 in add"]


def test_dead_code_cannot_stand_for_what_is_missing():
    def candidate(x, w):
        rms(x, w)
        return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True)) * w

    found = between(rms, candidate, X, ROW)
    assert found.verdict == "divergent"
    assert found.counted["operations"].reference == ["add"]


def test_other_dtypes_and_shapes_are_named():
    found = between(lambda x: x, lambda x: x.astype(jnp.bfloat16), X)
    assert found.differences == ["- output 0: f32[8,128]", "+ output 0: bf16[8,128]"]


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"schema": "hawkeye.structure/1"},
        {"schema": "hawkeye.structure/1", "inputs": [], "outputs": ["n0.0"], "types": ["f32[]"], "nodes": []},
        {"schema": "hawkeye.structure/1", "inputs": ["f32[]"], "outputs": ["a1"], "types": ["f32[]"], "nodes": []},
        {"schema": "hawkeye.structure/1", "inputs": ["f32[]"], "outputs": [], "types": ["f32[]"], "nodes": []},
        {
            "schema": "hawkeye.structure/1",
            "inputs": [],
            "outputs": [],
            "types": [],
            "nodes": [{"op": "add", "in": ["n0.0"], "out": ["f32[]"]}],
        },
        {"schema": "hawkeye.structure/1", "inputs": ["f" * 501], "outputs": [], "types": [], "nodes": []},
        {"schema": "hawkeye.structure/1", "inputs": [], "outputs": [], "types": [], "nodes": [], "more": 1},
    ],
)
def test_a_forged_structure_is_refused(forged):
    honest = of(lambda x: x, X)
    with pytest.raises(BadStructure):
        compare(honest, forged)


def test_a_structure_nested_without_end_is_refused():
    body: dict = {"inputs": [], "outputs": [], "types": [], "nodes": []}
    for _ in range(200):
        body = {**body, "nodes": [{"op": "scan", "in": [], "out": [], "bodies": [body]}]}
    with pytest.raises(BadStructure):
        compare(of(lambda x: x, X), {"schema": "hawkeye.structure/1", **body})


def test_empty_arrays_are_compared():
    def program(x):
        return lax.concatenate([x[:0].reshape(0, 2, 64).reshape(0, 128), x], 0) + jnp.zeros((8, 128))

    assert between(program, program, X).verdict == "identical"
    assert between(program, lambda x: jnp.negative(program(x)), X).verdict == "divergent"


def places(value, path=()):
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def test_whatever_a_structure_is_changed_to_it_is_compared_or_refused():
    def program(x, w):
        y = jax.nn.softmax((x @ w).reshape(2, 4, 128), axis=-1)
        carry, sums = lax.scan(lambda c, row: (c + row * 1e-5, c.sum()), y[0], y)
        return carry / jnp.sqrt(jnp.mean(carry * carry, -1, keepdims=True) + 1e-5), sums, lax.iota(jnp.int32, 8)

    honest = of(program, X, SQUARE)
    others = [None, 0, -1, 1e300, "", "a0", "n0.0", "n99.0", "c:f32:x", "k:f32[2]:ab", "f32[0]", "bf16[8,128]", [], {}]
    others += [
        [[1, 2], [3]],
        True,
        10**30,
        "f32[99999999999999999]",
        "reshape",
        "transpose",
        "dot_general",
        "iota",
        "sub",
    ]
    draw, verdicts = random.Random(0), set()
    for _ in range(600):
        forged = copy.deepcopy(honest)
        *path, last = draw.choice([path for path in places(honest) if path])
        part = forged
        for key in path:
            part = part[key]
        part[last] = draw.choice(others)
        try:
            verdicts.add(compare(honest, forged).verdict)
        except BadStructure:
            verdicts.add("refused")
    assert {"divergent", "refused"} <= verdicts

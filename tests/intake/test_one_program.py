"""Two sizes as one function: every number that differs is said by lengths, or the shape of an argument chooses."""

import ast
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from hawkeye_mcp.intake import emit, emitted, one_program, precise, written_program
from hawkeye_mcp.intake.structure import structure
from hawkeye_mcp.workloads import Size

SIZES: tuple[Size, ...] = ("full", "check")


def at(function: Any, full: list[tuple[int, ...]], check: list[tuple[int, ...]], **constants: tuple[int, int]) -> str:
    """The merged text, after it was traced again at both sizes and compared."""
    shapes: dict[Size, list[tuple[int, ...]]] = {"full": full, "check": check}
    closed = {size: jax.make_jaxpr(function)(*map(jnp.zeros, shapes[size])) for size in SIZES}
    texts = {size: emit.emit(closed[size], [f"x{i}" for i in range(len(full))]).text for size in SIZES}
    named: dict[Size, dict[str, int]] = {size: {k: v[i] for k, v in constants.items()} for i, size in enumerate(SIZES)}
    text = one_program.merged(texts, shapes, named)
    scope: dict[str, Any] = {"lax": lax, "jnp": jnp}
    exec(text, scope)
    for size in SIZES:
        again = jax.make_jaxpr(scope["workload"])(*map(jnp.zeros, shapes[size]))
        assert structure(again) == structure(closed[size]), text
    named_shapes = {size: {f"x{i}": shape for i, shape in enumerate(shapes[size])} for size in SIZES}
    written_program.check(*ast.parse(text).body, named_shapes)  # a host would take it
    return text


def test_lengths_are_those_of_the_arguments_by_their_constants_names() -> None:
    text = at(
        lambda x, w: (x @ w).sum(1) / x.shape[1], [(64, 32), (32, 8)], [(16, 4), (4, 8)], ROWS=(64, 16), K=(32, 4)
    )
    assert text == (
        "def workload(x0, x1):\n"
        "    ROWS = x0.shape[0]\n"
        "    K = x0.shape[1]\n"
        "    dot = lax.dot_general(x0, x1, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)  # float32[ROWS, 8]\n"
        "    total = lax.reduce_sum(dot, (1,))  # float32[ROWS]\n"
        "    quotient = total / float(K)\n"
        "    return quotient\n"
    )


def test_lengths_without_a_name_have_that_of_the_array_and_axis() -> None:
    assert "x0_0 = x0.shape[0]" in at(lambda x: jnp.zeros(x.shape) + x, [(64, 3)], [(16, 3)])


@pytest.mark.parametrize(
    ("function", "full", "check", "said"),
    [
        (lambda x: x.reshape(-1), (64, 32), (16, 8), "x0_0 * x0_1"),
        (lambda x: x.reshape(-1, 4), (64, 40), (16, 8), "x0_0 * x0_1 // 4"),
        (lambda x: jnp.broadcast_to(x, (3, *x.shape)).reshape(-1), (64,), (16,), "3 * x0_0"),
        (lambda x: x.sum() / (x.shape[0] + 1.0), (64,), (16,), "/ float(x0_0 + 1)"),
        (lambda x: x[: x.shape[0] // 2], (64,), (16,), "x0_0 // 2"),
        (lambda x: x[: x.shape[0] - 3], (64,), (16,), "x0_0 - 3"),
        (lambda x: jnp.zeros((x.shape[0] + 2 - 3) // 2 + 1) + x.sum(), (65,), (17,), "(x0_0 + 1) // 2"),
        (lambda x: x.reshape(-1), (4, 6, 8), (2, 3, 5), "x0_0 * x0_1 * x0_2"),
    ],
)
def test_what_follows_from_lengths_is_said_so(function: Any, full: Any, check: Any, said: str) -> None:
    text = at(function, [full], [check])
    assert said in text
    assert "at_full_size" not in text


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_scales_that_are_roots_of_lengths_are_said_so(dtype: Any) -> None:
    def scores(x: Any) -> Any:
        x = x.astype(dtype)
        return x * x.shape[1] ** -0.5, x / (x.shape[1] // 4) ** 0.5, x * (1 / x.shape[0])

    text = at(scores, [(60, 128)], [(20, 64)], D=(128, 64), T=(60, 20))
    assert all(said in text for said in ("* (D**-0.5)", "/ ((D // 4)**0.5)", "* (T**-1)")), text


def test_shapes_that_are_equal_by_chance_at_one_size_leave_one_function() -> None:
    text = at(lambda x: (x @ x.T) / x.shape[1] ** 0.5, [(256, 128)], [(64, 64)], T=(256, 64), D=(128, 64))
    assert text.endswith("preferred_element_type=jnp.float32)\n    quotient = dot / (D**0.5)\n    return quotient\n")


def test_what_does_not_follow_leaves_two_functions() -> None:
    text = at(lambda x: x * (0.3 if x.shape[0] == 64 else 0.7), [(64, 3)], [(16, 3)])
    assert "return at_full_size(x0) if x0.shape == (64, 3) else at_check_size(x0)" in text
    assert "x0 * 0.3" in text
    assert "x0 * 0.7" in text


def test_other_operations_leave_two_functions() -> None:
    text = at(lambda x: jnp.sin(x) if x.shape[0] == 64 else jnp.cos(x), [(64,)], [(16,)])
    assert "at_check_size" in text


def test_programs_that_no_shape_tells_apart_are_refused() -> None:
    texts: dict[Size, str] = {
        "full": "def workload(x):\n    y = x * 0.3\n    return y\n",
        "check": "def workload(x):\n    y = x * 0.7\n    return y\n",
    }
    shapes: dict[Size, list[tuple[int, ...]]] = {"full": [(4,)], "check": [(4,)]}
    with pytest.raises(one_program.NotOne, match="the shapes of their arguments do not"):
        one_program.merged(texts, shapes, {"full": {}, "check": {}})


def test_names_of_lengths_are_not_those_of_values() -> None:
    text = at(lambda x: jnp.dot(x, x) * jnp.zeros(x.shape[0]), [(64,)], [(16,)], dot=(64, 16))
    assert "dot_ = x0.shape[0]" in text


def test_the_oracle_is_the_program_in_float32() -> None:
    def program(x: Any, w: Any) -> Any:
        hidden = jnp.dot(x, w) * jnp.bfloat16(0.1)
        return hidden.astype(jnp.float16), jnp.argmax(hidden, 1)

    x, w = jnp.ones((4, 8), jnp.bfloat16), jnp.ones((8, 5), jnp.bfloat16)
    text = precise.widened(emit.emit(jax.make_jaxpr(program)(x, w), ["x", "w"]).text, ["bfloat16", "bfloat16"])
    assert text.startswith("def oracle(x, w):\n    x = lax.convert_element_type(x, jnp.float32)\n    w = ")
    assert "precision=lax.Precision.HIGHEST" in text
    assert "* 0.10009765625" in text  # what bfloat16 makes of 0.1
    assert "float16" not in text
    scope: dict[str, Any] = {"lax": lax, "jnp": jnp}
    exec(text, scope)
    outputs = jax.eval_shape(scope["oracle"], x, w)
    assert [(out.shape, str(out.dtype)) for out in outputs] == [((4, 5), "float32"), ((4,), "float32")]
    operations = {(e.primitive.name, str(e.outvars[0].aval.dtype)) for e in jax.make_jaxpr(scope["oracle"])(x, w).eqns}
    assert ("mul", "float32") in operations
    assert all("16" not in dtype for _, dtype in operations)


def test_bits_of_a_narrow_type_have_no_oracle() -> None:
    closed = jax.make_jaxpr(lambda x: lax.bitcast_convert_type(x, jnp.uint16))(jnp.ones(4, jnp.bfloat16))
    with pytest.raises(precise.NotWidened, match="line 2 takes the bits"):
        precise.widened(emit.emit(closed, ["x"]).text, ["bfloat16"])


def test_merged_texts_are_of_checked_ones() -> None:
    """The merged text itself holds operators between lengths, which a sandbox's text may not: checks come before."""
    with pytest.raises(emitted.NotEmitted):
        emitted.check(at(lambda x: x.reshape(-1), [(64, 32)], [(16, 8)]))

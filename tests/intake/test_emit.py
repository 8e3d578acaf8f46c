"""What emit writes means what it was written from: each program is traced again and compared, in its results bit for bit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from hawkeye_mcp.intake import emit, emitted
from hawkeye_mcp.intake.compare_structure import compare
from hawkeye_mcp.intake.emit import NotEmittable
from hawkeye_mcp.intake.structure import structure

F32, B16, I32 = jnp.float32, jnp.bfloat16, jnp.int32


def drawn(*shape: int, dtype: Any = F32, seed: int = 0) -> Any:
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.asarray(np.random.default_rng(seed).integers(0, 7, shape), dtype)
    if dtype == jnp.bool_:
        return jnp.asarray(np.random.default_rng(seed).random(shape) < 0.5)
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), F32).astype(dtype)


def written(function: Any, *arguments: Any) -> tuple[str, Any]:
    """The text and, as a function of the same arguments, what it defines."""
    found = emit.emit(jax.make_jaxpr(function)(*arguments), [f"x{i}" for i in range(len(arguments))])
    emitted.check(found.text)
    scope: dict[str, Any] = {"jnp": jnp, "lax": lax}
    exec(found.text, scope)
    return found.text, lambda *given: scope["workload"](*given, *found.constants.values())


def run(function: Any, arguments: tuple[Any, ...]) -> list[Any]:
    quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    found: list[Any] = jax.tree.leaves(jax.jit(function).lower(*arguments).compile(quick)(*arguments))
    return found


UNARY = (
    "abs cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor is_finite lgamma log log1p logistic neg round "
    "rsqrt sign sin sinh sqrt square tan tanh acos asin atan acosh asinh atanh bessel_i0e bessel_i1e"
).split()
X, W, IMAGE = drawn(4, 6), drawn(6, 5, seed=1), drawn(2, 4, 8, 8, seed=2)
XB, WB = X.astype(B16), W.astype(B16)
IDS, MASK = drawn(5, dtype=I32, seed=3), drawn(4, 6, dtype=jnp.bool_, seed=4)


def rnn(xs: Any, h: Any, w: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        new = jnp.tanh(x + carry @ w)
        return new, new * 2

    return lax.scan(step, h, xs, reverse=True, unroll=2)


@jax.custom_jvp  # type: ignore[untyped-decorator]
def custom(x: Any) -> Any:
    return x * 3 + 1


custom.defjvp(lambda p, t: (custom(*p), t[0] * 3))


@jax.custom_vjp  # type: ignore[untyped-decorator]
def custom_v(x: Any) -> Any:
    return jnp.sin(x) * 2


custom_v.defvjp(lambda x: (custom_v(x), x), lambda x, g: (g * jnp.cos(x),))


def rope(x: Any) -> Any:
    positions, half = jnp.arange(x.shape[0], dtype=F32), x.shape[1] // 2
    angles = positions[:, None] / 10000 ** (jnp.arange(half, dtype=F32) / half)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate(
        [first * jnp.cos(angles) - second * jnp.sin(angles), second * jnp.cos(angles) + first * jnp.sin(angles)],
        axis=-1,
    )


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1), v)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{name: (getattr(lax, name), (X * 0.4 + (1.5 if name == "acosh" else 0),)) for name in UNARY},
    "add scalar": (lambda x: 0.1 + x, (XB,)),
    "arithmetic": (lambda x, y: (x + y, x - y, x * y, x / y, 1 - x, 2 / x), (X, X[::-1])),
    "arithmetic of bfloat16": (lambda x, y: (x + y, x - y, x * y, x / y, 1 - x, 0.3 / x), (XB, XB[::-1])),
    "integers": (lambda i: (i // 2, i % 3, i * 2 - 1, -i, lax.div(i, i + 1), i << 1, i >> 1, ~i), (IDS,)),
    "unsigned": (lambda i: (lax.shift_right_logical(i, jnp.uint32(1)), i ^ 5, i & 3, i | 8, lax.clz(i), lax.population_count(i)), (IDS.astype(jnp.uint32),)),
    "logic": (lambda a, b: (a & b, a | b, ~a, a ^ b, a == b, a != b), (MASK, MASK[::-1])),
    "comparisons": (lambda x, y: (x < y, x <= y, x > 0, x >= 0.5, x == y, x != y), (X, X[::-1])),
    "powers": (lambda x: (x**2, x**5, jnp.abs(x) ** 0.3, lax.integer_pow(x, -2), lax.rem(x, jnp.full_like(x, 0.3)), jnp.arctan2(x, x + 1)), (X,)),
    "max and min": (lambda x, y: (jnp.maximum(x, 0), jnp.minimum(x, y), lax.nextafter(x, y)), (X, X[::-1])),
    "clamp": (lambda x: (jnp.clip(x, -0.5, 0.5), lax.clamp(jnp.zeros_like(x), x, jnp.ones_like(x))), (X,)),
    "clamp bfloat16": (lambda x: jax.nn.relu6(x * 9), (XB,)),
    "where": (lambda m, x: jnp.where(m, x, -jnp.inf), (MASK, X)),
    "select_n of ints": (lambda x, i: lax.select_n(i, x, x * 2, x * 3), (X, jnp.int32(2))),
    "conversions": (lambda x, i: (x.astype(B16), x.astype(jnp.float16), i.astype(F32), (x > 0).astype(I32), x.astype(jnp.float8_e4m3fn), x.astype(jnp.int8)), (X, IDS)),
    "bits": (lambda x: (lax.bitcast_convert_type(x, jnp.uint32), lax.reduce_precision(x, 8, 7)), (X,)),
    "infinities": (lambda x: (jnp.full_like(x, -jnp.inf), jnp.full_like(x, jnp.nan), x + 3.4028235e38), (X,)),
    "scalars of float32": (lambda x: (x * np.float32(1 / 3), x + np.float32(1e-5), x * np.float32(1e-38), x + np.float32(2**24 + 1)), (X,)),
    "shapes": (lambda x: (x.reshape(3, 8), x.T, x[None, :, :, None], jnp.squeeze(x[:, :1], 1), x[::-1], jnp.flip(x, 1), jnp.tile(x, (2, 1)), jnp.stack([x, x]), jnp.repeat(x, 2, axis=0)), (X,)),
    "reshape to the same shape": (lambda x: lax.reshape(x, (4, 6)) + 1, (X,)),
    "pads": (lambda x: (jnp.pad(x, ((1, 2), (0, 3))), lax.pad(x, F32(0.5), ((0, -1, 1), (1, 0, 0)))), (X,)),
    "pads of bfloat16": (lambda x: jnp.pad(x, 1, constant_values=0.1), (XB,)),
    "slices": (lambda x: (x[1:3, ::2], lax.slice_in_dim(x, 1, 4), jnp.split(x, [2, 5], axis=1)), (X,)),
    "dynamic slices": (lambda x, i: (lax.dynamic_slice(x, (i, 0), (2, 3)), lax.dynamic_update_slice(x, x[:1], (i, 0)), x[i]), (X, jnp.int32(1))),
    "iota": (lambda x: (x + jnp.arange(6), lax.broadcasted_iota(I32, (4, 6), 1), jnp.tril(x), jnp.eye(6) @ x.T), (X,)),
    "embedding": (lambda table, ids: (table[ids], jnp.take(table, ids, axis=1, mode="clip"), jnp.take_along_axis(table.T, jnp.stack([ids, ids[::-1], ids, ids, ids, ids]), 1)), (W.T.repeat(2, 0), IDS)),
    "under vmap": (
        jax.vmap(lambda row, i: (row[IDS], lax.dynamic_slice(row, (i,), (3,)), lax.cond(row[0] > 0, jnp.sin, jnp.cos, row))),
        (X, jnp.array([0, 1, 2, 3], I32)),
    ),
    "scatter": (lambda x, i: (x.at[i].set(1.5), x.at[i].add(x[:5]), x.at[:, i].max(0.0), x.at[i].min(0.1), x.at[i].multiply(2.0)), (drawn(8, 8), IDS)),
    "reductions": (lambda x: (x.sum(), x.sum(0), x.max(1), x.min(), x.prod(1), x.mean((0, 1)), x.var(1)), (X,)),
    "reductions of bfloat16": (lambda x: (x.sum(1), x.mean(), jax.nn.softmax(x), jax.nn.logsumexp(x, axis=0)), (XB,)),
    "reductions of logic": (lambda m: (m.all(1), m.any(), lax.reduce_xor(m, (0,))), (MASK,)),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x), lax.argmax(x, 0, jnp.uint32)), (X,)),
    "cumulative": (lambda x: (jnp.cumsum(x, 1), lax.cumsum(x, 0, reverse=True), lax.cummax(x, 1), lax.cummin(x), lax.cumprod(x, 1), lax.cumlogsumexp(x, 1)), (X,)),
    "sort": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), lax.sort((x, x * 2), dimension=0, num_keys=2), jnp.sort(x, descending=True)), (X,)),
    "top_k": (lambda x: (lax.top_k(x, 3), lax.top_k(x, 2, axis=0)), (X,)),
    "dots": (lambda x, w: (x @ w, jnp.dot(x, w, precision="highest"), jnp.einsum("ab,bc->ca", x, w)), (X, W)),
    "dots of bfloat16": (lambda x, w: (x @ w, jnp.dot(x, w, preferred_element_type=F32)), (XB, WB)),
    "dots of int8": (lambda x: lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=I32), (drawn(4, 6, dtype=jnp.int8),)),
    "batched dots": (lambda x: (jnp.einsum("nchw,nkhw->nck", x, x), jax.vmap(jnp.outer)(x[:, 0, 0], x[:, 1, 1])), (IMAGE,)),
    "ragged dot": (lambda x, w, g: lax.ragged_dot(x, w, g), (drawn(6, 4), drawn(2, 4, 3), jnp.array([2, 4], I32))),
    "convolutions": (
        lambda x, k: (
            lax.conv_general_dilated(x, k, (1, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
            lax.conv_general_dilated(x, k, (1, 1), ((2, 1), (0, 3)), rhs_dilation=(2, 1), precision="highest"),
            lax.conv_transpose(x.transpose(0, 2, 3, 1), k.transpose(2, 3, 1, 0), (2, 2), "SAME"),
            lax.conv_general_dilated(x, k[:, :1], (1, 1), "VALID", feature_group_count=4),
        ),
        (IMAGE, drawn(8, 4, 3, 3, seed=5)),
    ),
    "convolutions of other rank": (
        lambda x, v: (
            lax.conv_general_dilated(x, x[:, :, :3], (1,), "SAME", dimension_numbers=("NCW", "OIW", "NCW")),
            lax.conv_general_dilated(v, v[..., :2], (1, 1, 1), "VALID", dimension_numbers=("NCDHW", "OIDHW", "NCDHW")),
            lax.conv_general_dilated(v[0], v[0], (2, 1), "SAME", dimension_numbers=lax.ConvDimensionNumbers((0, 1, 2, 3), (0, 1, 3, 2), (0, 1, 2, 3))),
        ),
        (drawn(2, 2, 9), drawn(2, 2, 4, 4, 4)),
    ),
    "pooling": (
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
            lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME") / 9,
            lax.reduce_window(x, jnp.inf, lax.min, (1, 1, 2, 1), (1, 1, 1, 1), "VALID", window_dilation=(1, 1, 2, 1)),
            lax.reduce_window(x, F32(0.5), lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
            lax.reduce(x, F32(2), lax.mul, (2, 3)),
        ),
        (IMAGE,),
    ),
    "pooling of ints": (lambda i: (lax.reduce_window(i, -(2**31), lax.max, (2,), (1,), "VALID"), lax.reduce_window(i, 0, lax.add, (2,), (1,), "VALID")), (IDS,)),
    "attention": (attention, tuple(drawn(2, 8, 2, 4, seed=seed) for seed in range(3))),
    "rope": (rope, (drawn(8, 16),)),
    "gated MLP": (lambda x, a, b: (jax.nn.silu(x @ a) * (x @ a)) @ b, (XB, WB, WB.T)),
    "activations": (lambda x: (jax.nn.gelu(x), jax.nn.gelu(x, approximate=False), jax.nn.silu(x), jax.nn.elu(x), jax.nn.softplus(x), jax.nn.hard_swish(x), jax.nn.leaky_relu(x), jax.nn.mish(x)), (X,)),
    "layer norm": (lambda x, s: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * s, (X, X[0])),
    "custom_jvp, custom_vjp, remat, jit": (lambda x: (custom(x), custom_v(x), jax.checkpoint(jnp.sin)(x), jax.jit(jnp.cos)(x)), (X,)),
    "scan": (rnn, (drawn(6, 4, 5), drawn(4, 5), drawn(5, 5, seed=1))),
    "scan without carry": (lambda x: lax.map(lambda row: row * row.sum(), x), (X,)),
    "fori": (lambda x: lax.fori_loop(0, 4, lambda i, c: c * x[i], x), (X,)),
    "while": (lambda x: lax.while_loop(lambda c: (c[0] < 7) & (c[1].sum() < 99), lambda c: (c[0] + 1, c[1] * x), (0, x)), (jnp.abs(X) + 1,)),
    "cond": (lambda x: (lax.cond(x[0, 0] > 0, lambda: x * 2, lambda: x - 1), lax.cond(x[0, 0] > 9, jnp.sin, jnp.cos, x)), (X,)),
    "switch": (lambda x, i: lax.switch(i, [lambda: x, lambda: x * 2, lambda: jnp.sin(x)], ), (X, jnp.int32(2))),
    "nested loops": (lambda x: lax.scan(lambda c, r: (c + lax.fori_loop(0, 3, lambda i, v: v * r, r).sum(), c), F32(0), x), (X,)),
    "constants": (lambda x: x * np.arange(24, dtype=np.float32).reshape(4, 6) + np.array([1, 2, 3, 4, 5, 0.1], np.float32) + np.ones((4, 6), np.float32), (X,)),
    "an argument and a number returned": (lambda x: (x, F32(2.5), x + 1), (X,)),
    "unused": (lambda x, y: (jnp.sin(y), x + 1)[1], (X, X)),
    "barrier": (lambda x: lax.optimization_barrier((x + 1, x * 2)), (X,)),
    "gradient stops": (lambda x: lax.stop_gradient(x) * 2, (X,)),
}  # fmt: skip


OTHERWISE = ("constants", "switch")  # arrays become arguments; lax.switch clamps its index again


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_the_same_program(name: str) -> None:
    function, arguments = CASES[name]
    text, again = written(function, *arguments)
    if name in OTHERWISE:
        same_results(function, again, arguments, text)
    else:
        one, other = (structure(jax.make_jaxpr(f)(*arguments)) for f in (function, again))
        assert one == other or compare(one, other).verdict == "identical", text


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_is_written_gives_the_same_bits(name: str) -> None:
    function, arguments = CASES[name]
    text, again = written(function, *arguments)
    same_results(function, again, arguments, text)


def same_results(function: Any, again: Any, arguments: tuple[Any, ...], text: str) -> None:
    right, found = (run(f, arguments) for f in (function, again))
    assert [(out.shape, out.dtype) for out in found] == [(out.shape, out.dtype) for out in right], text
    for one, other in zip(found, right, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=text)


REFUSED: dict[str, tuple[Any, str, str]] = {
    "batched loop": (
        jax.vmap(lambda row: lax.while_loop(lambda c: (c < 5.0).all(), lambda c: c + 1.0, row)),
        "while",
        "each element of a batch",
    ),
    "random": (lambda x: x + jax.random.normal(jax.random.key(0), x.shape), "random_", "take them as an input"),
    "complex": (lambda x: jnp.fft.fft(x).real, "complex64", "dtype"),
    "callback": (lambda x: jax.pure_callback(np.sin, x, x), "pure_callback", "calls back into Python"),
    "printing": (lambda x: (jax.debug.print("{}", x), x)[1], "debug_", "calls back into Python"),
    "decomposition": (lambda x: jnp.linalg.cholesky(x @ x.T), "cholesky", "plain jax.lax call"),
    "large constants": (lambda x: np.arange(1 << 22, dtype=np.float32) * x[0, 0], "constant", "make them arguments"),
    "computation": (lambda x: lax.reduce(x, F32(0), lambda a, b: a + b * 2, (0,)), "reduce", "add, mul, max, min"),
    "precision of a kind": (lambda x: jnp.dot(x, x.T, precision="BF16_BF16_F32_X3"), "dot_general", "BF16_BF16_F32_X3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_plain_call_is_named(name: str) -> None:
    function, primitive, why = REFUSED[name]
    with pytest.raises(NotEmittable, match=why) as refused:
        written(function, X)
    assert refused.value.primitive.startswith(primitive)


def test_arrays_of_the_program_become_arguments_and_small_or_repeated_ones_do_not() -> None:
    table, few, same = (
        np.arange(24, dtype=np.float32).reshape(4, 6),
        np.array([[1], [2], [3], [0.1]], np.float32),
        np.ones((4, 6)),
    )
    closed = jax.make_jaxpr(lambda x: x * table + few + same.astype(np.float32))(X)
    found = emit.emit(closed, ["x"])
    assert list(found.constants) == ["constant"]
    np.testing.assert_array_equal(found.constants["constant"], table)
    assert found.text.startswith("def workload(x, constant):")
    assert "jnp.array([[1.0], [2.0], [3.0], [0.1]], jnp.float32)" in found.text
    assert "lax.full((4, 6), 1.0, jnp.float32)" in found.text


def test_a_program_reads_well() -> None:
    text, _ = written(lambda x, w: jax.nn.relu(x @ w) * 0.1, XB, WB)
    assert text == (
        "def workload(x0, x1):\n"
        "    dot = lax.dot_general(x0, x1, (((1,), (0,)), ((), ())), preferred_element_type=jnp.bfloat16)"
        "  # bfloat16[4, 5]\n"
        "    larger = lax.max(dot, jnp.bfloat16(0.0))\n"
        "    product = larger * 0.10009765625\n"
        "    return product\n"
    )


def test_names_that_python_or_the_program_needs_are_not_taken() -> None:
    found = emit.emit(jax.make_jaxpr(lambda lax_, dot: (lax_ @ dot) + 1)(X, W), ["lax", "dot"])
    assert found.text.startswith("def workload(lax_2, dot):\n    dot_2 = lax.dot_general(lax_2, dot,")


def test_what_no_output_needs_is_not_written() -> None:
    text, _ = written(lambda x: (lax.fori_loop(0, 3, lambda i, v: v * 2, x), jnp.sin(x))[1], X)
    assert text == "def workload(x0):\n    sin = lax.sin(x0)\n    return sin\n"

"""Every operation against numpy or jax, on values where a wrong dtype, rounding, order or sign shows."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.special
from mosaic_text import elementwise, run, whole

from hawkeye_mcp.mosaic_eval import machine
from hawkeye_mcp.mosaic_eval.errors import Exhausted, Fault, Unsupported

BF16 = ml_dtypes.bfloat16
random = np.random.default_rng(0)
A = random.normal(size=(8, 128)).astype(np.float32)
B = (random.normal(size=(8, 128)) + 0.1).astype(np.float32)
I = random.integers(-(2**31), 2**31, (8, 128), dtype=np.int32)  # noqa: E741
J = random.integers(-40, 40, (8, 128), dtype=np.int32)
J[J == 0] = 7


def same(actual, expected):
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))
    assert np.asarray(actual).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("arith.addf", A + B), ("arith.subf", A - B), ("arith.mulf", A * B), ("arith.divf", A / B),
        ("arith.maximumf", np.maximum(A, B)), ("arith.minimumf", np.minimum(A, B)), ("arith.remf", np.fmod(A, B)),
    ],
)  # fmt: skip
def test_arithmetic_of_float32(operation, expected):
    same(elementwise(operation, A, B), expected)


@pytest.mark.parametrize(
    ("operation", "function"),
    [
        ("math.exp", np.exp), ("math.exp2", np.exp2), ("math.log1p", np.log1p), ("math.tanh", np.tanh), ("math.sin", np.sin),
        ("math.cos", np.cos), ("math.absf", np.abs), ("math.floor", np.floor), ("math.ceil", np.ceil),
        ("math.roundeven", np.rint), ("math.erf", scipy.special.erf), ("arith.negf", np.negative),
    ],
)  # fmt: skip
def test_functions_of_one_float32(operation, function):
    x = np.abs(A) + 0.5 if operation == "math.log1p" else np.round(A * 4) / 2  # halves, so that ties are among them
    np.testing.assert_allclose(elementwise(operation, x), function(x.astype(np.float64)), rtol=1e-6)


def test_a_reciprocal_square_root_and_its_square_root():
    x = np.abs(A) + 0.5
    np.testing.assert_allclose(elementwise("math.rsqrt", x), 1 / np.sqrt(x.astype(np.float64)), rtol=1e-6)
    np.testing.assert_allclose(elementwise("math.log", x), np.log(x.astype(np.float64)), rtol=1e-5, atol=1e-7)


def test_bfloat16_is_rounded_after_each_operation_and_not_before():
    a, b = np.full((8, 128), 1.0, BF16), np.full((8, 128), 2.0**-9, BF16)
    same(elementwise("arith.addf", a, b), a)  # 1 + 2**-9 is not a bfloat16
    c = np.full((8, 128), 1.5, BF16)
    same(elementwise("arith.mulf", c, c), np.full((8, 128), 2.25, BF16))
    same(elementwise("math.exp", A.astype(BF16)), np.exp(A.astype(BF16).astype(np.float32)).astype(BF16))


def test_maximum_passes_nan_on_and_its_number_variant_does_not():
    a = np.where(A > 0, np.nan, A).astype(np.float32)
    same(np.isnan(elementwise("arith.maximumf", a, B)), np.isnan(a))
    same(elementwise("arith.maxnumf", a, B), np.fmax(a, B))


def test_integers_wrap_and_divide_towards_zero():
    with np.errstate(over="ignore"):
        same(elementwise("arith.addi", I, I), I + I)
        same(elementwise("arith.muli", I, J), I * J)
    same(elementwise("arith.divsi", J, np.full_like(J, 7)), np.trunc(J / 7).astype(np.int32))
    same(elementwise("arith.remsi", J, np.full_like(J, 7)), np.fmod(J, 7))
    unsigned = I.view(np.uint32) // np.uint32(7)
    same(elementwise("arith.divui", I, np.full_like(I, 7)), unsigned.view(np.int32))
    same(elementwise("arith.maxui", I, J), np.maximum(I.view(np.uint32), J.view(np.uint32)).view(np.int32))
    same(elementwise("arith.minsi", I, J), np.minimum(I, J))
    small = np.full((8, 128), 100, np.int8)
    same(elementwise("arith.addi", small, small), np.full((8, 128), -56, np.int8))


def test_shifts_fill_with_the_sign_or_with_zeros_and_end_at_the_width():
    three, wide = np.full_like(I, 3), np.full_like(I, 32)
    same(elementwise("arith.shrsi", I, three), I >> 3)
    same(elementwise("arith.shrui", I, three), (I.view(np.uint32) >> np.uint32(3)).view(np.int32))
    same(elementwise("arith.shli", I, three), I << 3)
    same(elementwise("arith.shrui", I, wide), np.zeros_like(I))
    same(elementwise("arith.shrsi", I, wide), np.where(I < 0, -1, 0).astype(np.int32))
    narrow = np.full((8, 128), -128, np.int8)
    same(elementwise("arith.shrui", narrow, np.full((8, 128), 4, np.int8)), np.full((8, 128), 8, np.int8))


def test_bits():
    for operation, function in (
        ("arith.andi", np.bitwise_and),
        ("arith.ori", np.bitwise_or),
        ("arith.xori", np.bitwise_xor),
    ):
        same(elementwise(operation, I, J), function(I, J))
    same(elementwise("math.ctlz", I), np.asarray(jax.lax.clz(jnp.asarray(I))))
    same(elementwise("math.ctpop", I), np.asarray(jax.lax.population_count(jnp.asarray(I))))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    list(
        enumerate(
            [I == J, I != J, I < J, I <= J, I > J, I >= J]
            + [f(I.view(np.uint32), J.view(np.uint32)) for f in (np.less, np.less_equal, np.greater, np.greater_equal)]
        )
    ),
)
def test_comparisons_of_integers(predicate, expected):
    found = elementwise("arith.cmpi", I, J, out=np.bool_, attributes=f"{{predicate = {predicate} : i64}}")
    same(found, expected.astype(np.int32))


def test_comparisons_of_floats_with_nan():
    a = np.where(B > 0.5, np.nan, A).astype(np.float32)
    a[0] = B[0]
    nan = np.isnan(a)
    ordered = {1: a == B, 2: a > B, 3: a >= B, 4: a < B, 5: a <= B, 6: (a != B) & ~nan, 7: ~nan}
    expected = {**ordered, **{p + 7: ordered[p] | nan for p in range(1, 7)}, 14: nan, 0: nan & False, 15: nan | True}
    for predicate, right in expected.items():
        found = elementwise("arith.cmpf", a, B, out=np.bool_, attributes=f"{{predicate = {predicate} : i64}}")
        same(found, right.astype(np.int32))


def test_casts_round_to_nearest_even_and_integers_are_cut():
    halfway = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 3e38] * 32, np.float32)[None].repeat(8, 0)
    same(elementwise("arith.truncf", halfway, out=BF16)[0, :3].astype(np.float32), np.float32([1, 1 + 2**-6, -1]))
    same(elementwise("arith.extf", A.astype(BF16), out=np.float32), A.astype(BF16).astype(np.float32))
    same(elementwise("arith.truncf", A, out=ml_dtypes.float8_e5m2), A.astype(ml_dtypes.float8_e5m2))
    same(elementwise("arith.trunci", I, out=np.int8), (I & 255).astype(np.uint8).view(np.int8))
    same(elementwise("arith.extsi", I.astype(np.int8), out=np.int32), I.astype(np.int8).astype(np.int32))
    same(elementwise("arith.extui", I.astype(np.int8), out=np.int32), I.astype(np.uint8).astype(np.int32))
    same(elementwise("arith.sitofp", I, out=np.float32), I.astype(np.float32))
    same(elementwise("arith.uitofp", I, out=np.float32), I.view(np.uint32).astype(np.float32))
    floats = np.array([1.9, -1.9, 3e10, -3e10, np.nan, 0.0, 2.0, -0.5] * 16, np.float32)[None].repeat(8, 0)
    found = elementwise("arith.fptosi", floats, out=np.int32)
    same(found[0, :8], np.int32([1, -1, 2**31 - 1, -(2**31), 0, 0, 2, 0]))
    fours = np.array([7, -8, 9, -9] * 32, np.int32)[None].repeat(8, 0)
    same(elementwise("arith.trunci", fours, out=ml_dtypes.int4)[0, :4].astype(np.int32), np.int32([7, -8, -7, 7]))


def test_a_matmul_of_bfloat16_accumulates_in_float32():
    a, b = (random.normal(size=(128, 128)).astype(BF16) for _ in range(2))
    numbers = "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>"
    lines = f"""%z = arith.constant dense<1.0> : vector<128x128xf32>
  %r = "tpu.matmul"(%x0, %x1, %z) {{dimension_numbers = {numbers}, transpose_lhs_hint = false}} :
    (vector<128x128xbf16>, vector<128x128xbf16>, vector<128x128xf32>) -> vector<128x128xf32>"""
    expected = a.astype(np.float64) @ b.astype(np.float64) + 1
    np.testing.assert_allclose(whole(lines, [a, b], np.float32, (128, 128)), expected, rtol=1e-5, atol=1e-4)


def _matmul(a, b, out, dims, precision="", exact=False):
    def kind(x):
        return f"{x[0]}x{x[1]}x{ {'float32': 'f32', 'bfloat16': 'bf16', 'int8': 'i8', 'int32': 'i32'}[str(np.dtype(x[2]))] }"

    lhs, rhs, res = kind((*a.shape, a.dtype)), kind((*b.shape, b.dtype)), kind((*out[0], out[1]))
    space = ", #tpu.memory_space<vmem>"
    zero = "0.0" if np.dtype(out[1]) == np.float32 else "0"
    text = f"""func.func @kernel(%a: memref<{lhs}{space}>, %b: memref<{rhs}{space}>, %o: memref<{res}{space}>) {{
  %c = arith.constant 0 : index
  %x = vector.load %a[%c, %c] : memref<{lhs}{space}>, vector<{lhs}>
  %y = vector.load %b[%c, %c] : memref<{rhs}{space}>, vector<{rhs}>
  %z = arith.constant dense<{zero}> : vector<{res}>
  %r = "tpu.matmul"(%x, %y, %z) {{dimension_numbers = #tpu.dot_dimension_numbers<{dims}>, transpose_lhs_hint = false{precision}}} :
    (vector<{lhs}>, vector<{rhs}>, vector<{res}>) -> vector<{res}>
  vector.store %r, %o[%c, %c] : memref<{res}{space}>, vector<{res}>
  return
}}"""
    return run(text, [a, b], [out], exact=exact)[0]


def test_a_matmul_of_transposed_operands():
    a, b = random.normal(size=(16, 8)).astype(np.float32), random.normal(size=(128, 16)).astype(np.float32)
    found = _matmul(a, b, ((8, 128), np.float32), "[0], [1], [1], [0], [0, 1, 1, 0], [], []", exact=True)
    np.testing.assert_allclose(found, (a.T @ b.T), rtol=1e-5, atol=1e-5)


def test_float32_operands_are_rounded_to_bfloat16_at_the_default_precision_alone():
    a, b = random.normal(size=(8, 256)).astype(np.float32), random.normal(size=(256, 128)).astype(np.float32)
    dims = "[1], [0], [0], [1], [0, 0, 1, 1], [], []"
    rounded = a.astype(BF16).astype(np.float64) @ b.astype(BF16).astype(np.float64)
    full = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(rounded - full).max() > 1e-2
    np.testing.assert_allclose(_matmul(a, b, ((8, 128), np.float32), dims), rounded, atol=1e-4)
    highest = ", precision = #tpu.contract_precision<fp32>"
    np.testing.assert_allclose(_matmul(a, b, ((8, 128), np.float32), dims, highest), full, atol=1e-4)
    np.testing.assert_allclose(_matmul(a, b, ((8, 128), np.float32), dims, exact=True), full, atol=1e-4)


def test_a_matmul_of_int8_is_exact_beyond_what_float32_holds():
    a, b = np.full((8, 4096), 127, np.int8), np.full((4096, 128), 127, np.int8)
    a[:, 0], b[0] = 1, 1
    expected = a.astype(np.int64) @ b.astype(np.int64)
    same(_matmul(a, b, ((8, 128), np.int32), "[1], [0], [0], [1], [0, 0, 1, 1], [], []"), expected.astype(np.int32))


def test_reductions():
    def reduce(kind, x, acc, axis, shape, out):
        name = {"float32": "f32", "bfloat16": "bf16", "int32": "i32"}[str(x.dtype)]
        full = f"vector<{x.shape[0]}x{x.shape[1]}x{name}>"
        part = f"vector<{x.shape[1 - axis]}x{name}>"
        lines = f"""%z = arith.constant dense<{acc}> : {part}
  %s = "vector.multi_reduction"(%x0, %z) {{kind = #vector.kind<{kind}>, reduction_dims = array<i64: {axis}>}} : ({full}, {part}) -> {part}
  %r = vector.shape_cast %s : {part} to vector<{shape[0]}x{shape[1]}x{name}>"""
        return whole(lines, [x], out, shape)

    np.testing.assert_allclose(
        reduce("add", A, "1.0", 1, (1, 8), np.float32)[0], 1 + A.sum(1, dtype=np.float64), rtol=1e-5
    )
    same(reduce("maximumf", A, "-1.0", 0, (1, 128), np.float32)[0], np.maximum(A.max(0), -1))
    same(reduce("minsi", I, "5", 1, (1, 8), np.int32)[0], np.minimum(I.min(1), 5).astype(np.int32))
    ones = np.ones((8, 1024), BF16)  # in bfloat16 a running sum of ones ends at 256
    same(reduce("add", ones, "0.0", 1, (1, 8), BF16), np.full((1, 8), 1024, BF16))


def test_moving_elements_about():
    f32, i32 = "vector<8x128xf32>", "vector<8x128xi32>"
    roll = f"""%n = arith.constant 5 : i32
  %r = tpu.dynamic_rotate %x0 by %n dim 1 {{stride = 2 : si32, stride_dimension = 0 : si32}} : {f32}, i32 -> {f32}"""
    expected = np.stack([np.roll(row, 5 + 2 * i) for i, row in enumerate(A)])
    same(whole(roll, [A], np.float32, (8, 128)), expected)
    same(whole(f"%r = tpu.iota {{dimensions = array<i32: 1, 0>}} : {i32}", [A], np.int32, (8, 128)),
         (np.arange(128)[None] * 8 + np.arange(8)[:, None]).astype(np.int32))  # fmt: skip
    same(
        whole("%r = tpu.transpose %x0, [1, 0] : vector<8x128xf32> -> vector<128x8xf32>", [A], np.float32, (128, 8)), A.T
    )
    same(whole(f"%r = tpu.concatenate %x0, %x1 in 0 : {f32}, {f32} -> vector<16x128xf32>", [A, B], np.float32, (16, 128)),
         np.concatenate([A, B]))  # fmt: skip
    cut = """%r = vector.extract_strided_slice %x0 {offsets = [2, 3], sizes = [4, 100], strides = [1, 1]} :
    vector<8x128xf32> to vector<4x100xf32>"""
    same(whole(cut, [A], np.float32, (4, 100)), A[2:6, 3:103])
    indices = random.integers(0, 128, (8, 128), dtype=np.int32)
    gather = f"%r = tpu.dynamic_gather %x0[%x1] in [1] : {f32}, {i32} -> {f32}"
    same(whole(gather, [A, indices], np.float32, (8, 128)), np.take_along_axis(A, indices, 1))
    spread = "%r = vector.broadcast %x0 : vector<8x1xf32> to vector<8x128xf32>"
    same(whole(spread, [A[:, :1]], np.float32, (8, 128)), np.broadcast_to(A[:, :1], (8, 128)))


def test_packing_rows_into_words():
    halves = random.normal(size=(16, 128)).astype(BF16)
    words = whole("%r = tpu.bitcast %x0 : vector<16x128xbf16> -> vector<8x128xi32>", [halves], np.int32, (8, 128))
    bits = halves.view(np.uint16).astype(np.uint32)
    same(words, (bits[0::2] | bits[1::2] << 16).view(np.int32))  # a word holds two rows, the first below
    same(whole("%r = tpu.bitcast %x0 : vector<8x128xi32> -> vector<16x128xbf16>", [words], BF16, (16, 128)), halves)
    fours = random.integers(-8, 8, (64, 128)).astype(ml_dtypes.int4)
    packed = whole("%r = tpu.bitcast %x0 : vector<64x128xi4> -> vector<8x128xi32>", [fours], np.int32, (8, 128))
    nibbles = (fours.astype(np.int32) & 15).astype(np.uint32).reshape(8, 8, 128)
    same(packed, sum(nibbles[:, i] << np.uint32(4 * i) for i in range(8)).view(np.int32))


def test_an_unknown_operation_is_named_with_its_kernel():
    lines = '%r = "tpu.stochastic_convert"(%x0, %x1) : (vector<8x128xf32>, vector<8x128xi32>) -> vector<8x128xbf16>'
    with pytest.raises(Unsupported, match=r"tpu.stochastic_convert \(kernel kernel"):
        whole(lines, [A, I], BF16, (8, 128))


VMEM = "#tpu.memory_space<vmem>"


def test_strided_and_masked_accesses():
    big = random.normal(size=(16, 256)).astype(np.float32)
    text = f"""func.func @kernel(%a: memref<16x256xf32, {VMEM}>, %o: memref<8x128xf32, {VMEM}>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = tpu.strided_load %a[%c1, %c1] {{strides = array<i32: 2, 1>}} : memref<16x256xf32, {VMEM}>, vector<8x128xf32>
  %i = tpu.iota {{dimensions = array<i32: 1>}} : vector<8x128xi32>
  %n = arith.constant dense<100> : vector<8x128xi32>
  %m = arith.cmpi slt, %i, %n : vector<8x128xi32>
  tpu.vector_store %o[%c0, %c0], %x masked %m {{strides = array<i32>}} : memref<8x128xf32, {VMEM}>, vector<8x128xf32>, vector<8x128xi1>
  return
}}"""
    (found,) = run(text, [big], [((8, 128), np.float32)])
    same(found[:, :100], big[1:16:2, 1:101])
    assert np.isnan(found[:, 100:]).all()  # nothing wrote there


def test_a_load_past_the_end_is_a_fault():
    text = f"""func.func @kernel(%a: memref<8x128xf32, {VMEM}>, %o: memref<8x128xf32, {VMEM}>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = vector.load %a[%c1, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  vector.store %x, %o[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  return
}}"""
    with pytest.raises(Fault, match=r"8, 128\] elements from \[1, 0\]"):
        run(text, [A], [((8, 128), np.float32)])


def test_a_bitcast_view_is_written_through():
    words = "memref<8x128xi32, #tpu.memory_space<vmem>>"
    halves = "memref<16x128xbf16, #tpu.memory_space<vmem>>"
    text = f"""func.func @kernel(%a: memref<1x128xbf16, {VMEM}>, %o: {words}) {{
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant dense<0> : vector<8x128xi32>
  vector.store %zero, %o[%c0, %c0] : {words}, vector<8x128xi32>
  %x = vector.load %a[%c0, %c0] : memref<1x128xbf16, {VMEM}>, vector<1x128xbf16>
  %v = tpu.memref_bitcast %o : {words} -> {halves}
  vector.store %x, %v[%c3, %c0] : {halves}, vector<1x128xbf16>
  return
}}"""
    row = random.normal(size=(1, 128)).astype(BF16)
    (found,) = run(text, [row], [((8, 128), np.int32)])
    expected = np.zeros((8, 128), np.uint32)
    expected[1] = row.view(np.uint16).astype(np.uint32) << 16
    same(found, expected.view(np.int32))


def test_loops_and_branches():
    text = f"""func.func @kernel(%a: memref<8x128xf32, {VMEM}>, %o: memref<8x128xf32, {VMEM}>) {{
  %c0 = arith.constant 0 : index
  %lo = arith.constant 2 : i32
  %hi = arith.constant 9 : i32
  %by = arith.constant 3 : i32
  %one = arith.constant 1 : i32
  %x = vector.load %a[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  %s, %n = scf.for %i = %lo to %hi step %by iter_args(%acc = %x, %k = %one) -> (vector<8x128xf32>, i32) : i32 {{
    %f = arith.sitofp %i : i32 to f32
    %v = vector.broadcast %f : f32 to vector<8x128xf32>
    %t = arith.addf %acc, %v : vector<8x128xf32>
    %k2 = arith.addi %k, %i : i32
    scf.yield %t, %k2 : vector<8x128xf32>, i32
  }}
  %w = scf.while (%j = %n) : (i32) -> i32 {{
    %more = arith.cmpi slt, %j, %hi : i32
    scf.condition(%more) %j : i32
  }} do {{
  ^bb0(%j: i32):
    %next = arith.addi %j, %one : i32
    scf.yield %next : i32
  }}
  %big = arith.cmpi sgt, %w, %hi : i32
  %r = scf.if %big -> (vector<8x128xf32>) {{
    scf.yield %s : vector<8x128xf32>
  }} else {{
    scf.yield %x : vector<8x128xf32>
  }}
  vector.store %r, %o[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  return
}}"""
    (found,) = run(text, [A], [((8, 128), np.float32)])  # 2 + 5 + 8 are added; 1 + 15 is more than 9
    same(found, A + np.float32(2) + np.float32(5) + np.float32(8))


def test_a_loop_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(machine, "MOST_STEPS", 10_000)
    text = f"""func.func @kernel(%a: memref<8x128xf32, {VMEM}>, %o: memref<8x128xf32, {VMEM}>) {{
  %zero = arith.constant 0 : i32
  %w = scf.while (%j = %zero) : (i32) -> i32 {{
    %yes = arith.cmpi sge, %j, %zero : i32
    scf.condition(%yes) %j : i32
  }} do {{
  ^bb0(%j: i32):
    scf.yield %j : i32
  }}
  return
}}"""
    with pytest.raises(Exhausted, match="operations"):
        run(text, [A], [((8, 128), np.float32)])


COPY = f"""func.func @kernel(%a: memref<8x128xf32, {VMEM}>, %o: memref<8x128xf32, {VMEM}>) {{
  %c0 = arith.constant 0 : index
  %x = vector.load %a[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  vector.store %x, %o[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  return
}}"""


LAYOUTS = "operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]"


def test_a_copy_is_one():
    (found,) = run(COPY, [A], [((8, 128), np.float32)])
    same(found, A)


@pytest.mark.parametrize(
    ("text", "attributes", "config", "what"),
    [
        # each of these libtpu reads and the evaluator would pass over
        (COPY, LAYOUTS, "", "laid out as"),
        (COPY, "unheard_of = 1 : i32", "", "attribute of the call unheard_of"),
        (COPY, "", '"custom_call_config": {"body": ""}, ', "a key twice"),
        (COPY, "", '"customCallConfig": {"body": ""}, ', "key of backend_config customCallConfig"),
        (COPY, "", '"device_type": "DEVICE_TYPE_SPARSECORE", ', "key of backend_config device_type"),
        (COPY + "func.func @other() { return }", "", "", "function other, which nothing names"),
        ("func.func @first() { return }" + COPY, "", "", "an operand|function"),
        (COPY.replace("memref<8x128xf32, ", "memref<8x128xf32, strided<[256, 1]>, "), "", "", "memory with a layout"),
        (COPY.replace(") {", ") attributes {unheard_of = 1 : i32} {", 1), "", "", "attribute of the kernel unheard_of"),
    ],
)
def test_what_the_evaluator_would_pass_over_is_refused(text, attributes, config, what):
    with pytest.raises(Unsupported, match=what):
        run(text, [A], [((8, 128), np.float32)], attributes=attributes, before=config)

"""Products of 8-bit arrays: the rate of their type on the chip, the ceiling that it sets, and who does not use it."""

import pytest
import views

from hawkeye_mcp.profiler import detect_units
from hawkeye_mcp.profiler.diagnosis import diagnose
from hawkeye_mcp.profiler.view import matmul_rate
from hawkeye_mcp.workloads import Array

PEAKS = views.PEAKS | {"int8_ops_per_s": 400e12, "int4_ops_per_s": 800e12, "fp8_ops_per_s": 0.0}
BFLOAT16 = PEAKS["bf16_flops_per_s"]
EIGHT_BIT = [
    views.operand(label=f"operand {at} {kind}", item_bits=8, moved_bytes=32 << 20)
    for at, kind in ((0, "i8[4096,8192]"), (2, "i8[8192,4096]"))
]


def _workload(dtype):
    arrays = [Array(name=name, shape=(8, 8), dtype=dtype) for name in ("x", "y")]
    return views.GEMM.model_copy(update={"inputs": [*arrays, Array(name="scale", shape=(8, 1), dtype="float32")]})


def _view(dtype="int8", matmul=views.MATMUL, operands=EIGHT_BIT, us=4000.0):
    kernel = views.kernel(us=us, operands=operands, matmuls=[matmul])
    made = views.view(kernel, workload=_workload(dtype))
    return made.__class__(**{**made.__dict__, "peaks": PEAKS})


@pytest.mark.parametrize(
    ("dtypes", "rate"),
    [
        (("i8", "i8"), 400e12), (("int8", "ui8"), 400e12), (("i4", "i4"), 800e12), (("i8", "bf16"), BFLOAT16),
        (("f8E4M3FN", "float8_e5m2"), BFLOAT16), (("bf16", "bf16"), BFLOAT16), (("i32", "i32"), BFLOAT16),
    ],
)  # fmt: skip
def test_rates_are_those_of_the_type_where_the_chip_has_one(dtypes, rate):
    assert matmul_rate(PEAKS, *dtypes) == rate


def test_the_ceiling_is_that_of_the_arrays_type():
    assert _view().mxu_floor_us == pytest.approx(_view("bfloat16", operands=[views.operand()]).mxu_floor_us / 2)
    assert _view("float8_e4m3fn").mxu_floor_us == _view("bfloat16").mxu_floor_us


def test_operands_widened_before_the_product_are_found():
    (found,) = detect_units.widened_operands(_view())
    assert "widens operand 0 i8[4096,8192] and operand 2 i8[8192,4096] to bf16" in found.text
    assert "v5e multiplies i8 2 times as fast" in found.text
    assert (found.value, found.taxonomy_row) == (2, "14_low_precision")
    assert found.costs_us == pytest.approx(4000 - 2749 / 2, rel=1e-3)
    # even at the rate of bfloat16, which is not the ceiling here
    assert any("widens" in one.text for one in diagnose(_view(us=2760.0), ["14_low_precision"]))


@pytest.mark.parametrize(
    "changed",
    [
        {"matmul": views.MATMUL | {"lhs": "i8", "rhs": "i8"}},
        {"operands": [views.operand(), EIGHT_BIT[1]]},
        {"operands": [views.operand(label=f"operand {n} f8E4M3FN[8,8]", item_bits=8) for n in range(2)]},
    ],
    ids=["multiplied as they are", "one is not narrow", "no rate for the type"],
)
def test_nothing_is_found_where_nothing_is_to_be_had(changed):
    assert list(detect_units.widened_operands(_view(**changed))) == []

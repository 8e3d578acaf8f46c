from dataclasses import replace

from hawkeye_mcp.profiler.calibration import Calibration
from hawkeye_mcp.profiler.flops import Product
from hawkeye_mcp.profiler.xla_cost import Chip, cycles

CHIP = Chip(flops_per_cycle=1000.0, side=128)
CALIBRATION = Calibration(1.05, 1.0, {"product": 5.0, "reduction": 2.0})


def _cycles(sort="product", *, flops=0.0, depth=1024, width=1024, xla=None, elements=1024, partial=0, over=1.0):
    products = [Product(flops, depth, width)] if flops else []
    return cycles(
        sort=sort, xla_cycles=xla, elements=elements, partial=partial, products=products, chip=CHIP,
        calibration=replace(CALIBRATION, estimate=over),
    )  # fmt: skip


def test_the_estimate_of_a_product_that_the_matrix_units_bind_is_taken():
    assert _cycles(flops=1e6, xla=1_100) == (1_100, "xla_estimate")


def test_partial_sums_are_no_time_of_their_own_and_nothing_is_faster_than_large_products_are():
    assert _cycles(flops=1e6, xla=1_900, partial=500) == (1_400, "xla_estimate")
    assert _cycles(flops=1e6, xla=1_900, partial=880) == (1_050, "xla_estimate")
    assert _cycles(flops=1e6, xla=2_400, partial=500) == (1_900, "xla_estimate")


def test_what_estimates_exceed_profiles_by_on_the_chip_is_taken_off():
    assert _cycles(flops=1e6, xla=1_900, partial=100, over=1.2) == (1_500, "xla_estimate")


def test_an_estimate_far_above_or_below_the_work_is_set_aside():
    assert _cycles(flops=1e6, xla=2_500) == (1_050, "roofline_calibrated")
    assert _cycles(flops=1e6, xla=900) == (1_050, "roofline_calibrated")
    assert _cycles(flops=1e6) == (1_050, "roofline_calibrated")


def test_more_is_believed_where_a_product_does_not_fill_the_matrix_units():
    assert _cycles(flops=1e6, depth=32, xla=4_400) == (4_400, "xla_estimate")
    assert _cycles(flops=1e6, depth=32, xla=5_300)[1] == "roofline_calibrated"
    assert _cycles(flops=1e6, depth=64, xla=2_500) == (2_500, "xla_estimate")
    assert _cycles(flops=1e6, depth=96, xla=2_100)[1] == "roofline_calibrated", "filled well enough"


def test_a_product_with_much_output_takes_what_its_registers_take():
    assert _cycles(flops=1e6, xla=9_000, elements=1024 * 300) == (1_500, "roofline_calibrated")


def test_other_operations_take_their_sorts_cycles_for_each_register_whatever_xla_estimates():
    assert _cycles("reduction", xla=99_999, elements=1024 * 7) == (14.0, "roofline_calibrated")


def test_a_sort_that_nobody_profiled_has_no_cycles():
    assert _cycles("irregular", xla=99_999) == (None, "hbm_floor")

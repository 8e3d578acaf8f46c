import pytest

from hawkeye_mcp.profiler.calibration import (
    Row,
    bound_by_matrix_units,
    calibration,
    cycles_per_register,
    estimate_ratios,
)


def _row(sort="elementwise", profile=1000, *, xla=None, flop=0.0, hbm=0.0, registers=500.0, tpu="v5e"):
    return Row(
        tpu=tpu, workload="w", at={}, op="f", sort=sort, profile_cycles=profile, xla_cycles=xla, flop_cycles=flop,
        hbm_cycles=hbm, registers=registers, compiler="1",
    )  # fmt: skip


def test_the_median_of_each_sort_counts():
    found = [_row(profile=cycles) for cycles in (1000, 2000, 9000)]
    assert calibration("v5e", found).registers == {"elementwise": 4.0}


def test_a_chip_without_rows_takes_those_of_all_chips():
    found = [_row(profile=cycles, tpu=tpu) for cycles, tpu in ((500, "v5e"), (2000, "7x"), (3000, "7x"))]
    assert calibration("v5e", found).registers == {"elementwise": 1.0}
    assert calibration("v6e", found).registers == {"elementwise": 4.0}
    assert calibration("v6e", []).registers == {}


def test_products_that_the_matrix_units_bind_say_what_estimates_are_worth_and_nothing_of_registers():
    bound = [_row("product", 1000, xla=1100, flop=900), _row("product", 1000, xla=990, flop=800)]
    others = [_row("product", 1000, xla=4000, flop=300), _row("product", 1000, xla=4000, flop=600, hbm=700)]
    assert [bound_by_matrix_units(row) for row in (*bound, *others)] == [True, True, False, False]
    assert estimate_ratios([*bound, *others]) == pytest.approx([0.99, 1.1])
    assert cycles_per_register([*bound, *others]) == {"product": [2.0, 2.0]}


def test_large_products_say_how_near_the_peak_they_come():
    large = [_row("product", int(300_000 * over), flop=300_000) for over in (1.02, 1.06, 1.3)]
    small = [_row("product", 1500, flop=1000)] * 5
    own = _row("product", 300_000, xla=400_000, flop=290_000, tpu="v6e").model_copy(update={"partial": 40_000})
    assert calibration("v6e", [*large, own]).estimate == pytest.approx(1.2)
    assert calibration("v5e", [*large, own]).estimate == pytest.approx(1.2), "of all chips, for want of its own"
    assert calibration("v6e", [*large, *small]).product == pytest.approx(1.06)
    assert calibration("v6e", small).product == 1.0


def test_what_is_all_overhead_is_left_out():
    assert cycles_per_register([_row(registers=64.0)]) == {}

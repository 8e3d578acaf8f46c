import pytest

from hawkeye_mcp.profiler.timing import Cost, op_time, total_us

RATES = {"clock_hz": 1e9, "hbm_bytes_per_s": 1e11}


def test_the_larger_term_is_the_time_and_is_named():
    schedule = op_time(Cost("a", "mosaic", 5_000.0, "static_profile", 100_000), **RATES)
    assert (schedule.static_us, schedule.hbm_floor_us, schedule.us) == (5.0, 1.0, 5.0)
    assert schedule.bound == "static_schedule"
    assert schedule.method == "static_profile"
    traffic = op_time(Cost("a", "mosaic", 5_000.0, "static_profile", 1_000_000), **RATES)
    assert (traffic.us, traffic.bound) == (10.0, "hbm")


def test_calls_multiply_the_time_but_not_the_terms():
    found = op_time(Cost("a", "xla", 5_000.0, "xla_estimate", 1_000, calls=4), **RATES)
    assert (found.static_us, found.us, found.kind) == (5.0, 20.0, "xla")


def test_a_term_that_is_not_known_stays_null():
    only_bytes = op_time(Cost("a", "xla", None, "static_profile", 100_000), **RATES)
    assert only_bytes.static_us is None
    assert (only_bytes.us, only_bytes.method, only_bytes.bound) == (1.0, "hbm_floor", "hbm")
    only_cycles = op_time(Cost("a", "mosaic", 2_000.0, "static_profile", None), **RATES)
    assert only_cycles.hbm_floor_us is None
    assert only_cycles.us == 2.0
    assert op_time(Cost("a", "xla", None, "static_profile", None), **RATES) is None


def test_operations_follow_one_another():
    ops = [
        op_time(Cost("a", "mosaic", 5_000.0, "static_profile", 0), **RATES),
        op_time(Cost("b", "xla", None, "", 100_000, calls=2), **RATES),
    ]
    assert total_us(ops) == 7.0


def test_a_copy_ahead_of_its_use_is_hidden_until_bandwidth_binds():
    kernel = op_time(Cost("kernel", "mosaic", 5_000.0, "static_profile", 100_000), **RATES)
    small = op_time(Cost("copy", "xla", None, "", 200_000, hidden=True), **RATES)
    assert small.us == 0.0
    assert small.hbm_floor_us == 2.0
    assert total_us([kernel, small]) == 5.0
    large = op_time(Cost("copy", "xla", None, "", 800_000, hidden=True), **RATES)
    assert total_us([kernel, large]) == 9.0  # 1 us and 8 us of traffic, more than the schedule


def test_figures_do_not_pretend_to_precision():
    found = op_time(Cost("a", "mosaic", 1_234_567.89, "static_profile", None), **RATES)
    assert found.static_us == pytest.approx(1234.57, abs=1e-9)

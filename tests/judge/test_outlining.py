"""The estimate of a program that was compiled and not profiled, term by term."""

import pytest

from hawkeye_mcp.judge.outlining import outline

PEAKS = {"bf16_flops_per_s": 200e12, "int8_ops_per_s": 400e12, "hbm_bytes_per_s": 800e9, "clock_hz": 1.5e9}
# of v5e's model: clock, bandwidth, microseconds of a step, share of XLA's estimates
CLOCK, HBM, STEP_US, ESTIMATE = 0.993, 0.919, 0.106, 0.469


def kernel(flops=2e9, moved=1000, dtype="bf16", **changed):
    step = {"flops": flops, "vector_elements": 0.0, "transcendental_elements": 0.0}
    matmuls = [{"lhs": dtype, "rhs": dtype, "flops": flops, "passes": 1}]
    plan = {
        "name": "matmul",
        "grid": [4, 4],
        "calls": 1,
        "window_bytes": [moved * 15, 0],
        "own_hbm_bytes": 0,
        "pipeline": {"transfers": [[0, 0, 1.0], [moved, 2, 15.0]], "edge_bytes": 0},
        "anatomy": {"step": step, "matmuls": matmuls},
    }
    return plan | changed


def op(**changed):
    found = {"name": "op", "mosaic": False, "point": None, "calls": 1, "xla_cycles": 1_500_000, "hbm_bytes": 0}
    return found | {"ahead": False, "sort": "elementwise", "on_chip": [], "vmem_bytes": None} | changed


def estimate(*kernels, ops=()):
    return outline({"ops": list(ops), "peaks": PEAKS}, kernels, "v5e").estimate_us


def test_a_kernel_takes_its_matmuls_at_the_peak_and_what_steps_cost():
    # 2e9 FLOP at 200 TFLOP/s are 10 us a step; 15 of the 16 steps wait for transfers
    assert estimate(kernel()) == pytest.approx(160 / CLOCK + 15 * STEP_US, rel=1e-4)
    assert estimate(kernel(dtype="i8")) == pytest.approx(80 / CLOCK + 15 * STEP_US, rel=1e-4)


def test_steps_that_move_for_longer_than_they_compute_take_that():
    # 16 MB at 800 GB/s are 20 us a step; the first step moves nothing
    assert estimate(kernel(moved=16_000_000)) == pytest.approx(10 / CLOCK + 15 * (20 / HBM + STEP_US), rel=1e-4)


def test_a_loop_of_unknown_length_counts_with_its_transfers_alone():
    hidden = kernel(moved=16_000_000)
    hidden["anatomy"] = {"step": None, "matmuls": hidden["anatomy"]["matmuls"]}
    assert estimate(hidden) == pytest.approx(15 * (20 / HBM + STEP_US), rel=1e-3)


def test_nothing_is_estimated_where_traffic_depends_on_data():
    assert estimate(kernel(), kernel(window_bytes=None)) is None


def test_every_place_and_call_of_a_kernel_counts_and_so_does_what_is_around_it():
    once = estimate(kernel())
    places = [op(mosaic=True, point=0, calls=2), op(mosaic=True, point=0, calls=3)]
    assert estimate(kernel(), ops=places) == pytest.approx(5 * once, rel=1e-4)
    around = [op(), op(ahead=True), op(sort="product")]
    expected = once + 1000 * ESTIMATE / CLOCK + 1000 / CLOCK
    assert estimate(kernel(), ops=around) == pytest.approx(expected, rel=1e-4)

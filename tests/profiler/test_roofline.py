"""Ceilings against hand arithmetic, and what the time is said to wait for."""

import pytest
from views import PEAKS, counts, kernel, view

from hawkeye_mcp import workloads
from hawkeye_mcp.profile import Count
from hawkeye_mcp.profiler.roofline import roofline
from hawkeye_mcp.profiler.units import bound

GEMM = workloads.load("41k_Gemm_Add_ReLU")


def _roofline(workload=GEMM, tpu="v5e", us=5000.0, eight_bit=False, counters=None):
    return roofline(workload, tpu, PEAKS, us, moved_bytes=400_000_000, eight_bit=eight_bit, counters=counters or {})


def test_ceilings_of_the_workload():
    found = _roofline()
    hbm, mxu = found.ceilings
    assert (hbm.unit, hbm.work_unit, hbm.rate) == ("hbm", "bytes", 800e9)
    assert hbm.us == pytest.approx(GEMM.least_bytes / 800e9 * 1e6)
    assert (mxu.unit, mxu.us) == ("mxu", pytest.approx(GEMM.flops / 200e12 * 1e6))
    assert (found.binding, found.best_us) == ("mxu", mxu.us)
    assert found.best_speedup == pytest.approx(5000 / mxu.us, rel=1e-3)
    assert found.intensity == pytest.approx(GEMM.flops / 400e6, rel=1e-3)
    assert found.achieved_flops_per_s == pytest.approx(GEMM.flops / 5e-3, rel=1e-3)


def test_no_time_below_its_ceiling_and_none_that_is_a_lower_bound_promises_a_gain():
    assert _roofline(us=_roofline().best_us * 0.99).best_speedup == 1.0
    unknown = _roofline(us=None)
    assert (unknown.best_speedup, unknown.achieved_flops_per_s) == (None, None)
    assert unknown.best_us == _roofline().best_us


def test_work_that_algebra_saves_is_no_ceiling_and_eight_bits_have_their_own():
    less = GEMM.model_copy(update={"least_flops": GEMM.flops / 2})
    assert _roofline(less).best_us == pytest.approx(_roofline().best_us / 2)
    assert _roofline(eight_bit=True).ceilings[1].us == pytest.approx(_roofline().ceilings[1].us / 2)
    assert "8-bit" in _roofline(eight_bit=True).ceilings[1].source


def test_where_hbm_binds():
    found = _roofline(GEMM.model_copy(update={"flops": 1e9}))
    assert (found.binding, found.best_us) == ("hbm", found.ceilings[0].us)


@pytest.mark.parametrize(("tpu", "cores"), [("v5e", 1), ("v5p", 2)])
def test_ceilings_of_the_candidate_come_from_what_it_executes_and_bind_nothing(tpu, cores):
    counters = {"valu_ops": Count(total=6e9, unit="count"), "eup_ops": Count(total=3e9, unit="count")}
    found = _roofline(tpu=tpu, counters=counters)
    vpu, eup = found.ceilings[2:]
    assert (vpu.unit, vpu.us) == ("vpu", pytest.approx(6e9 / 4 / 1.5e9 / cores * 1e6))
    assert (eup.unit, eup.us) == ("eup", pytest.approx(3e9 / 1.5e9 / cores * 1e6))
    assert (found.binding, found.best_us) == ("mxu", _roofline().best_us)


@pytest.mark.parametrize(
    ("expected", "changed"),
    [
        ("hbm", {"by_hbm": True, "counters": counts(stall=0.7)}),
        ("mxu", {"counters": counts(stall=0.2, mxu_flops=0.6, valu_ops=0.5)}),
        ("vpu", {"counters": counts(stall=0.2, mxu_flops=0.3, valu_ops=0.5)}),
        ("vpu", {"counters": counts(stall=0.2, mxu_flops=0.3, vector_stores=0.5)}),
        ("eup", {"counters": counts(stall=0.2, mxu_flops=0.3, eup_ops=0.5, valu_ops=0.4)}),
        ("latency", {"counters": counts(stall=0.7, mxu_flops=0.6)}),
        (None, {"counters": {}, "us": 20_000.0}),
        ("mxu", {"counters": {}, "us": 3500.0}),
        ("hbm", {"counters": counts(stall=0.2, mxu_flops=0.6), "hbm_us": 4000.0}),
    ],
)
def test_what_most_of_the_time_waits_for(expected, changed):
    counters = changed.pop("counters")
    assert bound(view(kernel(**changed), counters=counters)) == expected


def test_what_a_lower_bound_waits_for_is_unknown():
    assert bound(view(kernel(by_hbm=True), lower_bound=True)) is None


def test_passes_of_a_precise_matmul_keep_the_mxu_busy():
    precise = kernel(matmuls=[{"lhs": "f32", "rhs": "f32", "flops": 1e9, "passes": 6}])
    assert bound(view(precise, counters=counts(stall=0.3, mxu_flops=0.15))) == "mxu"
    assert bound(view(kernel(), counters=counts(stall=0.3, mxu_flops=0.15))) == "latency"

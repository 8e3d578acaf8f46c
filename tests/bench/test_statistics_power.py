"""The power of a plan: against Student's test where that is exact, and against variances that are known."""

import math

import numpy as np
import pytest
from hawkeye_bench import power
from hawkeye_bench.power import Assumptions
from synthetic_runs import experiment, run


def sure(**changed):
    """No run fails, so Student's test is exact."""
    return Assumptions(**{"workloads": 20, "effect": 1.15, "success_treatment": 1, "success_control": 1} | changed)


def test_students_power_is_what_tables_say():
    """One sample, two-sided, n = 20 and d = 0.5: 0.565."""
    given = sure(effect=math.exp(0.1), sd_workloads=0.2, sd_pairs=0)
    assert power.t_test_power(given, 1) == pytest.approx(0.565, abs=0.001)
    assert power.t_test_power(sure(effect=1), 3) == pytest.approx(0.05)


def test_the_simulated_power_is_close_to_students_for_normal_values():
    for repeats in (1, 4):
        found = power.power(sure(), repeats, simulations=1000, seed=3)
        # The signed-rank test has 3/pi of its efficiency; chance is +-0.03.
        assert found.wilcoxon == pytest.approx(found.t_test, abs=0.06)
        assert found.interval == pytest.approx(found.t_test, abs=0.06)
        assert found.geomean == pytest.approx(1.15, abs=0.01)


def test_the_fewest_repeats_that_reach_the_target_are_named():
    found = power.plan_repeats(sure(sd_workloads=0.1, effect=1.2), simulations=400, seed=3)
    assert found.needed == found.by_repeats[-1].repeats > 1
    reached = [min(one.wilcoxon, one.interval) >= 0.8 for one in found.by_repeats]
    assert reached == [False] * (found.needed - 1) + [True]
    assert f"{found.needed} repeats reach a power of 0.8 at a level of 0.05." in found.said
    assert any("assumed" in line and "20 workloads; true ratio 1.2" in line for line in found.said)


def test_where_no_number_of_repeats_will_do_it_says_to_add_workloads():
    found = power.plan_repeats(sure(sd_workloads=0.5, effect=1.1), simulations=100, seed=3, most=3)
    assert found.needed is None
    assert [one.repeats for one in found.by_repeats] == [1, 2, 3]
    assert "add workloads, or set out" in found.said[-1]
    few = power.plan_repeats(sure(workloads=5), simulations=100, seed=3, most=1)
    assert (few.needed, few.by_repeats[0].wilcoxon, few.by_repeats[0].interval) == (None, 0, 0)
    assert "fewer than 6 workloads" in few.said[-1]


def test_failures_cost_power_whichever_way_they_count():
    def at(**changed):
        return power.power(sure(effect=1.2, speedup=1.0, **changed), 2, simulations=400, seed=3)

    half = {"success_treatment": 0.5, "success_control": 0.5}
    whole, baseline, dropped = at(), at(**half), at(**half, failures="dropped")
    assert baseline.wilcoxon < whole.wilcoxon - 0.2
    assert dropped.wilcoxon < whole.wilcoxon - 0.2
    # Half of the runs gain nothing; among the pairs that both succeeded, nothing is lost.
    assert baseline.geomean == pytest.approx(1.2**0.5, abs=0.01)
    assert dropped.geomean == pytest.approx(1.2, abs=0.01)
    assert at(success_treatment=1.0, success_control=0.5, failures="penalised").geomean == pytest.approx(
        1.2 * 2**0.5, abs=0.02
    )


def test_variances_come_back_from_synthetic_pairs():
    rng = np.random.default_rng(7)
    gains = rng.normal(0, 0.3, 4000)
    groups = [list(rng.normal(gain, 0.2, rng.integers(1, 5))) for gain in gains]
    between, within = power.variances(groups)
    assert (math.sqrt(between), math.sqrt(within)) == pytest.approx((0.3, 0.2), abs=0.01)
    # Balanced, by hand: means 0 and 2; within 2, between (4 - 2) / 2.
    assert power.variances([[-1.0, 1.0], [1.0, 3.0]]) == pytest.approx((1.0, 2.0))
    assert power.variances([[0.0], [2.0]]) == (2.0, None)


def test_a_pilot_gives_the_deviations_and_never_the_effect():
    pilot = experiment(5, workloads=60, repeats=4, effect=3.0, sd_pairs=0.2, success=(0.9, 0.6))
    found = power.from_pilot(pilot, "taxonomy", "none", workloads=30, effect=1.1)
    assert (found.workloads, found.effect) == (30, 1.1)
    assert found.sd_pairs == pytest.approx(0.2, abs=0.03)
    assert found.sd_workloads < 0.1
    assert (found.success_treatment, found.success_control) == pytest.approx((0.9, 0.6), abs=0.06)
    assert found.origin.startswith("a pilot of ") and "measured" in found.origin
    single = power.from_pilot([one for one in pilot if one.repeat == 1], "taxonomy", "none", 30, 1.1)
    assert single.sd_pairs == 0
    assert single.sd_workloads == pytest.approx(0.2, abs=0.06)
    assert "one repeat each" in single.origin


def test_too_small_a_pilot_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"at least 3 workloads, this one has 1: run more workloads"):
        power.from_pilot([run("w0", "taxonomy"), run("w0", "none")], "taxonomy", "none", 30, 1.1)

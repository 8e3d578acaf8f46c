"""The interval and the tests, against values known by other means."""

import math

import numpy as np
import pytest
from hawkeye_bench import statistics
from scipy import stats


def values(seed=3, count=10, mean=0.1):
    return np.random.default_rng(seed).normal(mean, 0.3, count)


def test_the_interval_is_close_to_students_for_normal_values():
    drawn = values(count=40)
    low, high = statistics.interval_of_mean(drawn, seed=1)
    students = stats.t.interval(0.95, 39, drawn.mean(), stats.sem(drawn))
    assert (float(low), float(high)) == pytest.approx(students, abs=0.01)


def test_fewer_workloads_ask_for_a_higher_level():
    # sqrt(n / (n - 1)) times Student's quantile, as the level of a normal one.
    assert statistics.expanded(10) == pytest.approx(math.erf(2.262157 * math.sqrt(10 / 9) / math.sqrt(2)), abs=1e-6)
    assert statistics.expanded(6) > statistics.expanded(10) > statistics.expanded(50) > 0.95


def test_an_interval_is_the_same_each_time_and_moves_with_the_values():
    drawn = values()
    once, again = (statistics.interval_of_mean(drawn, seed=7, resamples=999) for _ in range(2))
    assert once == again
    moved = statistics.interval_of_mean(drawn + 1, seed=7, resamples=999)
    assert np.subtract(moved, once) == pytest.approx([1, 1])


def test_many_experiments_at_once_are_analysed_as_each_would_be_alone():
    many = np.stack([values(seed) for seed in range(5)])
    many[2, :4] = 0  # zeros, and with them ties
    low, high = statistics.interval_of_mean(many, seed=1, resamples=999)
    p, flips = statistics.wilcoxon_p(many), statistics.sign_flip_p(many, seed=1)
    for row in range(5):
        alone = statistics.interval_of_mean(many[row], seed=1, resamples=999)
        assert [low[row], high[row]] == pytest.approx([float(end) for end in alone])
        assert flips[row] == pytest.approx(float(statistics.sign_flip_p(many[row], seed=1)))
        # With ties, a batch is approximated.
        assert p[row] == pytest.approx(float(statistics.wilcoxon_p(many[row])), abs=0.05 if row == 2 else 1e-9)


def test_tests_of_six_workloads_that_all_gain_reach_the_least_p_there_is():
    gains = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert float(statistics.wilcoxon_p(gains)) == pytest.approx(2 / 2**6)
    assert float(statistics.sign_flip_p(gains, seed=1)) == pytest.approx(2 / 2**6)
    assert float(statistics.wilcoxon_p(-gains)) == pytest.approx(2 / 2**6)


def test_nothing_at_all_is_no_finding():
    assert float(statistics.wilcoxon_p(np.zeros(8))) == 1
    assert float(statistics.sign_flip_p(np.zeros(8), seed=1)) == 1
    assert statistics.wilcoxon_p(np.zeros((2, 8))).tolist() == [1, 1]
    assert statistics.mcnemar_p(0, 0) == 1


def test_zeros_are_ranked_by_pratts_rule():
    """Left out, the zeros would leave ranks 1 to 6 and p 10/2**6; ranked first, the loss is seventh of nine."""
    some = np.array([0, 0, 0, 0.1, 0.2, 0.3, 0.4, -0.35, 0.5])
    by_signs = [np.dot(signs, [4, 5, 6, 8, 7, 9]) for signs in np.ndindex(2, 2, 2, 2, 2, 2)]
    extreme = sum(total <= 7 for total in by_signs) * 2 / 2**6
    assert float(statistics.wilcoxon_p(some)) == pytest.approx(extreme)
    assert float(statistics.wilcoxon_p(some[3:])) != pytest.approx(extreme)


def test_mcnemar_is_the_sign_test_of_the_pairs_that_differ():
    assert statistics.mcnemar_p(8, 1) == pytest.approx(2 * (1 + 9) / 2**9)
    assert statistics.mcnemar_p(1, 8) == statistics.mcnemar_p(8, 1)
    assert statistics.mcnemar_p(5, 5) == 1


def test_a_share_that_every_workload_has_is_not_certain():
    assert statistics.interval_of_share(np.ones(10), seed=1) == pytest.approx((0.025**0.1, 1.0))
    assert statistics.interval_of_share(np.zeros(10), seed=1) == pytest.approx((0.0, 1 - 0.025**0.1))
    low, high = statistics.interval_of_share(np.array([0.0, 1.0] * 10), seed=1)
    assert 0.2 < low < 0.4 and 0.6 < high < 0.8

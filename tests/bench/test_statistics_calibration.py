"""Whether the interval and the tests keep their word, on synthetic agents with an effect that is known.

Each share of N experiments may lie where chance leaves it in 999 of 1000 cases; the seeds are fixed, so what passes
once passes always.
"""

import functools
import math

import numpy as np
import pytest
from hawkeye_bench import statistics
from hawkeye_bench.coverage import covered
from hawkeye_bench.power import Assumptions, simulate
from scipy import stats

N = 1000
RESAMPLES = 999


def agents(**changed):
    """Logs of speedups have an effect of their own on every workload; some runs fail."""
    return Assumptions(**{"workloads": 20, "effect": 1.15, "success_treatment": 1, "success_control": 1} | changed)


def truth(given):
    """The mean that the analysis estimates where failures count as 1.0, worked out from the assumptions."""
    level, gain = math.log(given.speedup), math.log(given.effect)
    return given.success_treatment * (level + gain) - given.success_control * level


def near(share, nominal):
    low, high = stats.binom.interval(0.999, N, nominal)
    return low / N <= share <= high / N


def intervals(means, **options):
    return statistics.interval_of_mean(means, seed=5, resamples=RESAMPLES, **options)


@pytest.mark.parametrize(
    ("given", "repeats"),
    [
        (agents(), 3),
        (agents(workloads=10), 1),
        (agents(workloads=50, effect=0.8), 2),
        # Repeats that hardly differ: what counts is how many workloads there are.
        (agents(workloads=12, sd_workloads=0.4, sd_pairs=0.05), 5),
        (agents(success_treatment=0.9, success_control=0.7, speedup=1.5), 3),
    ],
    ids=["20x3", "10x1", "50x2 slower", "repeats alike", "failures"],
)
def test_the_interval_holds_a_known_effect_at_its_nominal_rate(given, repeats):
    means = simulate(given, repeats, N, np.random.default_rng(11))
    assert means.mean() == pytest.approx(truth(given), abs=0.01)
    assert near(covered(*intervals(means), truth(given)), 0.95)


def test_the_plain_percentile_interval_would_be_too_short():
    means = simulate(agents(workloads=10), 1, N, np.random.default_rng(11))
    assert not near(covered(*intervals(means, expand=False), truth(agents())), 0.95)


def test_an_interval_over_pairs_would_take_repeats_for_workloads():
    """The reason for averaging a workload's repeats first: its pairs share what the treatment does for it."""
    given = agents(workloads=12, sd_workloads=0.4, sd_pairs=0.05)
    rng = np.random.default_rng(11)
    gains = rng.normal(truth(given), 0.4, (N, 12, 1)) + rng.normal(0, 0.05, (N, 12, 5))
    assert near(covered(*intervals(gains.mean(axis=2)), truth(given)), 0.95)
    assert covered(*intervals(gains.reshape(N, 60)), truth(given)) < 0.75


@pytest.mark.parametrize("success", [1.0, 0.7], ids=["all correct", "failures"])
@pytest.mark.parametrize("workloads", [10, 20, 50])
def test_with_no_effect_each_test_fires_at_five_percent(workloads, success):
    given = agents(
        workloads=workloads, effect=1, sd_workloads=0, success_treatment=success, success_control=success, sd_pairs=0.3
    )
    means = simulate(given, 3, N, np.random.default_rng(17))
    low, high = intervals(means)
    assert near(np.mean((low > 0) | (high < 0)), 0.05)
    assert near(np.mean(statistics.wilcoxon_p(means) < 0.05), 0.05)
    assert near(np.mean(statistics.sign_flip_p(means, seed=5, resamples=RESAMPLES) <= 0.05), 0.05)


def test_with_an_effect_the_tests_fire():
    means = simulate(agents(effect=1.3), 3, N, np.random.default_rng(19))
    low, _ = intervals(means)
    assert np.mean(low > 0) > 0.99
    assert np.mean(statistics.wilcoxon_p(means) < 0.05) > 0.99


def test_mcnemar_never_fires_more_often_than_it_says():
    """It is discrete, so it fires less often; with a real difference it does fire."""
    rng = np.random.default_rng(23)
    p = functools.cache(statistics.mcnemar_p)

    def fires(one, other):
        pairs = rng.random((N, 60, 2)) < (one, other)
        only_one = (pairs[..., 0] & ~pairs[..., 1]).sum(axis=1)
        only_other = (~pairs[..., 0] & pairs[..., 1]).sum(axis=1)
        return np.mean([p(int(a), int(b)) < 0.05 for a, b in zip(only_one, only_other, strict=True)])

    assert 0.01 < fires(0.7, 0.7) <= stats.binom.ppf(0.999, N, 0.05) / N
    assert fires(0.9, 0.5) > 0.95

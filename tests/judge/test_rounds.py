import numpy as np
import pytest
import scipy.stats

from hawkeye_mcp.evaluation import Interval, Side
from hawkeye_mcp.judge import rounds


def _side(median_us: float) -> Side:
    us = Interval(median=median_us, low=median_us, high=median_us)
    return Side(us=us, samples_us=[median_us], wall_us=[median_us], started_s=[0.0], calls=1, compile_s=None)


def _interval(low: float, median: float, high: float) -> Interval:
    return Interval(low=low, median=median, high=high)


CALM = _interval(0.999, 1.0, 1.001)


def test_every_round_has_each_side_once_in_an_order_that_its_seed_decides():
    order = rounds.order(7, 60)
    assert all(sorted(turn) == ["baseline", "candidate", "control"] for turn in order)
    assert len({tuple(turn) for turn in order}) == 6
    assert order == rounds.order(7, 60)
    assert order != rounds.order(8, 60)


def test_the_interval_is_the_percentile_bootstrap_of_the_median():
    sample = np.random.default_rng(3).lognormal(3.0, 0.4, size=25)
    found = rounds.interval([float(x) for x in sample], seed=5)
    reference = scipy.stats.bootstrap(
        (sample,), np.median, method="percentile", n_resamples=10_000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert found.median == pytest.approx(np.median(sample), rel=1e-5)
    # The medians of resamples are order statistics of the sample: another draw may end on the next one.
    ordered = np.sort(sample)
    assert abs(np.searchsorted(ordered, found.low * 0.99999) - np.searchsorted(ordered, reference.low * 0.99999)) <= 1
    assert abs(np.searchsorted(ordered, found.high * 0.99999) - np.searchsorted(ordered, reference.high * 0.99999)) <= 1
    assert found == rounds.interval([float(x) for x in sample], seed=5)


def test_what_slows_both_sides_of_a_round_down_leaves_their_ratio():
    drift = np.linspace(1.0, 3.0, 12)
    found = rounds.ratio([float(x) for x in 20 * drift], [float(x) for x in 10 * drift], seed=1)
    assert (found.low, found.median, found.high) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("speedup", "control", "verdict"),
    [
        (_interval(1.05, 1.10, 1.15), CALM, "faster"),
        (_interval(0.85, 0.90, 0.95), CALM, "slower"),
        (_interval(0.98, 1.05, 1.15), CALM, "indistinguishable"),  # holds 1
        (_interval(1.005, 1.006, 1.008), CALM, "indistinguishable"),  # nearer to 1 than any control vouches for
        (_interval(0.993, 0.995, 0.996), CALM, "indistinguishable"),
        (_interval(1.05, 1.10, 1.15), _interval(0.99, 1.01, 1.06), "indistinguishable"),  # the control reaches as far
        (_interval(1.05, 1.10, 1.15), _interval(0.94, 0.99, 1.01), "indistinguishable"),  # also below 1
        (_interval(0.90, 0.92, 0.95), _interval(0.94, 0.99, 1.01), "indistinguishable"),
        (_interval(1.05, 1.10, 1.15), _interval(1.02, 1.03, 1.04), "void"),  # the baseline is not itself
        (_interval(1.05, 1.10, 1.15), _interval(0.90, 0.95, 0.98), "void"),
        (_interval(1.05, 1.10, 1.15), _interval(1.001, 1.002, 1.003), "faster"),  # not itself by next to nothing
    ],
)
def test_what_may_be_claimed(speedup, control, verdict):
    sides = {"candidate": _side(100.0), "baseline": _side(110.0)}
    assert rounds.conclude(sides, speedup, control, 50.0, "its FLOPs at peak")[0] == verdict


@pytest.mark.parametrize(
    ("candidate_us", "baseline_us", "blamed"),
    [(94.9, 200.0, "candidate"), (200.0, 94.9, "baseline"), (95.1, 95.1, None)],
)
def test_a_time_that_the_hardware_cannot_do_is_void(candidate_us, baseline_us, blamed):
    sides = {"candidate": _side(candidate_us), "baseline": _side(baseline_us)}
    verdict, why = rounds.conclude(sides, _interval(1.9, 2.0, 2.1), CALM, 100.0, "its FLOPs at peak")
    if blamed:
        assert verdict == "void"
        assert (
            why == f"the {blamed} took 94.9 us where its FLOPs at peak alone take 100 us: it cannot have done the work"
        )
    else:
        assert verdict == "faster"


def test_noise_is_what_the_control_shows_and_never_less_than_one_per_cent():
    assert rounds.noise(CALM) == 0.01
    assert rounds.noise(_interval(0.95, 1.0, 1.02)) == pytest.approx(1 / 0.95 - 1, rel=1e-5)
    assert rounds.noise(_interval(0.99, 1.0, 1.07)) == pytest.approx(0.07)

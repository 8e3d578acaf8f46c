"""The interval and the tests, from scipy; everything here takes one number for each workload.

Workloads are what an experiment could have drawn others of, so they are the clusters: a workload's repeats are averaged
first, and whole workloads are resampled. Resampling the repeats inside them as well would count their noise twice: the
averages differ between workloads by that noise already.

The interval is the percentile bootstrap at the level that Hesterberg calls expanded ("What Teachers Should Know About
the Bootstrap", The American Statistician 69(4), 2015): a plain one is too short by sqrt((n - 1) / n) and by the ratio
of the normal quantile to Student's, which with ten workloads costs four points of coverage. BCa at the same level was
not better: it gains where effects are skewed and loses as much where a few workloads stand out on either side.
`python -m hawkeye_bench.coverage` prints what each of them covers.
"""

from typing import Any, Literal

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 9999
# With fewer, resampling has too few different outcomes for a tail of 2.5 %, and no such test can reach p < 0.05.
FEWEST_WORKLOADS = 6
# From here on the interval held the truth in 92 % or more of experiments of every shape that `coverage` draws.
ENOUGH_WORKLOADS = 20

Method = Literal["percentile", "BCa"]
# One value for each workload, on the last axis; axes before it are independent experiments.
Values = np.ndarray[Any, np.dtype[np.float64]]


def expanded(workloads: int, confidence: float = CONFIDENCE) -> float:
    """The level to ask a bootstrap of so few clusters for, so that it covers `confidence` (Hesterberg 2015)."""
    tail = stats.t.ppf((1 - confidence) / 2, workloads - 1)
    return float(1 - 2 * stats.norm.cdf(tail * np.sqrt(workloads / (workloads - 1))))


def interval_of_mean(
    values: Values,
    *,
    seed: int,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    method: Method = "percentile",
    expand: bool = True,
) -> tuple[Values, Values]:
    """Low and high end of the bootstrap interval of the mean over the last axis, each of the shape before it.

    method, expand: as reports have them unless the methods themselves are compared.

    Raises:
        ValueError: fewer than two values.
    """
    level = expanded(values.shape[-1], confidence) if expand else confidence
    found = stats.bootstrap(
        (values,),
        np.mean,
        axis=-1,
        confidence_level=level,
        n_resamples=resamples,
        method=method,
        batch=_batch(values),
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


def wilcoxon_p(values: Values) -> Values:
    """Two-sided p of the signed-rank test that the values lie symmetrically about 0; zeros by Pratt's rule.

    Of one experiment it is exact up to 50 values without ties or zeros and up to 13 with them; of many experiments at
    once those with ties or zeros are approximated by the normal distribution.
    """
    if values.ndim == 1:
        return np.asarray(stats.wilcoxon(values, zero_method="pratt").pvalue if values.any() else 1.0)
    sizes = np.sort(np.abs(values), axis=-1)
    tied = (sizes[..., 0] == 0) | (np.diff(sizes, axis=-1) == 0).any(axis=-1)
    p = np.ones(values.shape[:-1])
    for rows, method in ((~tied, "exact"), (tied & values.any(axis=-1), "asymptotic")):
        if rows.any():
            p[rows] = stats.wilcoxon(values[rows], axis=-1, zero_method="pratt", method=method).pvalue
    return p


def sign_flip_p(values: Values, *, seed: int, resamples: int = 2**15) -> Values:
    """Two-sided p of the permutation test that flips the signs of whole workloads; exact while 2**n <= resamples."""
    found = stats.permutation_test(
        (values,),
        np.mean,
        permutation_type="samples",
        n_resamples=resamples,
        axis=-1,
        vectorized=True,
        batch=_batch(values),
        rng=np.random.default_rng(seed),
    )
    return np.asarray(found.pvalue)


def mcnemar_p(only_one: int, only_other: int) -> float:
    """Exact two-sided p of McNemar's test from the pairs in which only one of the two succeeded."""
    if only_one + only_other == 0:
        return 1.0
    return float(stats.binomtest(only_one, only_one + only_other).pvalue)


def interval_of_share(shares: Values, *, seed: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Low and high end for the mean of shares, one for each workload.

    Where every workload has share 0, or every one 1, resampling would call that certain; the exact binomial interval
    (Clopper-Pearson) stands then, with each workload as one trial.
    """
    if shares.min() == shares.max() and shares[0] in (0, 1):
        count = len(shares)
        exact = stats.binomtest(int(shares[0]) * count, count).proportion_ci(confidence, method="exact")
        return float(exact.low), float(exact.high)
    low, high = interval_of_mean(shares, seed=seed, confidence=confidence)
    return float(low), float(high)


def _batch(values: Values) -> int:
    """Resamples at a time, so that scipy holds about 100 MB of them."""
    return max(1, 12_000_000 // values.size)

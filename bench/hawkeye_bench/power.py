"""How many repeats a plan needs before it starts, by running the primary analysis on synthetic experiments.

Repeats only wear down the noise inside a workload. That the same treatment helps one workload more than another stays,
so some plans need more workloads, and no number of repeats will do: the answer then says so.
"""

import math
from collections.abc import Iterable

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy import stats

from hawkeye_bench import pairs as pairing
from hawkeye_bench import statistics
from hawkeye_bench.pairs import COUNTED, Failures
from hawkeye_bench.runs import Run
from hawkeye_bench.statistics import Values

MOST_REPEATS = 10
# The bootstrap of each synthetic experiment; the report's own takes more, to print the same ends each time.
_RESAMPLES = 999


class Assumptions(BaseModel):
    """What a synthetic experiment is drawn from. Logs are natural; the defaults are assumed, nothing measured them.

    The log speedup of a correct kernel is normal: its workload's own level, plus under treatment the workload's own
    gain, plus the noise of one run.
    """

    model_config = ConfigDict(extra="forbid")

    workloads: int = Field(ge=2)
    effect: float = Field(1.1, gt=0, description="True geometric mean of the paired ratio, among correct kernels.")
    sd_workloads: float = Field(
        0.15, ge=0, description="SD between workloads of the log of the true ratio: where the treatment helps more."
    )
    sd_pairs: float = Field(
        0.3, ge=0, description="SD of a pair's log ratio around its workload's: two runs' noise together."
    )
    speedup: float = Field(1.2, gt=0, description="Geometric mean speedup of correct kernels under control.")
    sd_speedup: float = Field(0.4, ge=0, description="SD between workloads of that, in logs.")
    success_treatment: float = Field(0.9, ge=0, le=1, description="Share of runs with a correct kernel.")
    success_control: float = Field(0.9, ge=0, le=1)
    failures: Failures = "baseline"
    penalty: float = Field(pairing.PENALTY, gt=0, description="Score of a failure under the rule penalised.")
    alpha: float = Field(1 - statistics.CONFIDENCE, gt=0, lt=1)
    origin: str = Field(
        "assumed: pairs of runs of one agent were taken to differ by 0.2 to 0.5 in logs; a pilot says more",
        description="Where these come from.",
    )


class Power(BaseModel):
    """For one number of repeats: shares of synthetic experiments, and one closed form to hold them against."""

    model_config = ConfigDict(extra="forbid")

    repeats: int
    wilcoxon: float = Field(description="The signed-rank test is below alpha.")
    interval: float = Field(description="The interval leaves 1 out.")
    t_test: float = Field(description="Student's test of the workloads' means, by noncentral t; no failures in it.")
    geomean: float = Field(description="The ratio that these experiments show on average, failures counted in.")


class PowerReport(BaseModel):
    model_config = ConfigDict(extra="forbid")

    assumptions: Assumptions
    target: float
    simulations: int
    seed: int
    by_repeats: list[Power]
    needed: int | None = Field(description="The fewest repeats whose two shares both reach the target; null if none.")
    said: list[str]


def simulate(given: Assumptions, repeats: int, experiments: int, rng: np.random.Generator) -> Values:
    """Means of log ratios, one row for each experiment and one column for each workload; NaN where all were dropped."""
    shape = (experiments, given.workloads, repeats)
    level = rng.normal(math.log(given.speedup), given.sd_speedup, (*shape[:2], 1))
    gain = rng.normal(math.log(given.effect), given.sd_workloads, (*shape[:2], 1))
    noise = given.sd_pairs / math.sqrt(2)
    logs = (level + gain + rng.normal(0, noise, shape), level + rng.normal(0, noise, shape))
    correct = (rng.random(shape) < given.success_treatment, rng.random(shape) < given.success_control)
    failed = math.log(given.penalty) if given.failures == "penalised" else 0.0
    one, other = (np.where(right, log, failed) for right, log in zip(correct, logs, strict=True))
    if given.failures != "dropped":
        return np.asarray((one - other).mean(axis=2))
    both = correct[0] & correct[1]
    count = both.sum(axis=2)
    return np.where(count > 0, np.where(both, one - other, 0.0).sum(axis=2) / np.maximum(count, 1), np.nan)


def power(given: Assumptions, repeats: int, *, simulations: int, seed: int) -> Power:
    """How often the primary analysis finds the effect with so many repeats."""
    means = simulate(given, repeats, simulations, np.random.default_rng([seed, repeats]))
    found = np.zeros(simulations, dtype=bool)
    told = np.zeros(simulations, dtype=bool)
    # Experiments that lost workloads are analysed with those that they have, like the report does.
    left = np.sum(~np.isnan(means), axis=1)
    for count in np.unique(left[left >= statistics.FEWEST_WORKLOADS]):
        rows = left == count
        values = means[rows][~np.isnan(means[rows])].reshape(-1, count)
        found[rows] = statistics.wilcoxon_p(values) < given.alpha
        low, high = statistics.interval_of_mean(values, seed=seed, confidence=1 - given.alpha, resamples=_RESAMPLES)
        told[rows] = (low > 0) | (high < 0)
    return Power(
        repeats=repeats,
        wilcoxon=float(found.mean()),
        interval=float(told.mean()),
        t_test=t_test_power(given, repeats),
        geomean=math.exp(float(np.nanmean(means))),
    )


def t_test_power(given: Assumptions, repeats: int) -> float:
    """Of the two-sided one-sample t-test on workloads' means, if no run fails."""
    deviation = math.sqrt(given.sd_workloads**2 + given.sd_pairs**2 / repeats)
    mean = math.log(given.effect)
    if deviation == 0:
        return float(mean != 0)
    degrees = given.workloads - 1
    shift = mean / deviation * math.sqrt(given.workloads)
    limit = stats.t.ppf(1 - given.alpha / 2, degrees)
    return float(stats.nct.sf(limit, degrees, shift) + stats.nct.cdf(-limit, degrees, shift))


def plan_repeats(
    given: Assumptions, *, target: float = 0.8, simulations: int = 1000, seed: int = 1, most: int = MOST_REPEATS
) -> PowerReport:
    """Power for 1, 2, ... repeats, up to the first that reaches the target by both the test and the interval."""
    by_repeats: list[Power] = []
    needed = None
    for repeats in range(1, most + 1):
        by_repeats.append(power(given, repeats, simulations=simulations, seed=seed))
        if min(by_repeats[-1].wilcoxon, by_repeats[-1].interval) >= target:
            needed = repeats
            break
    return PowerReport(
        assumptions=given,
        target=target,
        simulations=simulations,
        seed=seed,
        by_repeats=by_repeats,
        needed=needed,
        said=_said(given, needed, target, simulations, most),
    )


def from_pilot(runs: Iterable[Run], treatment: str, control: str, workloads: int, effect: float) -> Assumptions:
    """Assumptions from the finished runs of a pilot; the effect to detect stays a choice, never the pilot's own.

    The two variances are the one-way random-effects (ANOVA) estimates. With one repeat they cannot be told apart: all
    is then taken to lie between workloads, which repeats do not help, so the answer is on the safe side.

    Raises:
        ValueError: fewer than three workloads have a pair of correct kernels.
    """
    runs = list(runs)
    pairs, _ = pairing.pair_up(runs, treatment, control)
    source = pairing.headline_source(pairs)
    pairs = [pair for pair in pairs if pair.source == source]
    ratios = pairing.log_ratios(pairs, "dropped", pairing.PENALTY)
    if len(ratios) < 3:
        raise ValueError(
            f"a pilot needs a pair of correct kernels on at least 3 workloads, this one has {len(ratios)}: run more "
            "workloads under both conditions, or state the deviations yourself."
        )
    between, within = variances(list(ratios.values()))
    levels = [math.log(pair.control.speedup) for pair in pairs if pair.both_correct and pair.control.speedup]
    success = {
        name: float(np.mean([pairing.succeeded(run) for run in pairing.counted(runs) if run.condition == name]))
        for name in (treatment, control)
    }
    single = "; one repeat each, so all variance is taken to lie between workloads" if within is None else ""
    return Assumptions(
        workloads=workloads,
        effect=effect,
        sd_workloads=math.sqrt(between),
        sd_pairs=math.sqrt(within or 0.0),
        speedup=math.exp(np.mean(levels)),
        sd_speedup=float(np.std(levels, ddof=1)),
        success_treatment=success[treatment],
        success_control=success[control],
        origin=f"a pilot of {sum(map(len, ratios.values()))} pairs on {len(ratios)} workloads, {source}{single}; "
        "the effect is a choice",
    )


def variances(groups: list[list[float]]) -> tuple[float, float | None]:
    """Variance between groups and inside them, by the ANOVA estimator; inside is None if no group has two values."""
    sizes = np.array([len(group) for group in groups])
    means = np.array([np.mean(group) for group in groups])
    total = int(sizes.sum())
    if total == len(groups):
        return float(np.var(means, ddof=1)), None
    within = sum(float(np.sum((np.array(group) - np.mean(group)) ** 2)) for group in groups) / (total - len(groups))
    grand = float(np.sum(sizes * means) / total)
    mean_square = float(np.sum(sizes * (means - grand) ** 2)) / (len(groups) - 1)
    typical = (total - float(np.sum(sizes**2)) / total) / (len(groups) - 1)
    return max(0.0, (mean_square - within) / typical), within


def _said(given: Assumptions, needed: int | None, target: float, simulations: int, most: int) -> list[str]:
    error = 1.96 * math.sqrt(target * (1 - target) / simulations)
    said = [
        f"Assumptions ({given.origin}): {given.workloads} workloads; true ratio {given.effect:g}; its log varies by "
        f"{given.sd_workloads:.3g} (SD) between workloads and by {given.sd_pairs:.3g} between pairs of one workload; "
        f"correct kernels reach {given.speedup:.3g}x on average (SD of logs {given.sd_speedup:.3g}); "
        f"{given.success_treatment:.0%} and {given.success_control:.0%} of runs succeed with and without.",
        f"Failures: {COUNTED[given.failures]}.",
        f"Each figure is the share of {simulations} synthetic experiments; chance is +-{error:.3f} near {target:g}.",
        "Measured speedups are assumed. Predicted ones are told apart only if the interval with their errors leaves 1 out "
        "as well, which is rarer.",
    ]
    if given.workloads < statistics.FEWEST_WORKLOADS:
        return [*said, f"No plan with fewer than {statistics.FEWEST_WORKLOADS} workloads gets an interval or a test."]
    if needed is not None:
        return [*said, f"{needed} repeats reach a power of {target:g} at a level of {given.alpha:.3g}."]
    ceiling = t_test_power(given.model_copy(update={"sd_pairs": 0.0}), 1)
    return [
        *said,
        f"Up to {most} repeats do not reach {target:g}. With endless repeats and no failure Student's test would reach "
        f"{ceiling:.2f}: {'add workloads' if ceiling < target + 0.1 else 'add workloads or repeats'}, or set out to "
        "detect a larger effect.",
    ]

"""What the runs of a folder say about conditions: effects with their intervals and tests, success, fast_p.

A folder answers one primary question, set before the first run; all other comparisons are secondary and say so.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy import stats

from hawkeye_bench import hosts, statistics
from hawkeye_bench import pairs as pairing
from hawkeye_bench.pairs import FAILURES, Failures, LeftOut, Pair, Source
from hawkeye_bench.runs import Run
from hawkeye_mcp.profiler import interval

NO_EVIDENCE = "A fixed procedure, not a language model, made these kernels: no evidence about the conditions."
# The curve of fast_p: shares of runs that are correct and faster than this multiple of XLA's speed. At 0: correct.
FAST_P = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0)

Told = Literal["faster", "slower", "not told apart"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Choices(_Record):
    """What the analysis does that a reader could have wished otherwise; frozen with the plan."""

    treatment: str = "taxonomy"
    control: str = "none"
    failures: Failures = Field("baseline", description="How a run without a correct kernel counts.")
    estimate: Literal["geometric mean over workloads of the geometric mean over repeats"] = (
        "geometric mean over workloads of the geometric mean over repeats"
    )
    interval: Literal["percentile bootstrap over workloads, expanded level"] = (
        "percentile bootstrap over workloads, expanded level"
    )
    confidence: float = Field(statistics.CONFIDENCE, gt=0, lt=1)
    resamples: int = Field(statistics.RESAMPLES, ge=999)
    test: Literal["Wilcoxon signed-rank on workloads, two-sided, zeros by Pratt"] = (
        "Wilcoxon signed-rank on workloads, two-sided, zeros by Pratt"
    )
    seed: int = Field(20260801, description="Of the bootstrap and the permutation tests.")


class Effect(_Record):
    """Speedup under treatment over speedup under control, pair by pair. Null with a reason where it is unknown."""

    treatment: str
    control: str
    failures: Failures
    source: Source | None
    geomean: float | None = None
    ci95: tuple[float, float] | None = Field(None, description="At the confidence of the choices, 95 % by default.")
    ci95_with_prediction_error: tuple[float, float] | None = Field(
        None, description="Wider: every predicted speedup may be off as far as its own interval says."
    )
    wilcoxon_p: float | None = None
    sign_flip_p: float | None = Field(None, description="Permutation test of the same mean, workload by workload.")
    n_pairs: int
    n_workloads: int
    n_failed_pairs: int = Field(description="Pairs with at least one failed run, dropped ones among them.")
    told: Told | None = Field(
        None, description="Faster or slower only if every interval above leaves 1 out; null without an interval."
    )
    why: str = Field("", description="Why figures are null.")


class WorkloadEffect(_Record):
    """The paired ratio on one workload, by the primary rule for failures."""

    workload: str
    ratio: float
    n_pairs: int
    n_failed_runs: int
    source: Source | None
    algebraic: str = Field("", description="Work that a kernel may save by algebra: a speedup may be due to that.")


class PairedSuccess(_Record):
    """Correct kernels, pair by pair, whether or not their time is known."""

    both: int
    only_treatment: int
    only_control: int
    neither: int
    mcnemar_p: float | None = Field(
        description="Exact. Right if conditions change nothing on any workload; repeats of one workload count each."
    )
    sign_flip_p: float | None = Field(description="Of the difference of success rates, workload by workload.")


class Comparison(_Record):
    treatment: str
    control: str
    primary: bool
    effect: Effect
    sensitivity: list[Effect] = Field(description="The same under every rule for failures, for every source.")
    adjusted_p: float | None = Field(
        None, description="wilcoxon_p of a secondary comparison, Benjamini-Hochberg over the secondary ones."
    )
    workloads: list[WorkloadEffect]
    success: PairedSuccess
    left_out: list[LeftOut]


class Share(_Record):
    share: float
    low: float | None = Field(description="Null with fewer workloads than an interval needs.")
    high: float | None


class Success(Share):
    runs: int
    correct: int


class FastP(Share):
    """Share of all runs that are correct and more than p times as fast as XLA; workloads weigh the same."""

    p: float


class Analysis(_Record):
    choices: Choices
    comparisons: list[Comparison] = Field(description="The primary one first.")
    success: dict[str, Success]
    fast_p: dict[str, dict[Source, list[FastP]]] = Field(description="By condition; each source for itself.")
    penalised_score: float = Field(description="What a failure counts as under the rule penalised.")
    remarks: list[str]

    @property
    def primary(self) -> Comparison:
        return self.comparisons[0]


def choices_for(conditions: Sequence[str]) -> Choices:
    """The primary question of a plan with these conditions: taxonomy over none where it has both."""
    control = "none" if "none" in conditions else next((name for name in conditions if name != "taxonomy"), "none")
    others = [name for name in conditions if name != control]
    treatment = "taxonomy" if "taxonomy" in others or not others else others[0]
    return Choices(treatment=treatment, control=control)


def analyse(runs: Iterable[Run], choices: Choices | None = None) -> Analysis:
    """All of it, from the records of finished runs."""
    choices = choices or Choices()
    runs = list(runs)
    conditions = list(dict.fromkeys(run.condition for run in runs))
    penalty = pairing.penalised_score(pairing.counted(runs))
    compared = [_compare(runs, one, other, choices, penalty) for one, other in _questions(conditions, choices)]
    by_condition = {name: [run for run in pairing.counted(runs) if run.condition == name] for name in conditions}
    found = Analysis(
        choices=choices,
        comparisons=_adjusted(compared),
        success={name: _success(mine, choices) for name, mine in by_condition.items() if mine},
        fast_p={name: _fast_p(mine, choices) for name, mine in by_condition.items() if mine},
        penalised_score=penalty,
        remarks=[],
    )
    return found.model_copy(update={"remarks": _remarks(runs, found)})


def workload_means(ratios: dict[str, list[float]]) -> statistics.Values:
    """One value for each workload: the mean of the log ratios of its repeats."""
    return np.array([np.mean(values) for values in ratios.values()], dtype=np.float64)


def _questions(conditions: Sequence[str], choices: Choices) -> list[tuple[str, str]]:
    """The primary comparison, runs or not; then each other condition against its control, and its treatment against
    each other condition."""
    primary = (choices.treatment, choices.control)
    others = [(name, choices.control) for name in conditions if name not in primary]
    others += [(choices.treatment, name) for name in conditions if name not in primary]
    return [primary, *(pair for pair in others if set(pair) <= set(conditions))]


def _compare(runs: list[Run], treatment: str, control: str, choices: Choices, penalty: float) -> Comparison:
    pairs, left_out = pairing.pair_up(runs, treatment, control)
    headline = pairing.headline_source(pairs)
    sources = [source for source in get_args(Source) if any(pair.source == source for pair in pairs)]
    every = [
        _effect([pair for pair in pairs if pair.source == source], treatment, control, source, rule, choices, penalty)
        for source in sources or [None]
        for rule in FAILURES
    ]
    effect = next(one for one in every if one.source == headline and one.failures == choices.failures)
    return Comparison(
        treatment=treatment,
        control=control,
        primary=(treatment, control) == (choices.treatment, choices.control),
        effect=effect,
        sensitivity=every,
        workloads=_by_workload(pairs, choices.failures, penalty),
        success=_paired_success(runs, treatment, control, choices),
        left_out=left_out,
    )


def _effect(
    pairs: list[Pair],
    treatment: str,
    control: str,
    source: Source | None,
    failures: Failures,
    choices: Choices,
    penalty: float,
) -> Effect:
    ratios = pairing.log_ratios(pairs, failures, penalty)
    means = workload_means(ratios)
    found = Effect(
        treatment=treatment,
        control=control,
        failures=failures,
        source=source,
        n_pairs=sum(map(len, ratios.values())),
        n_workloads=len(ratios),
        n_failed_pairs=sum(not pair.both_correct for pair in pairs),
    )
    if any(pairing.is_builtin(run) for pair in pairs for run in (pair.treatment, pair.control)):
        return found.model_copy(update={"why": NO_EVIDENCE})
    if source is None or not ratios:
        return found.model_copy(update={"why": "no pair in which a correct kernel has a time"})
    found = found.model_copy(update={"geomean": math.exp(means.mean())})
    if len(means) < statistics.FEWEST_WORKLOADS:
        few = f"no interval and no test from {len(means)} workloads: {statistics.FEWEST_WORKLOADS} are the least"
        return found.model_copy(update={"why": few})
    low, high = statistics.interval_of_mean(
        means, seed=choices.seed, confidence=choices.confidence, resamples=choices.resamples
    )
    intervals = [(math.exp(low), math.exp(high))]
    wider = None
    why = ""
    if source == "predicted":
        wider = _with_prediction_error(pairs, means, failures, choices)
        if wider:
            intervals.append(wider)
        else:
            why = "how far these predictions may be off is not known, so nothing is told faster or slower"
    return found.model_copy(
        update={
            "ci95": intervals[0],
            "ci95_with_prediction_error": wider,
            "wilcoxon_p": float(statistics.wilcoxon_p(means)),
            "sign_flip_p": float(statistics.sign_flip_p(means, seed=choices.seed)),
            "told": "not told apart" if why else _told(intervals),
            "why": why,
        }
    )


def _told(intervals: list[tuple[float, float]]) -> Told:
    if all(low > 1 for low, _ in intervals):
        return "faster"
    return "slower" if all(high < 1 for _, high in intervals) else "not told apart"


def _with_prediction_error(
    pairs: list[Pair], means: statistics.Values, failures: Failures, choices: Choices, draws: int = 200
) -> tuple[float, float] | None:
    """The interval of the effect where each predicted speedup is off too, drawn from its own interval.

    That counts what differs between workloads twice, and XLA's time, which both sides share, as if it did not cancel:
    it is wider than need be. None where a run does not say how far its prediction may be off.
    """
    used = [pair for pair in pairs if failures != "dropped" or pair.both_correct]
    names = list(dict.fromkeys(pair.workload for pair in used))
    of_workload = {name: sum(pair.workload == name for pair in used) for name in names}
    rng = np.random.default_rng(choices.seed)
    noisy = np.tile(means, (draws, 1))
    # The intervals of predictions are taken as two half normal distributions that hold `interval.COVERAGE`.
    quantile = stats.norm.ppf((1 + interval.COVERAGE) / 2)
    for pair in used:
        for run, sign in ((pair.treatment, 1), (pair.control, -1)):
            if not pairing.succeeded(run):
                continue
            if run.speedup_interval is None or not run.speedup:
                return None
            low, high = (abs(math.log(end / run.speedup)) / quantile for end in run.speedup_interval)
            drawn = rng.standard_normal(draws)
            error = np.where(drawn < 0, drawn * low, drawn * high)
            noisy[:, names.index(pair.workload)] += sign * error / of_workload[pair.workload]
    again = stats.bootstrap(
        (noisy,), np.mean, axis=-1, n_resamples=999, method="percentile", batch=100, rng=rng
    ).bootstrap_distribution
    beyond = (1 - statistics.expanded(len(means), choices.confidence)) / 2
    low, high = np.quantile(again, (beyond, 1 - beyond))
    return math.exp(low), math.exp(high)


def _by_workload(pairs: list[Pair], failures: Failures, penalty: float) -> list[WorkloadEffect]:
    found = []
    # Never two sources in one ratio, so a workload that has both is there twice.
    for name, source in dict.fromkeys((pair.workload, pair.source) for pair in pairs):
        mine = [pair for pair in pairs if (pair.workload, pair.source) == (name, source)]
        values = pairing.log_ratios(mine, failures, penalty).get(name, [])
        if values:
            runs = [run for pair in mine for run in (pair.treatment, pair.control)]
            found.append(
                WorkloadEffect(
                    workload=name,
                    ratio=math.exp(np.mean(values)),
                    n_pairs=len(values),
                    n_failed_runs=sum(not pairing.succeeded(run) for run in runs),
                    source=source,
                    algebraic=runs[0].algebraic,
                )
            )
    return found


def _paired_success(runs: list[Run], treatment: str, control: str, choices: Choices) -> PairedSuccess:
    """Unlike a ratio it needs no time, so pairs that are in no ratio for want of one are here."""
    groups: dict[tuple[object, ...], dict[str, Run]] = {}
    for run in pairing.counted(runs):
        groups.setdefault((run.workload, run.repeat, run.tpu, run.agent, run.model), {})[run.condition] = run
    whole = [group for group in groups.values() if treatment in group and control in group]
    outcomes = [(pairing.succeeded(group[treatment]), pairing.succeeded(group[control])) for group in whole]
    differences: dict[str, list[float]] = {}
    for group, (one, other) in zip(whole, outcomes, strict=True):
        differences.setdefault(group[treatment].workload, []).append(float(one) - float(other))
    evidence = outcomes and not any(pairing.is_builtin(run) for group in whole for run in group.values())
    only_treatment, only_control = outcomes.count((True, False)), outcomes.count((False, True))
    return PairedSuccess(
        both=outcomes.count((True, True)),
        only_treatment=only_treatment,
        only_control=only_control,
        neither=outcomes.count((False, False)),
        mcnemar_p=statistics.mcnemar_p(only_treatment, only_control) if evidence else None,
        sign_flip_p=float(statistics.sign_flip_p(workload_means(differences), seed=choices.seed))
        if evidence and len(differences) >= statistics.FEWEST_WORKLOADS
        else None,
    )


def _shares(runs: list[Run], p: float) -> statistics.Values:
    """Of each workload, the share of its runs that are correct and faster than p times XLA; at 0, correct."""
    by_workload: dict[str, list[float]] = {}
    for run in runs:
        by_workload.setdefault(run.workload, []).append(float(_is_fast(run, p)))
    return np.array([np.mean(values) for values in by_workload.values()], dtype=np.float64)


def _is_fast(run: Run, p: float) -> bool:
    """A speedup of which only an upper bound is known may be less: it is not counted as fast."""
    if not pairing.succeeded(run):
        return False
    return p == 0 or (run.speedup is not None and not run.lower_bound and run.speedup > p)


def _share(shares: statistics.Values, choices: Choices) -> tuple[float, float | None, float | None]:
    if len(shares) < statistics.FEWEST_WORKLOADS:
        return float(shares.mean()), None, None
    low, high = statistics.interval_of_share(shares, seed=choices.seed, confidence=choices.confidence)
    return float(shares.mean()), low, high


def _success(runs: list[Run], choices: Choices) -> Success:
    share, low, high = _share(_shares(runs, 0), choices)
    return Success(share=share, low=low, high=high, runs=len(runs), correct=sum(map(pairing.succeeded, runs)))


def _fast_p(runs: list[Run], choices: Choices) -> dict[Source, list[FastP]]:
    """Runs without a correct kernel, or without its time, are in the curve of every source; others in their own."""
    found: dict[Source, list[FastP]] = {}
    for source in get_args(Source):
        mine = [run for run in runs if run.source in (source, None)]
        if any(run.source == source for run in mine):
            curve = []
            for p in FAST_P:
                share, low, high = _share(_shares(mine, p), choices)
                curve.append(FastP(p=p, share=share, low=low, high=high))
            found[source] = curve
    return found


def _adjusted(comparisons: list[Comparison]) -> list[Comparison]:
    """Secondary p-values, Benjamini-Hochberg over all of them."""
    asked = [one for one in comparisons if not one.primary and one.effect.wilcoxon_p is not None]
    if not asked:
        return comparisons
    values = stats.false_discovery_control([one.effect.wilcoxon_p for one in asked])
    by_name = {(one.treatment, one.control): float(p) for one, p in zip(asked, values, strict=True)}
    return [one.model_copy(update={"adjusted_p": by_name.get((one.treatment, one.control))}) for one in comparisons]


def _remarks(runs: list[Run], found: Analysis) -> list[str]:
    """What a reader must know before believing a figure."""
    said = []
    if any(map(pairing.is_builtin, runs)):
        said.append(NO_EVIDENCE)
    for name, why in sorted({(run.workload, run.no_power) for run in runs if run.no_power}):
        said.append(f"{name} is in no figure: no inputs can tell a wrong kernel. {why}")
    for name, what in sorted({(run.workload, run.algebraic) for run in runs if run.algebraic}):
        said.append(f"{name}: a speedup may be algebra rather than a faster kernel. {what}")
    said += hosts.told(runs)
    if len({run.source for run in runs if pairing.succeeded(run) and run.source}) > 1:
        said.append("Some speedups are predicted and some measured; each ratio and each curve is of one kind alone.")
    if any(run.baseline_lower_bound for run in pairing.counted(runs)):
        said.append(
            "XLA's time is a lower bound on some workloads: it cancels between two correct kernels, and where a failure "
            "is scored against it, what the other run gained is at least this."
        )
    if found.primary.effect.ci95 and found.primary.effect.n_workloads < statistics.ENOUGH_WORKLOADS:
        said.append(
            f"With fewer than {statistics.ENOUGH_WORKLOADS} workloads the interval is too short if only a few of them gain; "
            "`python -m hawkeye_bench.coverage` prints by how much."
        )
    if missing := found.primary.left_out:
        said.append(f"{len(missing)} pairs of the primary comparison are in no ratio; left_out says why for each.")
    return said

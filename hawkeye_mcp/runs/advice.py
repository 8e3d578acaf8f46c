"""Whether more work on a run is likely to pay: how far its best kernel is from what the chip allows, how many ideas in a
row brought nothing, and which are untested. A figure that is not known is null and its absence is a reason.
"""

import json
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp import content, workloads
from hawkeye_mcp.pool import Source
from hawkeye_mcp.profiler.roofline import roofline
from hawkeye_mcp.profiler.timing import MODELS
from hawkeye_mcp.runs.idea import Idea
from hawkeye_mcp.runs.model import Best, State
from hawkeye_mcp.runs.ranking import NO_VERDICT, key

# At 1.1 times the ceiling less than a tenth of the time is left to gain; as far below it the ceiling cannot be right.
CLOSE = 1.1
# Ideas in a row without a gain, each tested once: fewer are an ordinary streak of bad luck.
ENOUGH_NULL_RESULTS = 3
_EIGHT_BIT = ("int8", "uint8", "int4", "uint4", "float8")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Ceiling(_Strict):
    """The least time that the chip needs for what the workload asks."""

    us: float
    unit: str = Field(description="that binds: hbm or mxu")
    source: str


class Untested(_Strict):
    """An idea whose test is still ahead."""

    id: str
    status: str
    claim: str
    falsifiable_as: str


class Advice(_Strict):
    """What to do with a run, and the figures that it rests on."""

    advice: Literal["stop", "continue", "undecided"]
    reasons: list[str]
    best_evaluation_id: str | None = None
    best_us: float | None = None
    best_source: Source | None = Field(
        None, description="predicted or measured; the two are never set against each other"
    )
    ceiling: Ceiling | None = None
    distance: float | None = Field(None, description="best_us / ceiling.us; null if either is unknown or a lower bound")
    distance_interval: tuple[float, float] | None = Field(None, description="by the interval of the best time")
    null_results: int | None = Field(
        None,
        description="distinct ideas tested since the best last improved, without a gain; null if the ledger has no verdict",
    )
    kernels_since_best: int | None = Field(None, description="distinct kernels judged since then; null without a best")
    untested: list[Untested] = []


def stop_advice(state: State) -> Advice:
    """The advice on a run as its state stands."""
    source: Source = "measured" if state.best_measured else "predicted"
    best = state.best(source)
    untested = [
        Untested(**idea.model_dump(include=set(Untested.model_fields))) for idea in state.ideas if idea.untested
    ]
    if best is None:
        return Advice(advice="continue", reasons=[_nothing(state), _hypotheses(untested)], untested=untested)
    ceiling, unknown = _ceiling(state, best)
    figures = Advice(
        advice="undecided",
        reasons=[],
        best_evaluation_id=best.evaluation_id,
        best_us=best.candidate_us,
        best_source=source,
        ceiling=ceiling,
        null_results=_null_results(state, best),
        kernels_since_best=len(_since(state, best)),
        untested=untested,
    )
    if ceiling and best.candidate_us and not best.lower_bound:
        figures.distance = _figure(best.candidate_us / ceiling.us)
        if best.candidate_interval_us:
            low, high = best.candidate_interval_us
            figures.distance_interval = (_figure(low / ceiling.us), _figure(high / ceiling.us))
    return _decided(figures, _distance(figures, best, unknown))


def _nothing(state: State) -> str:
    judged = {result.kernel_sha256 for result in state.evaluations if result.status not in NO_VERDICT}
    correct = {result.kernel_sha256 for result in state.evaluations if result.status == "correct"}
    if correct:
        return (
            f"{len(correct)} of {len(judged)} kernels were found correct, but none has a time by the judge, the compiler and "
            "the workload as they are now: evaluate the best of them again."
        )
    return f"No kernel of this run is known to be correct; {_counted(len(judged), 'kernel').lower()} judged."


def _decided(figures: Advice, distance: str) -> Advice:
    """The advice that the figures come to. distance: what is said of it."""
    stalled = (figures.null_results or 0) >= ENOUGH_NULL_RESULTS
    advice: Literal["stop", "continue", "undecided"]
    if figures.distance is not None and 1 / CLOSE <= figures.distance <= CLOSE:
        advice = "stop"
    elif stalled:
        advice = "undecided" if figures.untested else "stop"
    elif (figures.distance or 0) > CLOSE or figures.kernels_since_best == 0:
        advice = "continue"
    else:
        advice = "undecided"
    return figures.model_copy(
        update={"advice": advice, "reasons": [distance, _streak(figures), _hypotheses(figures.untested)]}
    )


def _distance(figures: Advice, best: Best, unknown: str) -> str:
    ceiling = figures.ceiling
    if ceiling is None:
        return f"How far the best is from its ceiling is not known: {unknown}"
    name = f"the {ceiling.unit} ceiling of {_us(ceiling.us)} us ({ceiling.source})"
    if best.lower_bound:
        return f"The best {figures.best_source} time is only a lower bound, so it is not set against {name}."
    if figures.distance is None:
        return f"The best kernel has no time to set against {name}."
    interval = figures.distance_interval
    spread = f", between {interval[0]:.3g} and {interval[1]:.3g} by its interval" if interval else ""
    verdict = "there is room" if figures.distance > CLOSE else "less than a tenth of it is left to gain"
    if figures.distance <= CLOSE and interval and interval[1] > CLOSE:
        verdict += ", though at the far end of the interval there is room"
    if figures.distance < 1 / CLOSE:
        verdict = "so that ceiling does not hold for it, and how much is left to gain is not known"
    return (
        f"The best {figures.best_source} time, {_us(best.candidate_us)} us (evaluation {best.evaluation_id}), is "
        f"{figures.distance:.3g} times {name}{spread}: {verdict}."
    )


def _streak(figures: Advice) -> str:
    kernels = f"{_counted(figures.kernels_since_best, 'other kernel')} judged since the best"
    if figures.null_results is None:
        return f"{kernels}. The ledger has no verdict, so how many ideas brought nothing is not known."
    enough = "enough to" if figures.null_results >= ENOUGH_NULL_RESULTS else "too few to"
    return f"{kernels}; {_counted(figures.null_results, 'idea').lower()} tested there without a gain, {enough} call it stalled."


def _counted(number: int | None, what: str) -> str:
    return f"{number} {what} was" if number == 1 else f"{number or 'No'} {what}s were"


def _hypotheses(untested: list[Untested]) -> str:
    if not untested:
        return "The ledger holds no untested idea."
    return "Untested: " + ", ".join(f"{idea.id} ({idea.status})" for idea in untested) + "."


def _since(state: State, best: Best) -> set[str]:
    """Kernels judged after the one that is best, without itself."""
    later = [result for result in state.evaluations[_found(state, best) + 1 :] if result.status not in NO_VERDICT]
    return {result.kernel_sha256 for result in later} - {best.kernel_sha256}


def _null_results(state: State, best: Best) -> int | None:
    """Ideas whose verdict rests on an evaluation after the best was found, none of which improved on it."""
    place = {result.id: i for i, result in enumerate(state.evaluations)}
    evidence = [place[found] for idea in state.ideas if (found := _evidence(idea)) in place]
    return sum(at > _found(state, best) for at in evidence) if evidence else None


def _found(state: State, best: Best) -> int:
    """Where the best kernel first had the best time: judging it again to the same end is no progress."""
    figures = next(result for result in state.evaluations if result.id == best.evaluation_id)
    return next(
        place
        for place, result in enumerate(state.evaluations)
        if (result.kernel_sha256, result.fingerprint, result.source)
        == (best.kernel_sha256, figures.fingerprint, figures.source)
        and key(result) <= key(figures)
    )


def _evidence(idea: Idea) -> str | None:
    return idea.history[-1].evaluation_id if idea.status in ("confirmed", "refuted") else None


def _ceiling(state: State, best: Best) -> tuple[Ceiling | None, str]:
    """What binds the workload on the chip, or why that is not known.

    A profile of the best kernel knows which rate of the matrix units applies to it; without one the rate of bfloat16
    does, unless 8-bit numbers are among the inputs.
    """
    for profile in reversed(state.profiles):
        if profile.kernel_sha256 == best.kernel_sha256 and profile.ceiling_us and profile.ceiling_unit:
            told = f"profile {profile.id}; {profile.ceiling_source or 'its roofline'}"
            return Ceiling(us=profile.ceiling_us, unit=profile.ceiling_unit, source=told), ""
    try:
        workload = workloads.find(state.workload_folder or state.workload)
    except workloads.UnknownWorkload as error:
        return None, str(error)
    if any(array.dtype.startswith(_EIGHT_BIT) for array in workload.inputs):
        return (
            None,
            "it has 8-bit inputs, and which rate of the matrix units holds depends on the kernel; profile the best.",
        )
    peaks = _peaks(state.tpu)
    if not peaks:
        return None, f"the peaks of {state.tpu} are not among the shipped baselines; profile the best kernel."
    lasting = {
        "hbm_bytes_per_s": peaks["hbm_bytes_per_s"] * MODELS[state.tpu].hbm,
        "bf16_flops_per_s": peaks["bf16_flops_per_s"] * MODELS[state.tpu].clock,
    }
    found = roofline(workload, state.tpu, lasting, None, moved_bytes=None, eight_bit=False, counters={})
    binding = next(ceiling for ceiling in found.ceilings if ceiling.unit == found.binding)
    return Ceiling(us=found.best_us, unit=found.binding, source=binding.source), ""


@cache
def _peaks(tpu: str) -> dict[str, float]:
    """Peaks of a chip as jax's TpuInfo has them; from the shipped baselines, since jax stays out of this process."""
    try:
        entries = json.loads((content.folder("workloads") / "baselines" / f"{tpu}.json").read_bytes())
        return next(
            {name: float(entry["peaks"][name]) for name in ("hbm_bytes_per_s", "bf16_flops_per_s")}
            for entry in entries.values()
            if entry.get("peaks")
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return {}


def _us(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}" if value >= 1e4 else f"{value:.4g}"


def _figure(value: float) -> float:
    return float(f"{value:.4g}")

"""Statistics of interleaved measurements: order of the rounds, medians with their intervals, and what may be claimed.

In each round the candidate, the baseline and the baseline once more (the control) run in random order, so that what
drifts hits all three and cancels in the ratios within a round. The control over the baseline is what a speedup of
nothing looks like on this device today: no speedup is claimed that it could explain.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.evaluation import Interval, Side

ROUNDS = 12
SIDES = ("candidate", "baseline", "control")
RESAMPLES = 10_000
CONFIDENCE = 0.95
# Ratios closer to 1 than this are not told apart however calm the control was: it ran in the same minutes, and cannot
# show what differs from one session to the next.
LEAST_NOISE = 0.01
# Below this share of the hardware's floor a time cannot be that of the whole work; the rest is room for the chip's clock.
IMPOSSIBLE = 0.95

Verdict = Literal["faster", "slower", "indistinguishable", "void"]


def order(seed: int, rounds: int = ROUNDS) -> list[list[str]]:
    """The order of the sides in each round."""
    rng = np.random.default_rng(seed)
    return [[SIDES[at] for at in rng.permutation(len(SIDES))] for _ in range(rounds)]


def interval(values: Sequence[float], seed: int) -> Interval:
    """The median with its percentile bootstrap interval."""
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(len(sample), size=(RESAMPLES, len(sample)))
    medians = np.median(sample[drawn], axis=1)
    low, high = np.percentile(medians, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return Interval(median=_rounded(np.median(sample)), low=_rounded(low), high=_rounded(high))


def ratio(above: Sequence[float], below: Sequence[float], seed: int) -> Interval:
    """Median over the rounds of above / below, paired by round."""
    logs: NDArray[np.float64] = np.log(np.asarray(above, dtype=np.float64) / np.asarray(below, dtype=np.float64))
    found = interval([float(x) for x in logs], seed)
    return Interval(
        median=_rounded(np.exp(found.median)), low=_rounded(np.exp(found.low)), high=_rounded(np.exp(found.high))
    )


def noise(control: Interval) -> float:
    """How far from 1, as a share, a ratio can lie that means nothing: as far as the control's interval reaches."""
    return _rounded(max(LEAST_NOISE, control.high - 1, 1 / control.low - 1))


def drifted(control: Interval) -> bool:
    """Whether the baseline differs from itself: by more than the least noise, with an interval that leaves out 1."""
    apart = max(control.median, 1 / control.median) - 1 > LEAST_NOISE
    return apart and not control.low <= 1 <= control.high


def conclude(
    sides: Mapping[str, Side], speedup: Interval, control: Interval, least_us: float, ceiling: str
) -> tuple[Verdict, str]:
    """What may be claimed, and why.

    least_us: what the hardware cannot do the work in less than; ceiling: the resource that says so.
    """
    for name in ("candidate", "baseline"):
        took = sides[name].us.median
        if took < IMPOSSIBLE * least_us:
            return (
                "void",
                f"the {name} took {took:.4g} us where {ceiling} alone take {least_us:.4g} us: it cannot have done the work",
            )
    if drifted(control):
        return "void", f"the baseline measured {control.median:.4g} times itself: the machine is not quiet enough"
    within = noise(control)
    if speedup.low > 1 + within:
        return "faster", f"all of the interval lies above the noise of {100 * within:.2g} %"
    if speedup.high < 1 / (1 + within):
        return "slower", f"all of the interval lies below the noise of {100 * within:.2g} %"
    return (
        "indistinguishable",
        f"the ratio's interval, {speedup.low:.4g} to {speedup.high:.4g}, reaches into the noise of {100 * within:.2g} %",
    )


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")

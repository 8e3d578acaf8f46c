"""The order of points, and how a point is written."""

from collections import Counter
from collections.abc import Mapping, Sequence

from hawkeye_mcp.autotune.model import Looked, Source


def ranked_by(looked: Sequence[Looked]) -> Source:
    """Measured times only where every point with a time has one: the two are never compared."""
    timed = [each for each in looked if each.timed]
    return "measured" if timed and all(each.measured_us is not None for each in timed) else "predicted"


def ranked(looked: Sequence[Looked]) -> list[Looked]:
    """Points with a time, best first: those whose time is only a lower bound after all others, and of those that are as
    fast the one that was proposed first, which the file's own values are.
    """
    by = ranked_by(looked)

    def key(each: Looked) -> tuple[bool, float]:
        us = each.measured_us if by == "measured" else each.predicted_us
        return each.lower_bound, us or 0.0

    return sorted((each for each in looked if each.timed), key=key)


def counted(looked: Sequence[Looked]) -> dict[str, int]:
    """Points by what became of them: predicted, estimated only, no time, or the status of what ended them."""
    kinds = Counter(
        each.status if each.status != "profiled"
        else "predicted" if each.timed
        else "estimated" if each.rung == "estimate"
        else "no_time"
        for each in looked
    )  # fmt: skip
    return dict(kinds.most_common())


def shown(point: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in point.items())

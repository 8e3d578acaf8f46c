"""Figures as words, the same on the whole page. What is unknown is "unknown", never 0."""

from collections.abc import Sequence

UNKNOWN = "unknown"


def ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}x"


def interval(ends: Sequence[float] | None) -> str:
    return UNKNOWN if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"


def p(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


def share_between(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.0%}" if low is None or high is None else f"{value:.0%} ({low:.0%} to {high:.0%})"


def count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def dollars(value: float | None) -> str:
    return UNKNOWN if value is None else f"${value:,.2f}"


def seconds(value: float) -> str:
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def clock(value: float) -> str:
    """Minutes and seconds."""
    return f"{int(value) // 60}:{int(value) % 60:02}"


def many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

"""Charts as inline SVG: scales, axes and marks. Colours are classes of the page's style sheet, so that they follow its
light and dark; a series is also told by its marker's shape.

All lengths are pixels. A chart is drawn once for each width that a page may have, so that text keeps its size.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

WIDE, NARROW = 940, 344
# Of text, as in page.css; the narrow chart may be shrunk to 0.93 on the smallest phones and is then above 12 px.
FONT = 13
# Mean width of one in that size, in the widest of the fonts that a reader may have; bold ones take a tenth more.
_CHARACTER = 8.4
SHAPES = 6
_FINE = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))


def tag(name: str, *inside: str | Markup, **attributes: Any) -> Markup:
    """One element with everything in it escaped; `class_` is class, other underscores are dashes, None is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_shown(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>{''.join(map(escape, inside))}</{name}>")


def _shown(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(value)


@dataclass(frozen=True)
class Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def ticks(self, most: int) -> list[float]:
        """At most so many round values, from low to high."""
        if self.log and self.high / self.low > 4:
            return self._log_ticks(most)
        step = _round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(place * step, 12) for place in range(first, last + 1)]

    def _log_ticks(self, most: int) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for digits in _FINE:
            inside = [digit * 10.0**decade for decade in decades for digit in digits]
            inside = [value for value in inside if self.low * 0.999 <= value <= self.high * 1.001]
            if len(inside) > most:
                return found or inside[:: math.ceil(len(inside) / most)]
            found = inside
        return found


def scale(values: Iterable[float], start: float, end: float, *, log: bool = False, also: Sequence[float] = ()) -> Scale:
    """One that shows every value, and those of `also`, with some room on either side; a linear one begins at 0 where
    nothing is negative."""
    every = [*values, *also] or [1.0]
    low, high = min(every), max(every)
    if log:
        room = max((high / low) ** 0.06, 1.05)
        return Scale(low / room, high * room, start, end, log=True)
    low = min(0.0, low)
    return Scale(low, high if high > low else low + 1.0, start, end)


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * 0.999)


def svg(width: float, height: float, label: str, *inside: Markup) -> Markup:
    """The whole drawing; label: what a screen reader says."""
    return tag(
        "svg",
        *inside,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        aria_label=label,
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", class_: str | None = None) -> Markup:
    return tag("text", words, x=x, y=y, text_anchor=anchor if anchor != "start" else None, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str, *, closed: bool = False) -> Markup:
    told = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return tag("path", d=told + ("Z" if closed else ""), class_=class_)


def steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of a line that keeps each height until the next point."""
    found: list[tuple[float, float]] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def marker(series: int, x: float, y: float, size: float, class_: str, title: str = "") -> Markup:
    """A mark whose shape tells the series as its colour does; title: shown under the pointer."""
    told = [tag("title", title)] if title else []
    class_ = f"s{series % SHAPES} {class_}"
    if series % SHAPES == 0:
        return tag("circle", *told, cx=x, cy=y, r=float(size), class_=class_)
    corners = {
        1: [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2: [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
        3: [(0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        4: [(0, 1.2), (1.1, -0.9), (-1.1, -0.9)],
        5: [(-1.2, -0.5), (0, -1.2), (1.2, -0.5), (0.8, 1), (-0.8, 1)],
    }[series % SHAPES]
    told_path = "M" + "L".join(f"{x + size * a:.1f} {y + size * b:.1f}" for a, b in corners) + "Z"
    return tag("path", *told, d=told_path, class_=class_)


def cross(series: int, x: float, y: float, size: float, title: str = "") -> Markup:
    """The mark of a failure."""
    told = [tag("title", title)] if title else []
    ways = (
        f"M{x - size:.1f} {y - size:.1f}l{2 * size:.1f} {2 * size:.1f}m0 {-2 * size:.1f}l{-2 * size:.1f} {2 * size:.1f}"
    )
    return tag("path", *told, d=ways, class_=f"s{series % SHAPES} cross")


def x_axis(x: Scale, top: float, bottom: float, title: str, *, most: int = 8, ticks: Sequence[float] = ()) -> Markup:
    """Vertical grid lines, their values under them, and below these what they are."""
    parts = []
    for value in ticks or x.ticks(most):
        parts += [
            line(x(value), top, x(value), bottom, "grid"),
            text(x(value), bottom + 17, short(value), anchor="middle"),
        ]
    middle = (x.start + x.end) / 2
    return Markup("").join([*parts, text(middle, bottom + 36, title, anchor="middle", class_="axis")])


def y_axis(y: Scale, left: float, right: float, title: str, *, most: int = 6) -> Markup:
    """Horizontal grid lines, their values at the left, and above all what they are."""
    parts = []
    for value in y.ticks(most):
        parts += [
            line(left, y(value), right, y(value), "grid"),
            text(left - 6, y(value) + 4, short(value), anchor="end"),
        ]
    return Markup("").join([*parts, text(2, y.end - 12, title, class_="axis")])


def short(value: float) -> str:
    """A tick's value in few letters."""
    for letter, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}"


def fitted(words: str, width: float, *, bold: bool = False) -> str:
    """The words, cut to what fits the width."""
    most = max(4, int(width / (_CHARACTER * (1.1 if bold else 1))))
    return words if len(words) <= most else words[: most - 1] + "…"

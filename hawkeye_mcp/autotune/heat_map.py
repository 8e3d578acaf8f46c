"""A search as one picture: the two parameters that matter most, the best time in each cell. matplotlib is imported when
drawing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hawkeye_mcp.autotune.model import Autotuned, Looked
from hawkeye_mcp.autotune.ranking import shown
from hawkeye_mcp.display import us
from hawkeye_mcp.picture import cut, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["timed", "estimated", "refused", "failed", "unseen"]

_DPI = 100
_CELL_IN, _LEFT_IN, _ABOVE_IN, _BELOW_IN, _RIGHT_IN, _LEAST_WIDE_IN = (1.15, 0.55), 1.5, 0.95, 1.95, 0.3, 8.4  # inches
_MAP = "YlGnBu"  # ordered by lightness, which the colour-blind see too
_DARK = 0.55  # of the colour scale: from there on black is hard to read
_SMALL, _PLAIN, _LARGE = 9, 11, 14  # points
_SMALL_LETTER_IN, _BOLD_LETTER_IN = 0.085, 0.105  # inches, of capitals: at size small, and bold at size plain
_WINNER, _FAINT, _INK = "#D55E00", "#666666", "#000000"
_FRAME = "#BBBBBB"
_OWN: dict[str, Any] = {"edgecolor": "#CC79A7", "linewidth": 2, "linestyle": "--"}  # seen on every colour of the map
_MOST_VALUES = 24  # of one parameter that a picture holds
_HATCH: dict[Kind, str] = {"refused": "///", "failed": "xxx"}
_WORDS: dict[Kind, str] = {
    "estimated": "estimated only (~), left there by successive halving",
    "refused": "the TPU compiler refuses every point looked at",
    "failed": "no point looked at has a time, for another reason",
    "unseen": "not looked at, or excluded by a constraint",
}


@dataclass(frozen=True)
class Cell:
    kind: Kind
    us: float | None


def axes_of(found: Autotuned) -> tuple[str, str | None]:
    """The names down and across: of those with several values the two by whose choice the best time changes most."""
    names = [name for name, values in found.parameters.items() if len(values) > 1] or list(found.parameters)[:1]

    def effect(name: str) -> float:
        best: dict[int, float] = {}
        for each in found.looked_at:
            if (time := _time(found, each)) is not None:
                value = each.parameters[name]
                best[value] = min(best.get(value, math.inf), time)
        return max(best.values()) / min(best.values()) if best else 0.0

    chosen = sorted(names, key=effect, reverse=True)[:2]
    first, *second = sorted(chosen, key=list(found.parameters).index)
    return first, second[0] if second else None


def cells(found: Autotuned, down: str, across: str | None) -> dict[tuple[int, int | None], Cell]:
    """By the two values: the best over all other parameters."""
    points: dict[tuple[int, int | None], list[Looked]] = {}
    for each in found.looked_at:
        points.setdefault((each.parameters[down], each.parameters[across] if across else None), []).append(each)
    return {place: _cell(found, there) for place, there in points.items()}


def _cell(found: Autotuned, there: Sequence[Looked]) -> Cell:
    if times := [time for each in there if (time := _time(found, each)) is not None]:
        return Cell("timed", min(times))
    if estimates := [each.estimate_us for each in there if each.rung == "estimate" and each.estimate_us is not None]:
        return Cell("estimated", min(estimates))
    return Cell("refused" if all(each.refused for each in there) else "failed", None)


def around(values: Sequence[int], best: int | None) -> list[int]:
    """The values in order, or as many neighbours of the best one as a picture holds."""
    ordered = sorted(values)
    first = ordered.index(best) - _MOST_VALUES // 2 if best in ordered else 0
    first = max(0, min(first, len(ordered) - _MOST_VALUES))
    return ordered[first : first + _MOST_VALUES]


def _time(found: Autotuned, each: Looked) -> float | None:
    return each.measured_us if found.ranked_by == "measured" else each.predicted_us


def png(found: Autotuned) -> bytes:
    return drawn(lambda: _figure(found))


def _figure(found: Autotuned) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    down, across = axes_of(found)
    best = found.best or next((each for each in found.looked_at if each.timed), None)
    winner = (best.parameters[down], best.parameters[across] if across else None) if best else None
    rows = around(found.parameters[down], winner[0] if winner else None)
    columns: list[int | None] = (
        list(around(found.parameters[across], winner[1] if winner else None)) if across else [None]
    )
    width = max(_LEAST_WIDE_IN, _LEFT_IN + _CELL_IN[0] * len(columns) + _RIGHT_IN)
    height = _ABOVE_IN + _CELL_IN[1] * len(rows) + _BELOW_IN
    made = Figure(figsize=(width, height), dpi=_DPI)
    FigureCanvasAgg(made)
    axes = made.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    _head(axes, found, down, across)
    places = {(value, other) for value in rows for other in columns}
    known = {place: cell for place, cell in cells(found, down, across).items() if place in places}
    times = [cell.us for cell in known.values() if cell.kind == "timed" and cell.us]
    for row, value in enumerate(rows):
        for column, other in enumerate(columns):
            place = (_LEFT_IN + _CELL_IN[0] * column, _ABOVE_IN + _CELL_IN[1] * row)
            _draw(axes, place, known.get((value, other), Cell("unseen", None)), times, winner == (value, other))
            if (found.own[down], found.own[across] if across else None) == (value, other):
                _outline(axes, place)
    _labels(axes, down, across, rows, columns)
    _legend(axes, found, {cell.kind for cell in known.values()}, len(known) < len(rows) * len(columns), height)
    return made


def _head(axes: "Axes", found: Autotuned, down: str, across: str | None) -> None:
    axes.text(0.15, 0.35, f"{found.workload} on {found.tpu}: time by block size", size=_LARGE, weight="bold")
    rest = [name for name, values in found.parameters.items() if name not in (down, across) and len(values) > 1]
    told = f"us, {found.ranked_by}{', not measured' if found.ranked_by == 'predicted' else ''}"
    told += f"; each cell is the best over {', '.join(rest)}" if rest else ""
    for name in filter(None, (down, across)):
        if (number := len(found.parameters[name])) > _MOST_VALUES:
            told += f"; {_MOST_VALUES} of {number} values of {name}"
    axes.text(0.15, 0.62, cut(told, int((axes.get_xlim()[1] - 0.3) / _SMALL_LETTER_IN)), size=_SMALL, color=_FAINT)


def _draw(axes: "Axes", place: tuple[float, float], cell: Cell, times: Sequence[float], winner: bool) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    fast = _fastness(cell.us, times) if cell.kind == "timed" and cell.us else 0.0
    (left, top), (wide, high) = place, _CELL_IN
    axes.add_patch(
        Rectangle(
            (left + 0.03, top + 0.03), wide - 0.06, high - 0.06,
            facecolor=colormaps[_MAP](fast) if cell.kind == "timed" else "white",
            hatch=_HATCH.get(cell.kind, ""),
            edgecolor=_WINNER if winner else _FRAME if cell.us or cell.kind == "unseen" else "#888888", linewidth=3 if winner else 0.6, zorder=3 if winner else 2,
        )
    )  # fmt: skip
    if cell.us is None:
        return
    text = us(float(f"{cell.us:.4g}"))
    axes.text(
        left + wide / 2, top + high / 2, f"~{text}" if cell.kind == "estimated" else text,
        size=_PLAIN if cell.kind == "timed" else _SMALL, ha="center", va="center", zorder=4,
        color="white" if fast > _DARK else _INK if cell.kind == "timed" else _FAINT,
        weight="bold" if winner else "normal",
    )  # fmt: skip


def _outline(axes: "Axes", place: tuple[float, float]) -> None:
    from matplotlib.patches import Rectangle

    (left, top), (wide, high) = place, _CELL_IN
    axes.add_patch(Rectangle((left + 0.08, top + 0.08), wide - 0.16, high - 0.16, facecolor="none", zorder=5, **_OWN))


def _fastness(time: float, times: Sequence[float]) -> float:
    """0 for the slowest of the times, 1 for the fastest, by their logarithms."""
    slowest, fastest = math.log(max(times)), math.log(min(times))
    return (slowest - math.log(time)) / (slowest - fastest) if slowest > fastest else 0.5


def _labels(axes: "Axes", down: str, across: str | None, rows: Sequence[int], columns: Sequence[int | None]) -> None:
    for row, value in enumerate(rows):
        axes.text(
            _LEFT_IN - 0.1, _ABOVE_IN + _CELL_IN[1] * (row + 0.5), str(value), size=_PLAIN, ha="right", va="center"
        )
    axes.text(
        0.3, _ABOVE_IN + _CELL_IN[1] * len(rows) / 2, cut(down, int((0.4 + _CELL_IN[1] * len(rows)) / _BOLD_LETTER_IN)), size=_PLAIN, rotation=90, ha="center", va="center",
        weight="bold",
    )  # fmt: skip
    if across is None:
        return
    below = _ABOVE_IN + _CELL_IN[1] * len(rows) + 0.2
    for column, other in enumerate(columns):
        axes.text(_LEFT_IN + _CELL_IN[0] * (column + 0.5), below, str(other), size=_PLAIN, ha="center", va="center")
    middle = _LEFT_IN + _CELL_IN[0] * len(columns) / 2
    axes.text(middle, below + 0.27, across, size=_PLAIN, ha="center", va="center", weight="bold")


def _legend(axes: "Axes", found: Autotuned, kinds: set[Kind], gaps: bool, height: float) -> None:
    from matplotlib.patches import Rectangle

    frame, hatched = {"edgecolor": _FRAME, "linewidth": 0.6}, {"edgecolor": "#888888", "linewidth": 0.6}
    marks: list[tuple[str, dict[str, Any]]] = []
    if found.best:
        told = f"found correct and fastest: {shown(found.best.parameters)}"
        marks.append((told, {"edgecolor": _WINNER, "linewidth": 3}))
    marks.append((f"the file as it is: {shown(found.own)}", _OWN))
    if "estimated" in kinds:
        marks.append((_WORDS["estimated"], frame))
    if "refused" in kinds:
        marks.append((_WORDS["refused"], {**hatched, "hatch": _HATCH["refused"]}))
    if "failed" in kinds:
        marks.append((_WORDS["failed"], {**hatched, "hatch": _HATCH["failed"]}))
    if gaps:
        marks.append((_WORDS["unseen"], frame))
    for place, (text, style) in enumerate(marks):
        top = height - 1.25 + 0.2 * place
        axes.add_patch(Rectangle((0.15, top), 0.34, 0.15, facecolor="white", **style))
        axes.text(
            0.6, top + 0.08, cut(text, int((axes.get_xlim()[1] - 0.75) / _SMALL_LETTER_IN)), size=_SMALL, va="center"
        )
        if text == _WORDS["estimated"]:
            axes.text(0.32, top + 0.08, "~", size=_SMALL, ha="center", va="center", color=_FAINT, zorder=5)

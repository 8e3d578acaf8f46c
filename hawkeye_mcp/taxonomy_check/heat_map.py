"""Verified cells as one picture: rows by chips, coloured by the predicted speedup. matplotlib is imported when drawing."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hawkeye_mcp import taxonomy
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.picture import drawn
from hawkeye_mcp.taxonomy_check.report import Verified
from hawkeye_mcp.versions import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 100
_CELL_IN, _TITLES_IN, _ABOVE_IN, _BELOW_IN = (1.2, 0.4), 5.1, 1.0, 0.4  # inches
_MAP = "YlGnBu"  # ordered by lightness, which the colour-blind see too
_DARK = 0.55  # of the colour scale: from there on black is hard to read
_SMALL, _PLAIN, _LARGE = 9, 11, 14  # points
_FAILED, _FAINT = "#D55E00", "#666666"


def png(found: Sequence[Verified]) -> bytes:
    """A PNG of rows by chips; what was not verified stays empty."""
    return drawn(lambda: _figure(found))


def _figure(found: Sequence[Verified]) -> "Figure":
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    rows = sorted({each.row for each in found})
    tpus = [tpu for tpu in TPUS if any(each.tpu == tpu for each in found)]
    wide = _TITLES_IN + _CELL_IN[0] * len(tpus) + 0.2
    high = _ABOVE_IN + _CELL_IN[1] * len(rows) + _BELOW_IN
    made = Figure(figsize=(wide, high), dpi=_DPI)
    FigureCanvasAgg(made)
    axes = made.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, wide), ylim=(high, 0))
    axes.axis("off")
    axes.text(0.15, 0.35, "What each technique buys, by chip", size=_LARGE, weight="bold")
    axes.text(
        0.15, 0.6, "naive time / optimized time, predicted by the TPU compiler, not measured", size=_SMALL, color=_FAINT
    )
    most = max(
        (math.log(each.predicted_speedup) for each in found if each.predicted_speedup and each.predicted_speedup > 1),
        default=1.0,
    )
    for across, tpu in enumerate(tpus):
        axes.text(_TITLES_IN + _CELL_IN[0] * (across + 0.5), _ABOVE_IN - 0.1, tpu, size=_PLAIN, ha="center")
    for down, row in enumerate(rows):
        top = _ABOVE_IN + _CELL_IN[1] * down
        title = next(taxonomy.cell(each.tpu, row).title for each in found if each.row == row)
        axes.text(0.15, top + _CELL_IN[1] / 2, f"{row[:2]}  {title}", size=_PLAIN, va="center")
        for each in found:
            if each.row != row:
                continue
            left = _TITLES_IN + _CELL_IN[0] * tpus.index(each.tpu)
            at = max(0.0, math.log(each.predicted_speedup)) / most if each.predicted_speedup else 0.0
            colour = colormaps[_MAP](at) if each.predicted_speedup and each.applies else "white"
            text, ink = _told(each), "white" if at > _DARK and each.applies else "black"
            edge = "white" if each.ok else _FAILED
            axes.add_patch(
                Rectangle(
                    (left + 0.02, top + 0.02), _CELL_IN[0] - 0.04, _CELL_IN[1] - 0.04,
                    facecolor=colour, edgecolor=edge, linewidth=1 if each.ok else 2.5,
                )
            )  # fmt: skip
            axes.text(
                left + _CELL_IN[0] / 2, top + _CELL_IN[1] / 2, text, size=_PLAIN if each.applies else _SMALL,
                ha="center", va="center", color=ink if each.applies else _FAINT,
            )  # fmt: skip
    pinned = versions()
    told = f"jax {pinned.jax}, libtpu {pinned.libtpu}; an orange frame: the cell does not hold"
    axes.text(0.15, high - 0.12, told, size=_SMALL, color=_FAINT)
    return made


def _told(found: Verified) -> str:
    if found.predicted_speedup is None:
        return "?"
    if not found.applies:
        return "does not apply"
    return f"{found.predicted_speedup:.3g}x"

"""A profile as one small picture: its point under the roofline, where the cycles go, how full the hot loop's slots are.

Colours are Okabe and Ito's (jfly.uni-koeln.de/color), told apart by the colour-blind too, and each stands beside a
hatch and words. The same profile gives the same bytes. matplotlib is imported when a picture is drawn, never before.
"""

import collections
import io
import textwrap
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hawkeye_mcp.display import interval, us
from hawkeye_mcp.profile import Ceiling, KernelProfile, Profile, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

WIDTH_PX, HEIGHT_PX = 1000, 560  # of one profile
_DPI = 100
_SMALL, _PLAIN, _LARGE = 10, 11, 14  # points; the smallest is still read at half the size
_TITLE_CHARACTERS = 80  # that fit the width at the large size
_INK, _FAINT = "#000000", "#666666"
_KERNEL, _BEST, _BUSY = "#D55E00", "#0072B2", "#56B4E9"
# by what a cause's name starts with: colour and hatch
_CAUSES = {
    "issuing": ("#009E73", ""),
    "DMA read": ("#D55E00", "//"),
    "DMA write": ("#E69F00", "\\\\"),
    "DMA": ("#F0E442", "//"),
    "MXU": ("#0072B2", "xx"),
    "XLU": ("#56B4E9", ".."),
    "EUP": ("#CC79A7", "oo"),
    "": ("#BBBBBB", "--"),
}
_MOST_CAUSES, _MOST_SLOTS = 6, 8
_LEAST_SHARE = 0.004  # of a cause that is named
_NAMES: dict[Unit, str] = {"hbm": "HBM", "mxu": "MXU", "vpu": "VPU", "eup": "EUP", "latency": "latency"}
# matplotlib's settings and fonts are the process's
_DRAWING = threading.Lock()


def png(rows: Sequence[tuple[str, Profile]]) -> bytes:
    """One row for each profile, under the name given with it ("" for none); the rooflines have the same axes.

    Returns: a PNG of WIDTH_PX by HEIGHT_PX for each row.
    """
    return drawn(lambda: figure(rows))


def drawn(figure: Callable[[], "Figure"]) -> bytes:
    """A figure as PNG, made and drawn in this package's style whatever the user's own is."""
    import matplotlib

    with _DRAWING, matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's own style could make it illegible
        # a kernel's name is no formula
        matplotlib.rcParams.update({"text.parse_math": False, "hatch.linewidth": 0.6, "font.size": _SMALL})
        out = io.BytesIO()
        figure().savefig(out, format="png", metadata={"Software": None})
        return out.getvalue()


def figure(rows: Sequence[tuple[str, Profile]]) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH_PX / _DPI, HEIGHT_PX / _DPI * len(rows)), dpi=_DPI)
    FigureCanvasAgg(made)
    spans = _spans([profile for _, profile in rows])
    for part, (name, profile) in zip(made.subfigures(len(rows), 1, squeeze=False)[:, 0], rows, strict=True):
        _row(part, name, profile, spans)
    return made


def _row(part: "SubFigure", name: str, profile: Profile, spans: tuple[float, float, float, float]) -> None:
    title = _title(name, profile)
    part.text(0.02, 0.935, title, size=_LARGE * min(1.0, _TITLE_CHARACTERS / len(title)), weight="bold")
    part.text(0.02, 0.880, _subtitle(profile), size=_PLAIN)
    versions = ", ".join(f"{key} {value}" for key, value in profile.versions)
    part.text(0.02, 0.02, _ascii(f"{profile.workload} on {profile.tpu}; {versions}"), size=_SMALL, color=_FAINT)
    notes = profile.timing.notes if profile.timing else []
    roofline = part.add_axes((0.085, 0.185, 0.375, 0.505))
    _or_unknown(roofline, _roofline(roofline, profile, spans))
    cycles = part.add_axes((0.54, 0.735, 0.44, 0.075))
    _or_unknown(cycles, _cycles(cycles, profile), notes[0] if notes else profile.message)
    slots = part.add_axes((0.665, 0.115, 0.19, 0.315))
    _or_unknown(slots, _slots(slots, profile))


def _title(name: str, profile: Profile) -> str:
    least = "at least " if profile.timing and profile.timing.lower_bound else ""
    known = interval(profile.timing.candidate_interval_us) if profile.timing else ""
    told = "time unknown"
    if profile.predicted_us is not None:
        told = f"{least}{us(profile.predicted_us)} us{known}, predicted, not measured"
    if profile.measured and profile.measured.candidate_us is not None:
        told = f"{us(profile.measured.candidate_us)} us measured; what follows is predicted"
    return _ascii(f"{cut(name or profile.workload, 30)}{'' if name else f' on {profile.tpu}'}: {told}")


def _subtitle(profile: Profile) -> str:
    timing = profile.timing
    parts = [f"bound by {_NAMES[profile.bound]}{_floor(profile)}" if profile.bound else "bound unknown"]
    if profile.roofline and profile.roofline.best_speedup is not None:
        parts.append(f"at best {profile.roofline.best_speedup:.4g} times as fast")
    if timing and timing.indistinguishable:
        parts.append("indistinguishable from XLA")
    elif timing and timing.speedup is not None:
        least = "at least " if timing.baseline_lower_bound else ""
        parts.append(f"{least}{timing.speedup:.3g} times XLA's speed")
    return "; ".join(parts)


def _floor(profile: Profile) -> str:
    """The kernels' two terms, where the bytes over HBM take longer than the schedule, which the bar is of."""
    ops = [op for op in (profile.timing.ops if profile.timing else []) if op.kind == "mosaic"]
    schedule_us, hbm_us = (
        sum((getattr(op, term) or 0.0) * op.calls for op in ops) for term in ("static_us", "hbm_floor_us")
    )
    return f" (bytes {us(hbm_us)} us, schedule {us(schedule_us)} us)" if hbm_us > schedule_us else ""


def _or_unknown(axes: "Axes", drawn: str, why: str = "") -> None:
    """Where nothing could be drawn, say in the same place what is unknown and, if it is known, why."""
    if drawn:
        axes.set_axis_off()
        text = "\n".join(textwrap.wrap(_ascii(f"{drawn}{': ' * bool(why)}{why}"), 56, max_lines=5))
        axes.text(0, 1, text, transform=axes.transAxes, va="top", size=_SMALL, color=_FAINT)


# --- roofline


def _roofs(profile: Profile) -> tuple[Ceiling, Ceiling] | None:
    """The HBM's and the MXU's ceiling, if both are known."""
    if not profile.roofline:
        return None
    found = {ceiling.unit: ceiling for ceiling in profile.roofline.ceilings}
    if "hbm" not in found or "mxu" not in found or not found["hbm"].work or not found["mxu"].work:
        return None
    return found["hbm"], found["mxu"]


def _points(profile: Profile) -> list[tuple[float, float]]:
    """(FLOP per byte, FLOP per second): the work at best, then the candidate if it is known."""
    roofs, roofline = _roofs(profile), profile.roofline
    if not roofs or not roofline:
        return []
    hbm, mxu = roofs
    best = [(mxu.work / hbm.work, mxu.work / roofline.best_us * 1e6)]
    if roofline.intensity and roofline.achieved_flops_per_s:
        best.append((roofline.intensity, roofline.achieved_flops_per_s))
    return best


def _spans(profiles: Sequence[Profile]) -> tuple[float, float, float, float]:
    """Limits of the axes (FLOP per byte, then FLOP per second) that show every point and the ridge."""
    points = [point for profile in profiles for point in _points(profile)]
    ridges = [(mxu.rate / hbm.rate, mxu.rate) for hbm, mxu in filter(None, map(_roofs, profiles))]
    if not points:
        return 1, 1, 1, 1
    x, y = zip(*points, *ridges, strict=True)
    return min(x) / 12, max(x) * 4, min(*y, max(y) / 100) / 4, max(y) * 2


def _roofline(axes: "Axes", profile: Profile, spans: tuple[float, float, float, float]) -> str:
    roofs, points = _roofs(profile), _points(profile)
    if not roofs:
        return "Roofline unknown"
    (hbm, mxu), (left, right, bottom, top) = roofs, spans
    ridge = mxu.rate / hbm.rate
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
    roofs_told = f"{_si(hbm.rate)}B/s over HBM, {_si(mxu.rate)}FLOP/s in the MXU"
    axes.plot([left, ridge, right], [left * hbm.rate, mxu.rate, mxu.rate], color=_INK, linewidth=2, label=roofs_told)
    marks: list[tuple[str, dict[str, Any]]] = [
        ("the work at best", {"marker": "D", "color": _BEST, "markerfacecolor": "white", "markersize": 11}),
        ("this kernel", {"marker": "o", "color": _KERNEL, "markersize": 9}),
    ]
    for (x, y), (name, style) in zip(points, marks, strict=False):
        label = f"{name}: {_si(y)}FLOP/s, {x:{',.0f' if x >= 100 else '.3g'}} FLOP a byte"
        axes.plot([x], [y], linestyle="none", markeredgewidth=2, label=label, clip_on=False, **style)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.06, 0.99), frameon=False, fontsize=_SMALL, borderaxespad=0.2)
    axes.set_xlabel("FLOP per byte over HBM", size=_SMALL)
    axes.set_ylabel("FLOP/s", size=_SMALL)
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: _si(value).strip())
    return ""


# --- where the cycles go


def spent(kernels: Sequence[KernelProfile]) -> dict[str, float]:
    """Cycles of all runs of all kernels by what they are spent on, "issuing bundles" first, then the longest wait."""
    known = [kernel for kernel in kernels if kernel.cycles and kernel.executed_bundles is not None]
    issuing = sum((kernel.executed_bundles or 0.0) * kernel.calls for kernel in known)
    waits: dict[str, float] = {}
    for kernel in known:
        for stall in kernel.stalls:
            waits[stall.cause] = waits.get(stall.cause, 0.0) + stall.cycles * kernel.calls
    longest = sorted(waits.items(), key=lambda wait: -wait[1])
    return {"issuing bundles": issuing, **dict(longest)} if known else {}


def _cycles(axes: "Axes", profile: Profile) -> str:
    parts = list(spent(profile.kernels).items())
    total = sum(cycles for _, cycles in parts)
    if not total:
        return "Where the cycles go is unknown"
    shown = [part for part in parts if part[1] >= _LEAST_SHARE * total]
    if len(shown) < len(parts) or len(parts) > _MOST_CAUSES:
        shown = shown[: _MOST_CAUSES - 1]
        shown.append(("everything else", total - sum(cycles for _, cycles in shown)))
    start, seen = 0.0, collections.Counter[str]()
    for name, cycles in shown:
        prefix = next(prefix for prefix in _CAUSES if name.startswith(prefix))
        seen[prefix] += 1
        colour, hatch = _CAUSES[prefix]
        axes.barh(
            0,
            cycles / total,
            left=start,
            color=colour,
            hatch=hatch * seen[prefix],  # denser for the next of the same kind
            edgecolor="white",
            linewidth=1,
            label=f"{100 * cycles / total:.1f} %  {cut(name, 44)}",
        )
        start += cycles / total
    axes.set(xlim=(0, 1), ylim=(-0.4, 0.4))
    axes.set_axis_off()
    axes.set_title(f"Where the kernels' {total:,.0f} cycles go", size=_SMALL, loc="left", weight="bold")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.01, 0.0),
        frameon=False,
        fontsize=_SMALL,
        borderaxespad=0.1,
        labelspacing=0.3,
    )
    return ""


# --- slots of the hot loop


def _slots(axes: "Axes", profile: Profile) -> str:
    kernels = [kernel for kernel in profile.kernels if kernel.slots]
    if not kernels:
        return "Slots of the hot loop are unknown"
    kernel = max(kernels, key=lambda kernel: (kernel.cycles or 0.0) * kernel.calls)
    busiest = sorted(kernel.slots, key=lambda slot: -slot.occupancy)[:_MOST_SLOTS]
    shown = [slot for slot in kernel.slots if slot in busiest and slot.occupancy > 0][::-1]
    idle = [slot.name for slot in kernel.slots if not slot.occupancy]
    of = f" of {cut(kernel.name, 16)}" if len(profile.kernels) > 1 else ""
    where = cut(kernel.hot_loop or "the hot loop", 48 - len(of))
    axes.set_title(_ascii(f"Slots in {where}{of}"), size=_SMALL, loc="left", weight="bold", x=-0.66, y=1.02)
    places = range(len(shown))
    axes.barh(places, [1] * len(shown), color="#EEEEEE", height=0.72)
    axes.barh(places, [slot.occupancy for slot in shown], color=_BUSY, edgecolor=_INK, linewidth=0.6, height=0.72)
    for place, slot in zip(places, shown, strict=True):
        told = f"{slot.occupancy:.0%}, {slot.used:.2g} of {slot.capacity}"
        axes.text(1.04, place, told, size=_SMALL, va="center")
    axes.set_yticks(places, [slot.name for slot in shown], size=_SMALL)
    axes.set(xlim=(0, 1), ylim=(len(shown) - _MOST_SLOTS - 0.6, len(shown) - 0.4))
    axes.set_xticks([])
    axes.tick_params(left=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if idle:
        axes.text(-0.66, -1.3, f"idle: {', '.join(idle)}", size=_SMALL, va="center", color=_FAINT)
    return ""


# --- words


def _si(value: float) -> str:
    """Three digits and the prefix of the unit that follows."""
    for prefix, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= scale:
            return f"{value / scale:.3g} {prefix}"
    return f"{value:.3g} "


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _ascii(text: str) -> str:
    """What every font has; names may be in any script."""
    return text.encode("ascii", "replace").decode()

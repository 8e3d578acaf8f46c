"""Figures of how runs went: progress against what it cost, each run's own line, cells read, what failed, rooflines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hawkeye_bench import pairs as pairing
from hawkeye_bench.page import charts, words
from hawkeye_bench.page.charts import NARROW, WIDE, Scale
from hawkeye_bench.page.history import Step
from hawkeye_bench.page.kernels import Placed, Roof
from hawkeye_bench.page.readings import Gain
from hawkeye_bench.page.series import Figure, Legend, Series, key
from hawkeye_bench.pairs import Source
from hawkeye_bench.runs import Run
from hawkeye_bench.trajectories import AXES, Axis, Curve, Point

AXIS_WORDS: dict[Axis, str] = {
    "productive_turns": "productive turns",
    "tokens": "tokens, prompt and completion",
    "cost_usd": "dollars, as the client says",
}
STATUSES = (
    "correct",
    "incorrect",
    "rejected",
    "trace_error",
    "compile_error",
    "runtime_error",
    "timeout",
    "harness_error",
)
_SMALL = 320


# --- means


def progress(curves: Sequence[Curve], series: Series, percent: str) -> list[Figure]:
    """Best so far, the mean over workloads, against each thing that is spent; one figure for each axis and source."""
    found = []
    for axis in AXES:
        for source in dict.fromkeys(curve.source for curve in curves):
            mine = [one for one in curves if (one.axis, one.source) == (axis, source) and one.at[-1] > 0]
            if not mine:
                continue
            band = any(one.low for one in mine)
            runs = ", ".join(f"{one.condition} {one.runs} on {words.many(one.workloads, 'workload')}" for one in mine)
            found.append(
                Figure(
                    title=f"Best speedup so far against {AXIS_WORDS[axis]}",
                    says=f"Geometric mean over workloads of the speedup over XLA, no unit, log scale, {source}, as the "
                    f"agents' own sessions were told; before its first correct kernel a run stands at the score of a "
                    f"failure. Runs: {runs}."
                    + (f" Bands: {percent} intervals." if band else " Too few workloads for intervals."),
                    wide=_progress(mine, series, AXIS_WORDS[axis], WIDE),
                    narrow=_progress(mine, series, AXIS_WORDS[axis], NARROW),
                    legend=series.legend(one.condition for one in mine),
                )
            )
    return found


def _progress(curves: Sequence[Curve], series: Series, axis: str, width: int) -> Markup:
    left, right, top, bottom = 46.0, width - 14.0, 34.0, 280.0
    x = Scale(0, curves[0].at[-1], left, right)
    heights = [value for one in curves for values in (one.speedup, one.low, one.high) for value in values or ()]
    y = charts.scale(heights, bottom, top, log=True, also=(1.0,))
    parts = [charts.x_axis(x, top, bottom, axis, most=8 if width >= WIDE else 4),
             charts.y_axis(y, left, right, "speedup over XLA"), charts.line(left, y(1), right, y(1), "one")]  # fmt: skip
    for one in curves:
        if one.low and one.high:
            low, high = (list(zip(map(x, one.at), map(y, ends), strict=True)) for ends in (one.low, one.high))
            parts.append(
                charts.path([*low, *reversed(high)], f"s{series[one.condition] % charts.SHAPES} band", closed=True)
            )
    for one in curves:
        points = list(zip(map(x, one.at), map(y, one.speedup), strict=True))
        parts.append(charts.path(points, f"s{series[one.condition] % charts.SHAPES} curve"))
        title = f"{one.condition}, at the end: {words.ratio(one.speedup[-1])}"
        parts.append(charts.marker(series[one.condition], *points[-1], 5, "mark", title))
    return charts.svg(width, bottom + 44, f"Mean progress of {len(curves)} conditions", *parts)


# --- every run


@dataclass(frozen=True)
class Small:
    """The runs of one workload, each a link to its page."""

    workload: str
    drawn: Markup


def every_run(
    runs: Sequence[Run], points: Mapping[int, list[Point]], keys: Sequence[str], series: Series
) -> list[Small]:
    """A small chart for each workload: best so far of every run against productive turns.

    keys: by place of the run, how its page is called.
    """
    end = max([1, *(mine[-1].productive_turns for mine in points.values())])
    by_workload: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        by_workload.setdefault(run.workload, []).append(place)
    found = []
    for workload, places in by_workload.items():
        told = [point.speedup for place in places for point in points[place] if point.speedup]
        left, right, top, bottom = 44.0, _SMALL - 12.0, 30.0, 150.0
        x, y = Scale(0, end, left, right), charts.scale(told, bottom - 14, top, log=True, also=(1.0,))
        parts = [charts.x_axis(x, top, bottom, "productive turns", most=5), charts.y_axis(y, left, right, "speedup", most=4),
                 charts.line(left, y(1), right, y(1), "one")]  # fmt: skip
        parts += [_run_line(runs[place], points[place], keys[place], series, x, y, bottom - 5) for place in places]
        found.append(Small(workload, charts.svg(_SMALL, bottom + 42, f"Runs on {workload}", *parts)))
    return found


def _run_line(run: Run, points: Sequence[Point], name: str, series: Series, x: Scale, y: Scale, floor: float) -> Markup:
    number = series[run.condition]
    title = f"{run.condition} #{run.repeat}: {run.status}"
    line = [(x(point.productive_turns), y(point.speedup)) for point in points if point.speedup]
    end = x(points[-1].productive_turns)
    if line:
        corners = charts.steps([*line, (end, line[-1][1])])
        marks = [
            charts.path(corners, f"s{number % charts.SHAPES} run"),
            charts.marker(number, end, line[-1][1], 4, "mark"),
        ]
        title += f", best told {words.ratio(points[-1].speedup)}"
    else:
        marks = [charts.cross(number, end, floor, 3.5)]
    return charts.tag("a", charts.tag("title", title), *marks, href=f"#run={name}", data_key=name)


def one_run(run: Run, history_steps: Sequence[Step], series: Series) -> Figure | None:
    """The trajectory of one run: every verdict, what was read before it, and the best so far; None without a step."""
    if not history_steps:
        return None
    number = series[run.condition]
    source = f", {run.source}" if run.source else ""
    legend = [Legend(key(charts.marker(number, 9, 8, 4, "mark")), "a correct kernel")]
    if any(step.kind == "verdict" and step.status != "correct" for step in history_steps):
        legend.append(Legend(key(charts.cross(number, 9, 8, 4)), "a kernel that is not"))
    if any(step.kind == "cell" for step in history_steps):
        legend.append(Legend(key(charts.line(9, 1, 9, 15, "read")), "a cell read"))
    return Figure(
        title="Best speedup so far, verdict by verdict",
        says=f"Speedup over XLA, no unit, log scale{source}, as the agent's own session was told; "
        f"{words.many(sum(step.kind == 'verdict' for step in history_steps), 'judgement')}.",
        wide=_one_run(history_steps, number, WIDE),
        narrow=_one_run(history_steps, number, NARROW),
        legend=legend,
    )


def _one_run(found: Sequence[Step], number: int, width: int) -> Markup:
    left, right, top, bottom = 46.0, width - 14.0, 34.0, 240.0
    x = Scale(0, max(1, found[-1].turn), left, right)
    told = [step.speedup for step in found if step.speedup]
    y = charts.scale(told, bottom - 18, top, log=True, also=(1.0,))
    parts = [charts.x_axis(x, top, bottom, "productive turns", most=8 if width >= WIDE else 5),
             charts.y_axis(y, left, right, "speedup over XLA"), charts.line(left, y(1), right, y(1), "one")]  # fmt: skip
    parts += [
        charts.line(x(step.turn), bottom - 12, x(step.turn), bottom, "read") for step in found if step.kind == "cell"
    ]
    best = [(x(step.turn), y(step.best)) for step in found if step.best]
    if best:
        corners = charts.steps([*best, (x(found[-1].turn), best[-1][1])])
        parts.append(charts.path(corners, f"s{number % charts.SHAPES} curve"))
    for step in found:
        if step.kind == "verdict":
            title = f"version {step.version}: {step.status}{', ' + words.ratio(step.speedup) if step.speedup else ''}"
            if step.status == "correct" and step.speedup:
                parts.append(charts.marker(number, x(step.turn), y(step.speedup), 4.5, "mark", title))
            else:
                parts.append(charts.cross(number, x(step.turn), bottom - 8, 4, title))
    return charts.svg(width, bottom + 44, "The run's trajectory", *parts)


# --- cells


def cells(gained: Sequence[Gain], choices_control: str, series: Series) -> list[Figure]:
    """Readings of a run against what its pair gained; one figure for each source."""
    found = []
    for source in dict.fromkeys(one.source for one in gained if one.source):
        mine = [one for one in gained if one.source == source]
        if not any(one.run.cells_read for one in mine):
            continue
        names = list(dict.fromkeys(one.run.condition for one in mine))
        found.append(
            Figure(
                title="Cells read against what the pair gained",
                says=f"Readings in one run against the ratio of its speedup to that of its pair under {choices_control} "
                f"(no unit, log scale, {source}); {words.many(len(mine), 'pair')}. Agents choose what they read, so this "
                "shows no cause.",
                wide=_cells(mine, series, WIDE),
                narrow=_cells(mine, series, NARROW),
                legend=series.legend(names),
            )
        )
    return found


def _cells(gained: Sequence[Gain], series: Series, width: int) -> Markup:
    left, right, top, bottom = 46.0, width - 14.0, 34.0, 260.0
    x = charts.scale([len(one.run.cells_read) for one in gained], left + 8, right - 8)
    y = charts.scale([one.ratio for one in gained], bottom - 6, top + 6, log=True, also=(1.0,))
    parts = [charts.x_axis(x, top, bottom, "cells read in the run", most=8 if width >= WIDE else 5),
             charts.y_axis(y, left, right, "ratio to the pair"), charts.line(left, y(1), right, y(1), "one")]  # fmt: skip
    for one in gained:
        run = one.run
        title = f"{run.workload}, {run.condition} #{run.repeat}: {len(run.cells_read)} read, {words.ratio(one.ratio)}"
        parts.append(charts.marker(series[run.condition], x(len(run.cells_read)), y(one.ratio), 4.5, "dot", title))
    return charts.svg(width, bottom + 44, f"Cells read and gain of {len(gained)} runs", *parts)


# --- what became of kernels


def verdicts(judged: Mapping[str, Counter[str]]) -> Figure | None:
    """Of all judgements under each condition, the shares by status; None without any."""
    shown = {name: counts for name, counts in judged.items() if counts.total()}
    if not shown:
        return None
    statuses = [name for name in STATUSES if any(counts[name] for counts in shown.values())]
    statuses += sorted({name for counts in shown.values() for name in counts} - set(STATUSES))
    return Figure(
        title="What became of the kernels that agents submitted",
        says=f"Share of judgements by status; {', '.join(f'{name} n = {c.total()}' for name, c in shown.items())}. A text "
        "judged before is not counted again. Whether a kernel is correct is found against an oracle, not predicted.",
        wide=_verdicts(shown, statuses, WIDE),
        narrow=_verdicts(shown, statuses, NARROW),
        legend=[
            Legend(key(charts.tag("rect", x=2, y=1, width=14, height=14, class_=f"part k{_kind(name)}")), name)
            for name in statuses
        ],  # fmt: skip
    )


def _kind(status: str) -> int:
    return STATUSES.index(status) if status in STATUSES else len(STATUSES)


def _verdicts(shown: Mapping[str, Counter[str]], statuses: Sequence[str], width: int) -> Markup:
    left, right, row = 2.0, width - 2.0, 56.0
    parts = []
    for place, (name, counts) in enumerate(shown.items()):
        top, start = 24 + row * place, left
        parts.append(charts.text(left, top - 6, f"{name} ({counts.total()})", class_="name"))
        for status in statuses:
            part = (right - left) * counts[status] / counts.total()
            if not part:
                continue
            title = charts.tag("title", f"{name}, {status}: {counts[status]} of {counts.total()}")
            parts.append(
                charts.tag("rect", title, x=start, y=top, width=part, height=26.0, class_=f"part k{_kind(status)}")
            )
            label = str(counts[status])
            if part > 9 * len(label) + 4:
                parts.append(
                    charts.text(start + part / 2, top + 18, label, anchor="middle", class_=f"on k{_kind(status)}")
                )
            start += part
    return charts.svg(width, 6 + row * len(shown), "Verdicts by condition", *parts)


# --- roofline


def roofline(found: Sequence[Placed], roof: Roof | None, series: Series) -> list[Figure]:
    """The kernels whose place is known; one figure for each source."""
    figures = []
    for source in dict.fromkeys(one.source for one in found if one.intensity):
        mine = [one for one in found if one.source == source and one.intensity and one.flops_per_s]
        chips = ", ".join(dict.fromkeys(one.run.tpu for one in mine))
        told = (
            f"Ceilings of {chips}: {charts.short(roof.bytes_per_s)}B/s and {charts.short(roof.flops_per_s)}FLOP/s, as the "
            "server told agents that asked for a profile."
            if roof
            else "The ceilings are not drawn: no agent of this folder asked for a profile that tells them."
        )
        figures.append(
            Figure(
                title="Best kernels under the roofline",
                says=f"FLOP/s of the workload's own FLOP, time {source}, against FLOP per byte that the compiled program "
                f"moves over HBM; both log scale; {words.many(len(mine), 'run')}. {told}",
                wide=_roofline(mine, roof, series, WIDE),
                narrow=_roofline(mine, roof, series, NARROW),
                legend=series.legend({one.run.condition for one in mine}),
            )
        )
    return figures


def _roofline(found: Sequence[Placed], roof: Roof | None, series: Series, width: int) -> Markup:
    left, right, top, bottom = 54.0, width - 14.0, 34.0, 300.0
    across = [one.intensity for one in found if one.intensity]
    up = [one.flops_per_s for one in found if one.flops_per_s]
    ridge = roof.flops_per_s / roof.bytes_per_s if roof else 0.0
    x = charts.scale([*across, *([ridge] if roof else [])], left, right, log=True)
    y = charts.scale([*up, *([roof.flops_per_s] if roof else [])], bottom, top, log=True)
    parts = [charts.x_axis(x, top, bottom, "FLOP per byte over HBM", most=7 if width >= WIDE else 4),
             charts.y_axis(y, left, right, "FLOP/s")]  # fmt: skip
    if roof:
        # Where the slope meets the chart's edge: at its left side or its floor.
        start = max(x.low, y.low / roof.bytes_per_s)
        corners = [(start, start * roof.bytes_per_s), (ridge, roof.flops_per_s), (x.high, roof.flops_per_s)]
        parts.append(charts.path([(x(a), y(b)) for a, b in corners if a <= x.high], "roof"))
    for one in found:
        if one.intensity and one.flops_per_s:
            run, under = one.run, f", {one.flops_per_s / one.roof:.0%} of the roof" if one.roof else ""
            title = f"{run.workload}, {run.condition} #{run.repeat}: {charts.short(one.flops_per_s)}FLOP/s{under}"
            parts.append(charts.marker(series[run.condition], x(one.intensity), y(one.flops_per_s), 4.5, "dot", title))
    return charts.svg(width, bottom + 44, f"Roofline with {len(found)} kernels", *parts)


def unplaced(found: Sequence[Placed]) -> list[tuple[str, str]]:
    """The kernels that have no place, and why."""
    return [
        (f"{one.run.workload}, {one.run.condition} #{one.run.repeat}", one.why)
        for one in found
        if one.intensity is None
    ]


def source_of(runs: Sequence[Run]) -> Source | None:
    """What most correct runs' times are."""
    counted = Counter(run.source for run in runs if pairing.succeeded(run) and run.source)
    return max(counted, key=lambda source: counted[source], default=None)

"""Figures of the paired effect: how it depends on the rule for failures, workload by workload, fast_p."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from hawkeye_bench import pairs as pairing
from hawkeye_bench.analysis import Choices, Comparison, Effect, FastP
from hawkeye_bench.page import charts, words
from hawkeye_bench.page.charts import FONT, NARROW, WIDE, Scale
from hawkeye_bench.page.readings import scores
from hawkeye_bench.page.series import Figure, Legend, Series, key
from hawkeye_bench.pairs import Pair, Source
from hawkeye_bench.runs import Run

_TREATMENT = 1


def forest(primary: Comparison, percent: str) -> Figure | None:
    """The effect under each rule for failures and source; None where no rule has one."""
    shown = [one for one in primary.sensitivity if one.geomean is not None]
    if not shown:
        return None
    sources = " and ".join(dict.fromkeys(one.source for one in shown if one.source))
    wider = any(one.ci95_with_prediction_error for one in shown)
    marks = [Legend(key(charts.line(0, 8, 18, 8, "s1 bar"), charts.marker(_TREATMENT, 9, 8, 4, "mark")),
                    f"ratio and its {percent} interval" if any(one.ci95 for one in shown) else "ratio")]  # fmt: skip
    if wider:
        marks.append(Legend(key(charts.line(0, 8, 18, 8, "s1 thin")), "with the errors of predictions"))
    return Figure(
        title=f"{primary.treatment} over {primary.control}, by how failures count",
        says=f"Ratio of paired speedups, no unit, log scale, {sources}. "
        + "; ".join(
            f"{one.failures}: {words.many(one.n_pairs, 'pair')} on {words.many(one.n_workloads, 'workload')}"
            for one in shown
        )
        + ".",  # fmt: skip
        wide=_forest(shown, WIDE),
        narrow=_forest(shown, NARROW),
        legend=marks,
    )


def _forest(shown: Sequence[Effect], width: int) -> Markup:
    rows = Rows(width, [f"{one.failures}, {one.source}" for one in shown])
    ends = [end for one in shown for end in (one.geomean, *(one.ci95 or ()), *(one.ci95_with_prediction_error or ()))]
    x = rows.scale([end for end in ends if end])
    parts = [rows.axis(x, "ratio of speedups")]
    for place, one in enumerate(shown):
        y = rows.y(place)
        for interval, style in ((one.ci95_with_prediction_error, "s1 thin"), (one.ci95, "s1 bar")):
            if interval:
                parts.append(charts.line(x(interval[0]), y, x(interval[1]), y, style))
        title = f"{one.failures}, {one.source}: {words.ratio(one.geomean)}, {words.interval(one.ci95)}"
        parts.append(charts.marker(_TREATMENT, x(one.geomean or 1), y, 6, "mark", title))
        parts.append(rows.at_right(place, words.ratio(one.geomean)))
    return rows.drawn(f"Ratio by rule for failures, {len(shown)} rows", parts)


# --- workload by workload


@dataclass
class Dumbbell:
    """One workload: the geometric means that its ratio is of, and each run's speedup (None: failed)."""

    workload: str
    algebraic: bool
    logs: dict[str, list[float]] = field(default_factory=dict)
    repeats: dict[str, list[float | None]] = field(default_factory=dict)

    def mean(self, condition: str) -> float:
        values = self.logs[condition]
        return math.exp(sum(values) / len(values))

    @property
    def failed(self) -> int:
        return sum(one is None for values in self.repeats.values() for one in values)


def dumbbells(pairs: Sequence[Pair], choices: Choices, penalty: float, source: Source | None) -> list[Dumbbell]:
    """Workloads with pairs of one source, the largest ratio first; failures count by the primary rule."""
    found: dict[str, Dumbbell] = {}
    for pair in pairs:
        scored = scores(pair, choices.failures, penalty) if pair.source == source else None
        if not scored:
            continue
        one = found.setdefault(pair.workload, Dumbbell(pair.workload, bool(pair.treatment.algebraic)))
        for run, score in zip((pair.treatment, pair.control), scored, strict=True):
            one.logs.setdefault(run.condition, []).append(math.log(score))
            one.repeats.setdefault(run.condition, []).append(run.speedup if pairing.succeeded(run) else None)
    return sorted(found.values(), key=lambda one: one.mean(choices.control) / one.mean(choices.treatment))


def per_workload(runs: Iterable[Run], choices: Choices, penalty: float, series: Series) -> list[Figure]:
    """One figure for each source of which there are pairs."""
    pairs, _ = pairing.pair_up(runs, choices.treatment, choices.control)
    found = []
    for source in dict.fromkeys(pair.source for pair in pairs if pair.source):
        rows = dumbbells(pairs, choices, penalty, source)
        if not rows:
            continue
        both = (choices.control, choices.treatment)
        repeats = sum(len(one.logs[choices.treatment]) for one in rows)
        failures = sum(one.failed for one in rows)
        counted = {"baseline": "counted as 1.0, XLA's speed", "penalised": f"counted as {penalty:g}", "dropped": ""}
        extra = [Legend(key(charts.marker(series[choices.treatment], 5, 8, 2.5, "dot"),
                            charts.marker(series[choices.treatment], 13, 8, 2.5, "dot")), "one run each")]  # fmt: skip
        if failures:
            how = f", {counted[choices.failures]}" if counted[choices.failures] else ""
            extra.append(Legend(key(charts.cross(series[choices.treatment], 9, 8, 4)), f"a failed run{how}"))
        found.append(
            Figure(
                title=f"Speedup over XLA under {choices.treatment} and {choices.control}, workload by workload",
                says=f"Speedup over XLA, no unit, log scale, {source}, of each best kernel judged again; geometric means of "
                f"{words.many(repeats, 'pair')} on {words.many(len(rows), 'workload')}, largest ratio first. "
                "At the right the ratio.",
                wide=_dumbbells(rows, choices, penalty, series, WIDE),
                narrow=_dumbbells(rows, choices, penalty, series, NARROW),
                legend=series.legend(both, *extra),
            )
        )
    return found


def _dumbbells(shown: Sequence[Dumbbell], choices: Choices, penalty: float, series: Series, width: int) -> Markup:
    rows = Rows(width, [f"{one.workload}{' (algebraic)' if one.algebraic else ''}" for one in shown])
    failed = penalty if choices.failures == "penalised" else 1.0
    both = (choices.control, choices.treatment)
    every = [value for one in shown for name in both for value in (*one.repeats[name], one.mean(name))]
    x = rows.scale([value for value in every if value] + ([failed] if any(one.failed for one in shown) else []))
    parts = [rows.axis(x, "speedup over XLA")]
    for place, one in enumerate(shown):
        y = rows.y(place)
        means = {name: one.mean(name) for name in both}
        parts.append(charts.line(x(means[choices.control]), y, x(means[choices.treatment]), y, "bone"))
        for name, mean in means.items():
            for value in one.repeats[name]:
                if value is None:
                    parts.append(charts.cross(series[name], x(failed), y, 4, f"{one.workload}, {name}: failed"))
                else:
                    title = f"{one.workload}, {name}: one run, {words.ratio(value)}"
                    parts.append(charts.marker(series[name], x(value), y, 2.5, "dot", title))
            # The one below is larger, so that it is seen where both are the same.
            size = 6.5 if name == choices.control else 4.5
            title = f"{one.workload}, {name}: {words.ratio(mean)}"
            parts.append(charts.marker(series[name], x(mean), y, size, "mark", title))
        parts.append(rows.at_right(place, words.ratio(means[choices.treatment] / means[choices.control])))
    return rows.drawn(f"Speedups of {len(shown)} workloads under two conditions", parts)


@dataclass(frozen=True)
class Rows:
    """A chart of one row for each label: beside the row where there is room, else above it."""

    width: int
    labels: Sequence[str]

    @property
    def _beside(self) -> bool:
        return self.width >= WIDE

    @property
    def _left(self) -> float:
        return 340 if self._beside else 8

    @property
    def _right(self) -> float:
        return self.width - 70

    @property
    def _row(self) -> float:
        return 24 if self._beside else 38

    @property
    def _bottom(self) -> float:
        return 12 + self._row * len(self.labels)

    def y(self, place: int) -> float:
        return 12 + self._row * place + (self._row / 2 if self._beside else 27)

    def scale(self, values: Sequence[float]) -> Scale:
        """Always shows 1, where nothing is gained or lost."""
        return charts.scale(values, self._left, self._right, log=True, also=(1.0,))

    def axis(self, x: Scale, title: str) -> Markup:
        one = charts.line(x(1), 8, x(1), self._bottom, "one")
        return charts.x_axis(x, 8, self._bottom, title, most=9 if self._beside else 5) + one

    def at_right(self, place: int, told: str) -> Markup:
        return charts.text(self.width - 2, self.y(place) + 4, told, anchor="end")

    def drawn(self, label: str, parts: Sequence[Markup]) -> Markup:
        names = []
        for place, name in enumerate(self.labels):
            if self._beside:
                names.append(
                    charts.text(self._left - 10, self.y(place) + 4, charts.fitted(name, self._left), anchor="end")
                )
            else:
                names.append(
                    charts.text(2, self.y(place) - FONT, charts.fitted(name, self.width, bold=True), class_="name")
                )
        return charts.svg(self.width, self._bottom + 44, label, *parts, *names)


# --- fast_p


def fast_p(
    curves: dict[str, dict[Source, list[FastP]]], series: Series, percent: str, counts: dict[str, int]
) -> list[Figure]:
    """Shares of runs that are correct and faster than p times XLA; one figure for each source."""
    found = []
    for source in dict.fromkeys(source for of in curves.values() for source in of):
        mine = {name: of[source] for name, of in curves.items() if source in of}
        band = any(one.low is not None for curve in mine.values() for one in curve)
        found.append(
            Figure(
                title="fast_p: share of runs that are correct and more than p times as fast as XLA",
                says=f"Share of runs, workloads weigh the same, against p (log scale; at the left edge: correct at all); "
                f"speedups {source}; runs: {', '.join(f'{name} {counts[name]}' for name in mine)}."
                + (f" Bands: {percent} intervals." if band else " Too few workloads for intervals."),
                wide=_fast_p(mine, series, WIDE),
                narrow=_fast_p(mine, series, NARROW),
                legend=series.legend(mine),
            )
        )
    return found


def _fast_p(curves: dict[str, list[FastP]], series: Series, width: int) -> Markup:
    left, right, top, bottom = 46.0, width - 14.0, 34.0, 300.0
    places = [one.p for one in next(iter(curves.values()))]
    first, last = min(p for p in places if p), max(places)
    x = Scale(first, last, left + 76, right, log=True)
    y = Scale(0, 1, bottom, top)

    def at(p: float) -> float:
        return x(p) if p else left + 26

    parts = [charts.x_axis(x, top, bottom, "p, times XLA's speed", ticks=(0.25, 0.5, 1, 2, 5, 10)),
             charts.text(at(0), bottom + 17, "correct", anchor="middle"),
             charts.line(at(0), top, at(0), bottom, "grid"),
             charts.y_axis(y, left, right, "share of runs"), charts.line(x(1), top, x(1), bottom, "one")]  # fmt: skip
    for name, curve in curves.items():
        low = [(at(one.p), y(one.low)) for one in curve if one.low is not None]
        high = [(at(one.p), y(one.high)) for one in curve if one.high is not None]
        if low:
            parts.append(charts.path([*low, *reversed(high)], f"s{series[name] % charts.SHAPES} band", closed=True))
    for name, curve in curves.items():
        parts.append(
            charts.path([(at(one.p), y(one.share)) for one in curve], f"s{series[name] % charts.SHAPES} curve")
        )
        for one in curve:
            title = f"{name}, p = {one.p:g}: {words.share_between(one.share, one.low, one.high)}"
            parts.append(charts.marker(series[name], at(one.p), y(one.share), 3.5, "mark", title))
    return charts.svg(width, bottom + 44, f"fast_p of {len(curves)} conditions", *parts)

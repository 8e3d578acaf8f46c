"""Predicted against measured: each row with its error, medians and rank correlations of both halves."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.accuracy import fitting, predicting
from hawkeye_mcp.accuracy.rows import SHORT_US, Row
from hawkeye_mcp.accuracy.shipped import Features
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.profiler import interval
from hawkeye_mcp.profiler.interval import Class
from hawkeye_mcp.profiler.timing import DATASHEET, MODELS, Model

Half = Literal["fit", "held_out"]
# Share of the time up to which operations around a kernel do not disturb what is fitted to it.
_ALONE = 0.02
_CAUSE = 100  # characters of a reason that tell causes apart; what follows names the row's arrays


class _Base(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ScoredRow(_Base):
    """One measurement. ratio: predicted / measured. datasheet_us: predicted without what was fitted."""

    id: str
    chip: str
    kernel: str
    implementation: str
    timing: str
    measured_us: float
    predicted_us: float | None = None
    datasheet_us: float | None = None
    ratio: float | None = None
    cls: Class | None = Field(None, alias="class")
    split: Half
    group: str
    status: Literal["scored", "not_scored", "not_covered"]
    reason: str | None = None
    source: str


class Score(_Base):
    """Of the rows of one half; null where there are too few."""

    n: int
    groups: int = Field(description="Shapes among them: variants of one shape are not independent.")
    median_abs_error: float | None
    spearman: float | None


class Part(_Base):
    """A class, a chip or a kernel: both halves, and the held-out one without what was fitted."""

    name: str
    fit: Score
    held_out: Score
    held_out_datasheet: Score


class Report(_Base):
    scored: Score = Field(description="The held-out half: nothing was fitted to it.")
    fit: Score
    scored_datasheet: Score = Field(description="The held-out half without what was fitted.")
    classes: list[Part]
    chips: list[Part]
    kernels: list[Part]
    models: dict[str, dict[str, float | str]]
    dispatch_us: float | None = Field(description="Taken off wall-clock rows: what the shortest of them take too long.")
    rows: list[ScoredRow]
    covered: int
    not_covered: dict[str, int]
    versions: Versions
    tokamax: str | None


def report(rows: Sequence[Row], features: Mapping[str, Features], versions: Versions, tokamax: str | None) -> Report:
    found = [_row(row, features.get(row.id), MODELS[row.chip]) for row in rows]
    dispatch_us = _dispatch_us(found)
    found = [_without_dispatch(row, dispatch_us) for row in found]
    good = [row for row in found if row.status == "scored"]
    reasons: dict[str, int] = {}
    for row in found:
        if row.status == "not_covered":
            cause = " ".join((row.reason or "").split())[:_CAUSE]
            reasons[cause] = reasons.get(cause, 0) + 1
    return Report(
        scored=score(good, "held_out"),
        fit=score(good, "fit"),
        scored_datasheet=score(good, "held_out", datasheet=True),
        classes=_parts(good, lambda row: str(row.cls)),
        chips=_parts(good, lambda row: row.chip),
        kernels=_parts(good, lambda row: f"{row.kernel} ({row.implementation})"),
        models={chip: {**vars(MODELS[chip])} for chip in sorted(MODELS)},
        dispatch_us=dispatch_us,
        rows=found,
        covered=len(good),
        not_covered=reasons,
        versions=versions,
        tokamax=tokamax,
    )


def _row(row: Row, features: Features | None, model: Model) -> ScoredRow:
    scored = ScoredRow(
        id=row.id, chip=row.chip, kernel=row.kernel, implementation=row.implementation, timing=row.timing,
        measured_us=row.measured_us, split=row.split, group=row.group, status="not_covered", source=row.source,
    )  # fmt: skip
    if features is None:
        return scored.model_copy(update={"reason": "it was not predicted yet"})
    if reason := features.get("reason"):
        return scored.model_copy(update={"reason": str(reason)})
    predicted_us = predicting.predicted_us(features, model)
    return scored.model_copy(
        update={
            "status": "scored",
            "predicted_us": predicted_us,
            "datasheet_us": predicting.predicted_us(features, DATASHEET),
            "cls": predicting.class_of(features, model),
            "ratio": predicted_us / row.measured_us,
        }
    )


def _dispatch_us(rows: Iterable[ScoredRow]) -> float | None:
    """What a call costs outside the device: the excess of the wall-clock rows that are too short to be anything else."""
    short = [
        row.measured_us - row.predicted_us
        for row in rows
        if row.timing == "wall_clock"
        and row.measured_us < SHORT_US
        and row.predicted_us
        and row.predicted_us < SHORT_US / 3
    ]
    return round(statistics.median(short), 3) if short else None


def _without_dispatch(row: ScoredRow, dispatch_us: float | None) -> ScoredRow:
    if row.timing == "device" or row.status != "scored" or row.predicted_us is None:
        return row
    if dispatch_us is None or row.measured_us < SHORT_US:
        return row.model_copy(update={"status": "not_scored", "reason": "wall clock of a short call, mostly dispatch"})
    measured_us = round(row.measured_us - dispatch_us, 3)
    return row.model_copy(update={"measured_us": measured_us, "ratio": row.predicted_us / measured_us})


def score(rows: Sequence[ScoredRow], half: Half, *, datasheet: bool = False) -> Score:
    pairs = [
        (predicted, row.measured_us)
        for row in rows
        if row.split == half and (predicted := row.datasheet_us if datasheet else row.predicted_us) is not None
    ]
    errors = [abs(predicted / measured - 1) for predicted, measured in pairs]
    return Score(
        n=len(pairs),
        groups=len({row.group for row in rows if row.split == half}),
        median_abs_error=round(statistics.median(errors), 4) if errors else None,
        spearman=_spearman(pairs),
    )


def _spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Rank correlation with mean ranks for ties; None below three pairs or without any difference."""
    if len(pairs) < 3 or any(len(set(side)) < 2 for side in zip(*pairs, strict=True)):
        return None
    left, right = (_ranks(side) for side in zip(*pairs, strict=True))
    return round(statistics.correlation(left, right), 4)


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    first = {value: number for number, value in reversed(list(enumerate(ordered)))}
    return [first[value] + (ordered.count(value) - 1) / 2 for value in values]


def _parts(rows: Sequence[ScoredRow], name_of: Callable[[ScoredRow], str]) -> list[Part]:
    names = sorted({name_of(row) for row in rows})
    return [
        Part(
            name=name,
            fit=score(of, "fit"),
            held_out=score(of, "held_out"),
            held_out_datasheet=score(of, "held_out", datasheet=True),
        )
        for name in names
        if (of := [row for row in rows if name_of(row) == name])
    ]


def fitted(
    rows: Sequence[Row], features: Mapping[str, Features], names: Mapping[str, Sequence[str]]
) -> dict[str, Model]:
    """For each chip the model that the fit half of its kernels gives.

    names: which of its figures are fitted: those of kernels to rows that are kernels alone, then the worth of XLA's
    estimates to those with operations of XLA. Rows that were run with another pipeline than is built have no say. From
    wall clock goes what a call costs outside the device, by datasheet predictions.
    """
    plain = [_row(row, features.get(row.id), DATASHEET) for row in rows if not row.looks_ahead]
    dispatch_us = _dispatch_us(plain)
    usable = [row for row in (_without_dispatch(row, dispatch_us) for row in plain) if row.status == "scored"]
    found = {}
    for chip, fitted_names in names.items():
        of_kernels: list[tuple[float, fitting.Predict]] = []
        of_both: list[tuple[float, fitting.Predict]] = []
        for row in usable:
            if row.chip == chip and row.split == "fit" and _tells(features[row.id]):
                predict = predicting.predictor(features[row.id])
                alone = predicting.xla_share(features[row.id]) < _ALONE
                (of_kernels if alone else of_both).append((row.measured_us, predict))
        if of_kernels:
            model = fitting.fit(of_kernels, [name for name in fitted_names if name != "estimate"])
            found[chip] = fitting.fit(of_both, [name for name in fitted_names if name == "estimate"], model)
    return found


def _tells(features: Features) -> bool:
    """Whether a row's time follows from what is fitted: not that of XLA's products, nor of copies that a kernel starts."""
    own_copies = any(kernel["by_hand_bytes"] for kernel in features["kernels"])
    return not own_copies and not any(op["sort"] == "product" for op in features["ops"])


def residuals(found: Report) -> interval.Table:
    """The table of intervals, from the held-out rows."""
    entries = []
    for chip in sorted({row.chip for row in found.rows}):
        for cls in sorted({row.cls for row in found.rows if row.cls}):
            of = [
                row
                for row in found.rows
                if (row.chip, row.cls, row.split, row.status) == (chip, cls, "held_out", "scored") and row.ratio
            ]
            if of:
                low, high = interval.multiples([(row.ratio or 1.0, row.group) for row in of])
                if len({row.kernel for row in of}) == 1:  # what one kernel leans to says nothing of the next
                    low, high = min(low, 1 / high), max(high, 1 / low)
                entries.append(
                    interval.Residuals(
                        tpu=chip,
                        cls=cls,
                        n=len(of),
                        groups=len({row.group for row in of}),
                        low=round(low, 4),
                        high=round(high, 4),
                    )  # fmt: skip
                )
    return interval.Table(
        coverage=interval.COVERAGE,
        classes=entries,
        measurements=f"tokamax {found.tokamax}, JAX Pallas matmul notebook"
        if found.tokamax
        else "JAX Pallas matmul notebook",
        versions=found.versions,
    )

"""The results of a folder as CSV: one file for each list in `report --json`, and the pairs behind the ratios.

An empty field is unknown, or does not apply; it is never a zero. Speedups are XLA's time over the kernel's; ratios are
of two speedups; shares lie in 0..1. Intervals are at `choices.confidence`, named in every row that has one. The order of
rows and columns depends on the records alone. Every row names the model, which says so where it was none.
"""

import csv
import io
import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hawkeye_bench import pairs as pairing
from hawkeye_bench.analysis import Comparison, Effect
from hawkeye_bench.pairs import FAILURES, Pair
from hawkeye_bench.results import Results, RunRow
from hawkeye_bench.runs import Run
from hawkeye_mcp import conditions
from hawkeye_mcp.evaluation import Versions

Row = dict[str, object]

_TOOLS = [entry.value for entry in conditions.TABLE if entry.kind == "tool"]
# Where the record's own name carries no unit.
_NAMES = {"speedup": "speedup_over_xla", "first_speedup": "first_speedup_over_xla", "seconds": "duration_s"}

# Columns of the files that may have no rows; runs.csv has those of a run's record.
_COLUMNS = {
    "pairs.csv": "treatment control primary workload repeat source treatment_status control_status "
    "treatment_speedup_over_xla control_speedup_over_xla ratio_failures_baseline ratio_failures_dropped "
    "ratio_failures_penalised in_no_ratio_because",
    "comparisons.csv": "treatment control primary headline failures source ratio_geomean confidence ratio_low "
    "ratio_high ratio_with_prediction_error_low ratio_with_prediction_error_high wilcoxon_p "
    "wilcoxon_p_benjamini_hochberg sign_flip_p n_pairs n_workloads n_failed_pairs told why_unknown",
    "workloads.csv": "treatment control primary workload source failures ratio_geomean n_pairs n_failed_runs algebraic",
    "paired_success.csv": "treatment control primary pairs_both_correct pairs_only_treatment_correct "
    "pairs_only_control_correct pairs_neither_correct mcnemar_p sign_flip_p",
    "success.csv": "condition runs correct share confidence share_low share_high",
    "fast_p.csv": "condition source p_times_xla share confidence share_low share_high",
    "progress.csv": "axis condition source at speedup_over_xla confidence speedup_over_xla_low speedup_over_xla_high "
    "runs workloads",
}


def csv_files(found: Results, runs: Sequence[Run]) -> dict[str, str]:
    """File name to text. runs: the records behind `found.runs`, in the same order."""
    rows = [run_row(run, row) for run, row in zip(runs, found.runs, strict=True)]
    tables = {
        "pairs.csv": [row for one in found.comparisons for row in _pairs(one, found, runs)],
        "comparisons.csv": [row for one in found.comparisons for row in _effects(one, found)],
        "workloads.csv": [row for one in found.comparisons for row in _workloads(one)],
        "paired_success.csv": [_paired_success(one) for one in found.comparisons],
        "success.csv": _success(found),
        "fast_p.csv": _fast_p(found),
        "progress.csv": _progress(found),
    }
    about: Row = {"agent": _all(run.agent for run in runs), "model": _all(run.model for run in runs)}
    return {"runs.csv": _text(list(rows[0]), rows)} | {
        name: _text([*_COLUMNS[name].split(), *about], [row | about for row in rows]) for name, rows in tables.items()
    }


def run_row(run: Run, row: RunRow) -> Row:
    """Every field of a record as one value each; what its transcript tells as well, as the transcript has it."""
    found: Row = {}
    for name in Run.model_fields:
        value = getattr(run, name)
        found |= _NESTED[name](value) if name in _NESTED else {_NAMES.get(name, name): value}
    return found | {"productive_turns": row.productive_turns, "tokens": row.tokens, "cost_usd": row.cost_usd}


def _interval(value: tuple[float, float] | None) -> Row:
    return _ends("speedup_over_xla", value)


def _tool_calls(value: dict[str, int]) -> Row:
    return {"tool_calls": sum(value.values()), **{f"calls_of_{name}": value.get(name, 0) for name in _TOOLS}}


def _cells(value: list[Any]) -> Row:
    return {"cells_read": len(value), "cells": "; ".join(f"{one.row} {one.part}" for one in value)}


def _client(value: Any) -> Row:
    return {
        "client": value and value.name,
        "client_version": value and value.version,
        "client_command": value and shlex.join(value.command),
    }


def _versions(value: Any) -> Row:
    return {f"version_of_{name}": value and getattr(value, name) for name in Versions.model_fields}


# Fields of a record that are more than one value.
_NESTED: dict[str, Callable[[Any], Row]] = {
    "speedup_interval": _interval,
    "tool_calls": _tool_calls,
    "cells_read": _cells,
    "client": _client,
    "versions": _versions,
}


def _pairs(one: Comparison, found: Results, runs: Sequence[Run]) -> list[Row]:
    """Every pair with its ratio under each rule for failures, then those in no ratio, with the reason."""
    paired, left_out = pairing.pair_up(runs, one.treatment, one.control)
    return [
        *(_pair(one, pair, found.penalised_score) for pair in paired),
        *(
            _asked(one) | {"workload": left.workload, "repeat": left.repeat, "in_no_ratio_because": left.why}
            for left in left_out
        ),
    ]


def _pair(one: Comparison, pair: Pair, penalty: float) -> Row:
    # Two failures without a correct kernel beside them have no source, so no ratio either.
    ratios = {rule: pairing.log_ratios([pair], rule, penalty) if pair.source else {} for rule in FAILURES}
    return _asked(one) | {
        "workload": pair.workload,
        "repeat": pair.repeat,
        "source": pair.source,
        "treatment_status": pair.treatment.status,
        "control_status": pair.control.status,
        "treatment_speedup_over_xla": pair.treatment.speedup,
        "control_speedup_over_xla": pair.control.speedup,
        **{f"ratio_failures_{rule}": math.exp(of[pair.workload][0]) for rule, of in ratios.items() if of},
    }


def _effects(one: Comparison, found: Results) -> list[Row]:
    return [
        _asked(one)
        | {
            "headline": effect == one.effect,
            "failures": effect.failures,
            "source": effect.source,
            **_effect(effect, found.choices.confidence),
            "wilcoxon_p_benjamini_hochberg": one.adjusted_p if effect == one.effect else None,
            "why_unknown": effect.why,
        }
        for effect in one.sensitivity
    ]


def _effect(effect: Effect, confidence: float) -> Row:
    return {
        "ratio_geomean": effect.geomean,
        "confidence": confidence,
        **_ends("ratio", effect.ci95),
        **_ends("ratio_with_prediction_error", effect.ci95_with_prediction_error),
        "wilcoxon_p": effect.wilcoxon_p,
        "sign_flip_p": effect.sign_flip_p,
        "n_pairs": effect.n_pairs,
        "n_workloads": effect.n_workloads,
        "n_failed_pairs": effect.n_failed_pairs,
        "told": effect.told,
    }


def _workloads(one: Comparison) -> list[Row]:
    return [
        _asked(one)
        | {
            "workload": effect.workload,
            "source": effect.source,
            "failures": one.effect.failures,
            "ratio_geomean": effect.ratio,
            "n_pairs": effect.n_pairs,
            "n_failed_runs": effect.n_failed_runs,
            "algebraic": effect.algebraic,
        }
        for effect in one.workloads
    ]


def _paired_success(one: Comparison) -> Row:
    success = one.success
    return _asked(one) | {
        "pairs_both_correct": success.both,
        "pairs_only_treatment_correct": success.only_treatment,
        "pairs_only_control_correct": success.only_control,
        "pairs_neither_correct": success.neither,
        "mcnemar_p": success.mcnemar_p,
        "sign_flip_p": success.sign_flip_p,
    }


def _success(found: Results) -> list[Row]:
    return [
        {
            "condition": condition,
            "runs": one.runs,
            "correct": one.correct,
            "share": one.share,
            "confidence": found.choices.confidence,
            **_ends("share", (one.low, one.high)),
        }
        for condition, one in found.success.items()
    ]


def _fast_p(found: Results) -> list[Row]:
    return [
        {
            "condition": condition,
            "source": source,
            "p_times_xla": one.p,
            "share": one.share,
            "confidence": found.choices.confidence,
            **_ends("share", (one.low, one.high)),
        }
        for condition, curves in found.fast_p.items()
        for source, curve in curves.items()
        for one in curve
    ]


def _progress(found: Results) -> list[Row]:
    return [
        {
            "axis": curve.axis,
            "condition": curve.condition,
            "source": curve.source,
            "at": at,
            "speedup_over_xla": curve.speedup[place],
            "confidence": found.choices.confidence,
            "speedup_over_xla_low": curve.low and curve.low[place],
            "speedup_over_xla_high": curve.high and curve.high[place],
            "runs": curve.runs,
            "workloads": curve.workloads,
        }
        for curve in found.progress
        for place, at in enumerate(curve.at)
    ]


def _asked(one: Comparison) -> Row:
    return {"treatment": one.treatment, "control": one.control, "primary": one.primary}


def _ends(name: str, ends: tuple[float | None, float | None] | None) -> Row:
    low, high = ends or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def _all(values: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(values))


def _text(columns: list[str], rows: list[Row]) -> str:
    """Floats in full, truth as true and false, None as an empty field."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: str(value).lower() if isinstance(value, bool) else value for name, value in row.items()})
    return stream.getvalue()

"""From the results, records and logs of a folder to the page's text. Everything that comes from outside is escaped by
the templates; the page's policy allows its own script alone.
"""

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from hawkeye_bench import budget
from hawkeye_bench import pairs as pairing
from hawkeye_bench import runs as records
from hawkeye_bench.analysis import NO_EVIDENCE
from hawkeye_bench.page import (
    costs,
    figures_effect,
    figures_runs,
    history,
    kernels,
    readings,
    words,
)
from hawkeye_bench.page.history import History
from hawkeye_bench.page.series import Series
from hawkeye_bench.pairs import COUNTED
from hawkeye_bench.results import Results
from hawkeye_bench.runs import Run
from hawkeye_bench.trajectories import Point
from hawkeye_mcp import display

_FOLDER = Path(__file__).parent
# Of all pages of runs, compressed and encoded; runs beyond it have a page without kernels and profiles.
LARGEST_PAGES_BYTES = 24_000_000

SCRIPTED = "A script, not a language model, made these kernels: no evidence about the conditions."
REPLAYED = "Recorded kernels were judged anew: this folder does not say what made them."


@dataclass(frozen=True)
class RunPage:
    """key: how its address names it. encoded: its HTML, compressed by zlib, in base64."""

    key: str
    encoded: str


def page(out: Path, found: Results, runs: Sequence[Run], points: Mapping[int, list[Point]]) -> str:
    """The whole file. runs: the records in the order of `found.runs`; points: the trajectory of each."""
    histories = [history.read(folder_of(out, run)) for run in runs]
    keys = [key_of(run) for run in runs]
    series = Series.of((run.condition for run in runs), found.choices)
    pages, brief = _run_pages(out, found, runs, histories, keys, series)
    script, style = _asset("page.js"), _asset("page.css")
    percent = f"{found.choices.confidence:.0%}"
    gained = readings.gains(runs, found.choices, found.penalised_score)
    placed, roof = _roofline(found, runs, histories)
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            script=script,
            style=style,
            script_hash=_hash(script),
            style_hash=_hash(style),
            found=found,
            runs=list(zip(runs, found.runs, keys, strict=True)),
            percent=percent,
            caveats=caveats(runs),
            missing=missing(found, runs),
            planned=len(found.plan.workloads) * len(found.plan.conditions) * found.plan.reps,
            conditions=list(dict.fromkeys(run.condition for run in runs)),
            clients=list(dict.fromkeys(f"{run.client.name} {run.client.version}" for run in runs if run.client)),
            counted=COUNTED,
            forest=figures_effect.forest(found.comparisons[0], percent),
            dumbbells=figures_effect.per_workload(runs, found.choices, found.penalised_score, series),
            fast_p=figures_effect.fast_p(
                found.fast_p, series, percent, {name: one.runs for name, one in found.success.items()}
            ),
            progress=figures_runs.progress(found.progress, series, percent),
            every_run=figures_runs.every_run(runs, points, keys, series),
            series_legend=series.legend(run.condition for run in runs),
            readable=[name for name in series if readings.has_rows(name)],
            cells=figures_runs.cells(gained, found.choices.control, series),
            rows=readings.rows(runs, gained, figures_runs.source_of(runs)),
            rows_source=figures_runs.source_of(runs),
            verdicts=figures_runs.verdicts(_judged(runs, histories)),
            unlogged=sum(not one.logged for one in histories),
            outcomes=_outcomes(runs),
            rooflines=figures_runs.roofline(placed, roof, series),
            roof=roof,
            placed=placed,
            unplaced=figures_runs.unplaced(placed),
            costs=costs.by_condition(found.runs, runs),
            pages=pages,
            brief=brief,
        )
    )


def folder_of(out: Path, run: Run) -> Path:
    return records.folder(out, run.workload, run.condition, run.repeat)


def key_of(run: Run) -> str:
    return quote(f"{run.workload}/{run.condition}/{run.repeat}")


def caveats(runs: Sequence[Run]) -> list[str]:
    """What must stand beside every figure, because of who made the kernels."""
    found = []
    if any(map(pairing.is_builtin, runs)):
        found.append(NO_EVIDENCE)
    if any("scripted" in run.model.lower() for run in runs):
        found.append(SCRIPTED)
    if any(run.agent == "replay" for run in runs):
        found.append(REPLAYED)
    return found


def missing(found: Results, runs: Sequence[Run]) -> str:
    """Why there is no paired effect at all, and what to do; empty where there are pairs."""
    wanted = (found.choices.treatment, found.choices.control)
    there = {run.condition for run in runs}
    lacking = [name for name in wanted if name not in there]
    if not lacking:
        return ""
    return (
        f"No paired effect: no run under {' and none under '.join(lacking)} has ended. Run the bench again with the "
        f"same --out and with {' and '.join(f'--condition {name}' for name in wanted)}."
    )


def _roofline(
    found: Results, runs: Sequence[Run], histories: Sequence[History]
) -> tuple[list[kernels.Placed], kernels.Roof | None]:
    roof = kernels.roof(histories)
    named = {records.name_of(workload): workload for workload in found.plan.workloads}
    return kernels.placed(zip(runs, histories, strict=True), roof, named), roof


def _judged(runs: Sequence[Run], histories: Sequence[History]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for run, one in zip(runs, histories, strict=True):
        counts.setdefault(run.condition, Counter()).update(one.judgements)
    return counts


def _outcomes(runs: Sequence[Run]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        counts.setdefault(run.condition, Counter())[run.status] += 1
    return counts


# --- pages of runs


def _run_pages(
    out: Path,
    found: Results,
    runs: Sequence[Run],
    histories: Sequence[History],
    keys: Sequence[str],
    series: Series,
) -> tuple[list[RunPage], int]:
    """The pages, and how many of them are without kernels for want of room."""
    pages, used, brief = [], 0, 0
    for place, (run, one) in enumerate(zip(runs, histories, strict=True)):
        earlier, later = keys[place - 1] if place else "", keys[place + 1] if place + 1 < len(keys) else ""
        encoded = _encoded(run_page(out, run, one, series, earlier=earlier, later=later))
        if used + len(encoded) > LARGEST_PAGES_BYTES:
            encoded = _encoded(run_page(out, run, one, series, earlier=earlier, later=later, whole=False))
            brief += 1
        used += len(encoded)
        pages.append(RunPage(keys[place], encoded))
    return pages, brief


def run_page(
    out: Path, run: Run, one: History, series: Series, *, earlier: str = "", later: str = "", whole: bool = True
) -> str:
    """The HTML of one run's page, uncompressed; whole: with its kernels and profiles."""
    best = next((version for version in one.versions if version.sha256 == run.kernel_sha256), None)
    text = history.kernel_text(folder_of(out, run), run.kernel_sha256) if run.kernel_sha256 and whole else None
    return (
        _templates()
        .get_template("run.html.j2")
        .render(
            run=run,
            history=one,
            steps=one.steps[: history.MOST_STEPS],
            more_steps=max(0, len(one.steps) - history.MOST_STEPS),
            versions=one.versions[: history.MOST_VERSIONS] if whole else [],
            more_versions=max(0, len(one.versions) - history.MOST_VERSIONS) if whole else 0,
            whole=whole,
            best=best,
            best_text=history.cut(text, 5 * history.LONGEST_TEXT) if text else "",
            figure_of_run=figures_runs.one_run(run, one.steps, series),
            earlier=earlier,
            later=later,
            caveats=caveats([run]),
        )
    )


def _encoded(html: str) -> str:
    return base64.b64encode(zlib.compress(html.encode("utf-8"), 9)).decode()


# --- templates


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"words": words, "us": display.us, "source_words": source_words}
    environment.filters |= {"speedup": speedup, "told_speedup": told_speedup}
    return environment


def source_words(source: str | None) -> str:
    """What a reader must know of times of a source."""
    return {
        "predicted": "predicted from the TPU compiler's own schedule, not measured on a chip",
        "measured": "measured on a chip",
    }.get(source or "", "of unknown source")


def speedup(run: Run) -> str:
    """`<`: the kernel's time is only a lower bound; `>=`: XLA's is; `~`: not known to be faster or slower."""
    return _marked(run.speedup, run.lower_bound, run.baseline_lower_bound, run.indistinguishable, run.source)


def told_speedup(verdict: Mapping[str, Any]) -> str:
    """Of one line of the call log, in the same signs; it does not say what is indistinguishable."""
    ends = verdict.get("speedup_interval")
    low, high = ends if isinstance(ends, list) and len(ends) == 2 else (None, None)
    alike = isinstance(low, int | float) and isinstance(high, int | float) and low <= 1 <= high
    bounds = (bool(verdict.get("lower_bound")), bool(verdict.get("baseline_lower_bound")))
    return _marked(budget.number(verdict, "speedup"), *bounds, alike, verdict.get("source"))


def _marked(value: float | None, lower: bool, baseline_lower: bool, alike: bool, source: str | None) -> str:
    if value is None:
        return "no speedup known"
    bound = "< " if lower else "≥ " if baseline_lower else ""
    return f"{'~ ' if alike else ''}{bound}{value:.3f}x {source or ''}".strip()


def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a page's policy names a script or style that it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

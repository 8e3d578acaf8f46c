"""The results of a folder as one Markdown table for a paper, with a caption that says what the figures are."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from hawkeye_bench import pairs as pairing
from hawkeye_bench.analysis import NO_EVIDENCE, Effect
from hawkeye_bench.pairs import COUNTED, Source
from hawkeye_bench.results import Results
from hawkeye_bench.runs import Run

NOTHING = "-"
Speedups = dict[tuple[str, Source], dict[str, float]]


def table(found: Results, runs: Sequence[Run]) -> str:
    """A row for each workload, and for each source where it has two; then all of them together."""
    names = list(dict.fromkeys(run.condition for run in runs))
    speedups = geomeans(runs)
    header = ["workload", *(f"{name}: speedup, correct" for name in names), f"{_asked(found.effect)}, paired"]
    rows = [_row(key, names, speedups, found, runs) for key in _keys(runs, speedups)]
    sources: list[Source | None] = list(dict.fromkeys(source for _, source in speedups)) or [None]
    rows += [_together(source, names, speedups, found, runs) for source in sources]
    lines = [_line(header), "|---" + "|---:" * (len(header) - 1) + "|", *map(_line, rows)]
    return "\n".join([*lines, "", *_caption(found, runs, speedups)]) + "\n"


def geomeans(runs: Iterable[Run]) -> Speedups:
    """Speedup over XLA by workload and source, then condition: the geometric mean over its correct kernels.

    Kernels whose speedup is unknown, or only known to be at most something, are in no mean.
    """
    found: dict[tuple[str, Source], dict[str, list[float]]] = {}
    for run in pairing.counted(runs):
        if pairing.succeeded(run) and run.speedup and run.source and not run.lower_bound:
            of = found.setdefault((run.workload, run.source), {})
            of.setdefault(run.condition, []).append(math.log(run.speedup))
    return {
        key: {name: math.exp(fmean(logs)) for name, logs in by_condition.items()} for key, by_condition in found.items()
    }


def comparable(speedups: Speedups, source: Source | None, names: Sequence[str]) -> list[dict[str, float]]:
    """The workloads that have a mean under every condition: over other sets no two conditions can be compared."""
    return [of for (_, its), of in speedups.items() if its == source and all(name in of for name in names)]


def _keys(runs: Iterable[Run], speedups: Speedups) -> list[tuple[str, Source | None]]:
    keys: list[tuple[str, Source | None]] = []
    for workload in dict.fromkeys(run.workload for run in pairing.counted(runs)):
        sources = [source for name, source in speedups if name == workload]
        keys += [(workload, source) for source in sources] or [(workload, None)]
    return keys


def _row(
    key: tuple[str, Source | None], names: list[str], speedups: Speedups, found: Results, runs: Sequence[Run]
) -> list[str]:
    workload, source = key
    mine = [run for run in pairing.counted(runs) if run.workload == workload and run.source in (source, None)]
    means = speedups.get((workload, source), {}) if source else {}
    ratios = [one for one in found.comparisons[0].workloads if (one.workload, one.source) == key]
    marks = "†" * any(run.algebraic for run in mine)
    marks += "‡" * any(run.baseline_lower_bound for run in mine if pairing.succeeded(run))
    return [
        f"{workload}{marks}{_said(source, speedups)}",
        *(_cell(means.get(name), [run for run in mine if run.condition == name]) for name in names),
        f"{ratios[0].ratio:.3f}" if ratios else NOTHING,
    ]


def _together(
    source: Source | None, names: list[str], speedups: Speedups, found: Results, runs: Sequence[Run]
) -> list[str]:
    both = comparable(speedups, source, names)
    mine = [run for run in pairing.counted(runs) if run.source in (source, None)]
    cells = []
    for name in names:
        mean = math.exp(fmean(math.log(of[name]) for of in both)) if both else None
        cells.append(_cell(mean, [run for run in mine if run.condition == name]))
    primary = found.comparisons[0]
    rule = primary.effect.failures
    effect = next((one for one in primary.sensitivity if (one.source, one.failures) == (source, rule)), None)
    title = f"**geometric mean of {len(both)}**" if both else "**all**"
    return [f"{title}{_said(source, speedups)}", *cells, _effect(effect)]


def _cell(mean: float | None, runs: list[Run]) -> str:
    alike = "~" * any(run.indistinguishable for run in runs if pairing.succeeded(run))
    shown = NOTHING if mean is None else f"{alike}{mean:.3f}x"
    return f"{shown}, {sum(map(pairing.succeeded, runs))}/{len(runs)}"


def _effect(effect: Effect | None) -> str:
    if effect is None or effect.geomean is None:
        return NOTHING
    ends = effect.ci95_with_prediction_error or effect.ci95
    return f"**{effect.geomean:.3f}**" + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else "")


def _said(source: Source | None, speedups: Speedups) -> str:
    """The source of a row, where the table has rows of both."""
    return f" ({source})" if source and len({its for _, its in speedups}) > 1 else ""


def _asked(effect: Effect) -> str:
    return f"{effect.treatment}/{effect.control}"


def _caption(found: Results, runs: Sequence[Run], speedups: Speedups) -> list[str]:
    effect, choices = found.effect, found.choices
    sources = " or ".join(dict.fromkeys(source for _, source in speedups)) or "neither predicted nor measured"
    said = [
        f"Speedup over XLA on TPU {found.plan.tpu}, {sources}: the geometric mean over the correct kernels of a workload "
        "and condition, each judged again from scratch; correct: runs with such a kernel, of all runs. The last row is "
        "over the workloads with a speedup under every condition.",
        f"Paired: {_asked(effect)}, {_count(effect.n_pairs, 'pair')} on {_count(effect.n_workloads, 'workload')}, so not the quotient of two "
        f"columns: {COUNTED[effect.failures]}.",
    ]
    if effect.ci95:
        errors = " and of how far predictions may be off" if effect.ci95_with_prediction_error else ""
        p = "unknown" if effect.wilcoxon_p is None else f"{effect.wilcoxon_p:.2g}"
        said.append(
            f"In brackets the {choices.confidence:.0%} interval ({choices.interval}){errors}. {choices.test}: p = {p}."
        )
    if NO_EVIDENCE in found.remarks and effect.why != NO_EVIDENCE:
        said.append(NO_EVIDENCE)
    if effect.why:
        said.append(f"{effect.why[0].upper()}{effect.why[1:].rstrip('.')}.")
    if any(run.indistinguishable for run in pairing.counted(runs) if pairing.succeeded(run)):
        said.append("~ By the errors of such predictions so far, one of these kernels is not told apart from XLA.")
    if any(run.algebraic for run in pairing.counted(runs)):
        said.append("† A speedup may be algebra rather than a faster kernel.")
    if any(run.baseline_lower_bound for run in pairing.counted(runs) if pairing.succeeded(run)):
        said.append("‡ XLA's time is a lower bound there, so the speedup is at least this.")
    if apart := list(dict.fromkeys(run.workload for run in runs if run.no_power)):
        said.append(f"Left out, as no inputs can tell a wrong kernel: {', '.join(apart)}.")
    said.append(_made_with(found, runs))
    return [" ".join(said)]


def _made_with(found: Results, runs: Sequence[Run]) -> str:
    models = dict.fromkeys(run.model for run in runs)
    clients = dict.fromkeys(f"{run.client.name} {run.client.version}" for run in runs if run.client)
    libraries = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in run.versions.model_dump().items())
        for run in runs
        if run.versions
    )
    registered = f"preregistered, sha256 {found.preregistered.sha256}" if found.preregistered else "not preregistered"
    judged = f", judged on {', '.join(found.plan.hosts)}" if found.plan.hosts else ""
    return (
        f"Agent {found.plan.agent}{_in_brackets(clients)}, model {' or '.join(models)}{judged}, "
        f"{_count(found.plan.reps, 'repeat')}, {registered}; {' or '.join(libraries) or 'versions unknown'}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _in_brackets(names: Iterable[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

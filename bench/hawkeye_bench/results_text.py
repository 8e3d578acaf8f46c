"""The results of a folder as Markdown: tables for a paper, and what a reader must know beside them."""

from hawkeye_bench.analysis import Comparison, Effect, FastP, Share
from hawkeye_bench.pairs import COUNTED
from hawkeye_bench.power import PowerReport
from hawkeye_bench.results import Registered, Results

# Of the curve, what a table has room for.
_FASTER = (1.0, 1.2, 2.0)


def markdown(found: Results) -> str:
    percent = f"{found.choices.confidence:.0%}"
    blocks = [
        [_headline(found.effect, percent)],
        _registered(found.preregistered),
        _sensitivity(found.comparisons[0], percent),
        _workloads(found.comparisons[0]),
        _secondary(found.comparisons[1:], percent),
        _success(found, percent),
        _paired_success(found.comparisons),
        _methods(found),
        [f"- {' '.join(remark.split())}" for remark in found.remarks],
        [
            f"- Left out: {one.workload} #{one.repeat}, {' '.join(one.why.split())}"
            for one in found.comparisons[0].left_out
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def power_markdown(found: PowerReport) -> str:
    rows = [
        [str(one.repeats), f"{one.wilcoxon:.2f}", f"{one.interval:.2f}", f"{one.t_test:.2f}", f"{one.geomean:.3f}"]
        for one in found.by_repeats
    ]
    header = ["repeats", "signed-rank p below alpha", "interval leaves 1 out", "t-test, no failures", "ratio shown"]
    return "\n".join([*_table(header, rows), "", *(f"- {line}" for line in found.said)]) + "\n"


def _headline(effect: Effect, percent: str) -> str:
    name = f"{effect.treatment}/{effect.control}"
    size = f"{effect.n_pairs} pairs on {effect.n_workloads} workloads"
    if effect.geomean is None:
        return f"**{name}: no figure.** {effect.why} ({size})."
    said = f"**{name}: {effect.geomean:.3f}x {effect.source}, {size}.**"
    if effect.ci95:
        said += f" {percent} interval {_interval(effect.ci95)}"
        if effect.ci95_with_prediction_error:
            said += f", with the errors of predictions {_interval(effect.ci95_with_prediction_error)}"
        said += f"; Wilcoxon p {_p(effect.wilcoxon_p)}, sign flips p {_p(effect.sign_flip_p)}: {effect.told}."
    return said + (f" {effect.why[0].upper()}{effect.why[1:]}." if effect.why else "")


def _registered(found: Registered | None) -> list[str]:
    if found is None:
        return ["Not preregistered: the plan could have been chosen after a look at results."]
    head = f"Preregistered {found.registered}, sha256 {found.sha256}."
    if not found.deviations:
        return [f"{head} No deviation."]
    return [f"{head} Deviations:", "", *(f"- {one}" for one in found.deviations)]


def _sensitivity(primary: Comparison, percent: str) -> list[str]:
    rows = [[one.failures, one.source or "-", *_figures(one)] for one in primary.sensitivity]
    header = ["failures", "speedups", "ratio", f"{percent} interval", "with prediction errors", "Wilcoxon p"]
    header += ["pairs", "workloads", "pairs with a failure"]
    table = _table(
        header,
        [
            [*row, str(one.n_pairs), str(one.n_workloads), str(one.n_failed_pairs)]
            for row, one in zip(rows, primary.sensitivity, strict=True)
        ],
    )
    return [f"{primary.treatment}/{primary.control}, by how failures count:", "", *table]


def _figures(effect: Effect) -> list[str]:
    return [
        "-" if effect.geomean is None else f"{effect.geomean:.3f}",
        _interval(effect.ci95),
        _interval(effect.ci95_with_prediction_error),
        _p(effect.wilcoxon_p),
    ]


def _workloads(primary: Comparison) -> list[str]:
    rows = [
        [
            f"{one.workload}{' (algebraic)' if one.algebraic else ''}",
            f"{one.ratio:.3f}",
            one.source or "-",
            str(one.n_pairs),
            str(one.n_failed_runs),
        ]
        for one in primary.workloads
    ]
    header = ["workload", f"{primary.treatment}/{primary.control}", "speedups", "pairs", "failed runs"]
    return _table(header, rows) if rows else []


def _secondary(comparisons: list[Comparison], percent: str) -> list[str]:
    if not comparisons:
        return []
    rows = [
        [f"{one.treatment}/{one.control}", one.effect.source or "-", *_figures(one.effect), _p(one.adjusted_p)]
        for one in comparisons
    ]
    header = ["secondary", "speedups", "ratio", f"{percent} interval", "with prediction errors", "Wilcoxon p"]
    return _table([*header, "p adjusted (Benjamini-Hochberg)"], rows)


def _success(found: Results, percent: str) -> list[str]:
    header = ["condition", "speedups", "runs", f"correct, {percent} interval"]
    header += [f"faster than {p:g}x" for p in _FASTER]
    rows = []
    for name, success in found.success.items():
        curves: list[tuple[str, list[FastP]]] = [*found.fast_p[name].items()]
        for source, curve in curves or [("-", [])]:
            shares = {one.p: one for one in curve}
            fast = [_share(shares.get(p)) for p in _FASTER]
            rows.append([name, source, str(success.runs), _share(success), *fast])
    return _table(header, rows)


def _paired_success(comparisons: list[Comparison]) -> list[str]:
    header = ["correct kernels", "both", "only the first", "only the second", "neither", "McNemar p", "sign flips p"]
    rows = []
    for one in comparisons:
        success = one.success
        counts = (success.both, success.only_treatment, success.only_control, success.neither)
        name = f"{one.treatment}, {one.control}"
        rows.append([name, *map(str, counts), _p(success.mcnemar_p), _p(success.sign_flip_p)])
    return _table(header, rows)


def _methods(found: Results) -> list[str]:
    choices = found.choices
    return [
        f"Method: {choices.estimate}; {choices.interval} ({choices.resamples} resamples, seed {choices.seed}); "
        f"{choices.test}. Failures: {'; '.join(f'{rule}: {how}' for rule, how in COUNTED.items())} "
        f"(here {found.penalised_score:g}). Primary: {choices.failures}."
    ]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def _interval(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"


def _share(found: Share | None) -> str:
    if found is None:
        return "-"
    ends = "" if found.low is None or found.high is None else f" ({found.low:.0%} to {found.high:.0%})"
    return f"{found.share:.0%}{ends}"

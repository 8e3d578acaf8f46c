"""How results look to a person on a terminal. Texts that a candidate could have shaped are printed as plain text."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hawkeye_mcp import taxonomy
from hawkeye_mcp.evaluation import Correctness, Diagnosis, Evaluation, OpTime, Timing, Versions
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.taxonomy import Cell
from hawkeye_mcp.workloads import Workload

if TYPE_CHECKING:  # the rest of the judge is not needed to print
    from hawkeye_mcp.judge.shipping import Row

_COLOUR = {"correct": "bold green", "harness_error": "bold magenta"}
_BRACKETS = {
    "predicted": "where four of five such predictions were found to lie",
    "measured": "bootstrap intervals at 95 % of medians over the rounds",
}
_SHOWN_COMPILER_LINES = 12
_SHOWN_OPERATIONS = 10
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def evaluation(found: Evaluation, console: Console) -> None:
    """The verdict first, then what it rests on."""
    headline(found, found.status, console)
    if found.timing:
        timing(found.timing, console)
    if found.predicted:
        timing(found.predicted, console)
    if found.correctness:
        line(console, "correctness", _correctness(found.correctness))
    if found.sanitized:
        line(console, "sanitizer", found.sanitized.in_one_line())
    if found.audit:
        kernels = ", ".join(f"{k.name} grid {k.grid}" for k in found.audit.kernels) or "none"
        outside = ", ".join(f"{op.op} x{op.count}" for op in found.audit.outside) or "nothing"
        line(console, "audit", f"kernels: {kernels}; work outside them: {outside}")
    compiler(found.compiler_message, console)
    _diagnosis(found.diagnosis, found.tpu, console)
    line(console, "isolation", isolation(found.isolation))
    if found.artifact:
        line(console, "artifact", f"sha256 {found.artifact.sha256} ({found.artifact.bytes} bytes)")
    took = ", ".join(f"{stage} {s:.1f}" for stage, s in found.stages_s.items() if stage != "total")
    line(console, "took", f"{found.stages_s.get('total', 0):.1f} s ({took})")
    line(console, "versions", versions(found.versions))


def workloads(found: Iterable[Workload], console: Console) -> None:
    rows = table("workload", "family", ">GFLOP", ">least MB", "what it computes")
    for w in found:
        rows.add_row(w.name, w.family, f"{w.flops / 1e9:,.1f}", f"{w.least_bytes / 1e6:,.1f}", w.summary)
    console.print(rows)


def cells(found: Iterable[Cell], console: Console) -> None:
    """A line for each row; a chip in brackets is one on which the technique changes nothing."""
    chips: dict[tuple[str, str, str], list[str]] = {}
    for cell in found:
        shown = cell.tpu if cell.config.get("applies", True) else f"({cell.tpu})"
        chips.setdefault((cell.row, cell.title, cell.one_line), []).append(shown)
    rows = table("row", "chips", "technique", "in one line")
    for row, title, one_line in sorted(chips):
        rows.add_row(row, " ".join(chips[row, title, one_line]), title, one_line)
    console.print(rows)


def baselines(found: Iterable["Row"], console: Console) -> None:
    rows = table("tpu", "workload", ">predicted us", "method")
    for row in found:
        least = "at least " if row.lower_bound else ""
        figure = "" if row.us is None else f"{least}{row.us:.6g}"
        rows.add_row(row.tpu, row.workload, figure, row.method if row.state == "current" else row.state)
    console.print(rows)


def calibration(found: dict[str, Any], console: Console) -> None:
    """What XLA's estimates of products are worth against libtpu's profile, and what other operations take."""
    ratios = table("tpu", ">products", ">estimate / profile, median", ">least", ">most")
    for each in found["estimate_over_profile"]:
        ratios.add_row(each["tpu"], *(f"{each[key]:.4g}" for key in ("n", "median", "least", "most")))
    console.print(ratios)
    registers = table("tpu", "sort", ">operations", ">cycles per vector register, median", ">least", ">most")
    for each in found["cycles_per_register"]:
        registers.add_row(each["tpu"], each["sort"], *(f"{each[key]:.4g}" for key in ("n", "median", "least", "most")))
    console.print(registers)


def plain(text: str) -> Text:
    """Text without control characters, which could rewrite what stands above, and without lone surrogates."""
    return Text(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))


def one_line(text: str) -> str:
    """`plain`, with line ends as spaces: what somebody else wrote cannot pass for a line of ours."""
    return plain(" ".join(text.split())).plain


def headline(found: Evaluation | Profile, status: str, console: Console) -> None:
    colour = _COLOUR.get(found.status, "bold red")
    console.print(Text.assemble((status, colour), f"  {found.workload} on {found.tpu}"))
    console.print(plain(found.message), soft_wrap=True)
    console.print(Text.assemble(("Next: ", "bold"), plain(found.next_step)), soft_wrap=True)


def timing(found: Timing, console: Console) -> None:
    """Times by operation, then the whole against the baseline."""
    console.print()
    if found.ops:
        operations(found.ops, console)
        console.print()
    times(found, console)
    notes(found, console)


def operations(ops: Sequence[OpTime], console: Console) -> None:
    """A line for each operation, in the program's order; where there are many, those that take longest."""
    rows = table("operation", ">calls", ">schedule us", ">HBM us", "bound", ">us", "method")
    longest = sorted(range(len(ops)), key=lambda place: -ops[place].us)
    shown = sorted(longest[:_SHOWN_OPERATIONS])
    for op in (ops[place] for place in shown):
        terms = (us(op.static_us), us(op.hbm_floor_us))
        rows.add_row(plain(op.name), str(op.calls), *terms, op.bound, us(op.us), op.method)
    if rest := longest[_SHOWN_OPERATIONS:]:
        rows.add_row(f"and {len(rest)} more", "", "", "", "", us(sum(ops[place].us for place in rest)), "")
    console.print(rows)


def times(found: Timing, console: Console) -> None:
    """Candidate, baseline and speedup, each with its interval where it has one."""
    least = " at least" if found.lower_bound and found.candidate_us is not None else ""
    base_least = " at least" if found.baseline_lower_bound else ""
    told = f"candidate{least} {us(found.candidate_us)} us{interval(found.candidate_interval_us)}"
    told += f", XLA baseline{base_least} {us(found.baseline_us)} us{interval(found.baseline_interval_us)}"
    if found.speedup is not None:
        told += f", speedup{base_least} {found.speedup:g}{interval(found.speedup_interval)}"
    if found.indistinguishable:
        told += ": indistinguishable, neither is known to be faster"
    line(console, found.source or "no time", told)
    if found.candidate_interval_us or found.baseline_interval_us or found.speedup_interval:
        line(console, "in brackets", _BRACKETS[found.source or "predicted"])
    if found.baseline_method:
        line(console, "baseline by", found.baseline_method)


def notes(found: Timing, console: Console) -> None:
    for note in found.notes:
        line(console, "note", note)


def interval(ends: tuple[float, float] | None) -> str:
    """In three digits: more would pretend to precision."""
    if not ends:
        return ""
    low, high = (us(float(f"{end:.3g}")) for end in ends)
    return f" [{low} to {high}]"


def _correctness(found: Correctness) -> str:
    seeds = f"{found.seeds} seed{'s' * (found.seeds != 1)}"
    parts = [f"{'within' if found.ok else 'outside'} {found.gate}, {seeds}, {found.size} size"]
    if found.on_tpu:
        parts.append(f"kernel for the TPU, evaluated: {found.on_tpu_note or found.on_tpu}")
    for output in found.outputs:
        errors = [("E", output.error_e), ("R", output.error_r), ("max abs", output.max_abs_error)]
        told = ", ".join(f"{name} {value:.3g}" for name, value in errors if value is not None)
        if output.nonfinite:
            told += f", {output.nonfinite} not finite"
        if output.worst_index is not None:
            actual, expected = (
                "a value that is not finite" if value is None else f"{value:g}"
                for value in (output.actual, output.expected)
            )
            told += f"; worst at {output.worst_index}: {actual} for {expected}"
        parts.append(f"output {output.index} {output.dtype}{output.shape}: {told}")
    return "; ".join(parts)


def _diagnosis(found: Diagnosis | None, tpu: str, console: Console) -> None:
    if not found:
        return
    for finding in found.findings:
        line(console, "diagnosis", finding)
    there = [cell.row for cell in taxonomy.rows(tpu)]
    for row in found.taxonomy_rows:
        if row in there:
            line(console, "taxonomy", f"hawkeye taxonomy show {row} --tpu {tpu}")


def compiler(message: str | None, console: Console) -> None:
    if not message:
        return
    lines = message.strip().splitlines()
    console.print(
        "The compiler's own words:" + (" (cut; --json has all)" if len(lines) > _SHOWN_COMPILER_LINES else "")
    )
    for line in lines[:_SHOWN_COMPILER_LINES]:
        console.print(plain(f"  {line}"), soft_wrap=True)


def isolation(name: str) -> str:
    if name == "bubblewrap":
        return name
    return (
        f"{name}: resource limits alone stood around the kernel's Python; `hawkeye doctor` says how to get bubblewrap"
    )


def versions(found: Versions) -> str:
    return ", ".join(f"{name} {value}" for name, value in found)


def us(value: float | None) -> str:
    """Five digits of a time, without an exponent where it is long and without any where it is nothing."""
    if value is None:
        return "unknown"
    if 0 < value < 1e-3:
        return "<0.001"
    return f"{value:,.0f}" if value >= 1e5 else f"{value:.5g}"


def line(console: Console, label: str, text: str) -> None:
    console.print(Text.assemble((f"{label:<12}", "dim"), plain(text)), soft_wrap=True)


def table(*columns: str) -> Table:
    """A table without lines; a column whose name starts with > is aligned to the right."""
    made = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        justify: Literal["right", "left"] = "right" if name.startswith(">") else "left"
        # a number broken in two is another number, and a name is there to be copied
        whole = justify == "right" or name in ("workload", "row")
        made.add_column(name.removeprefix(">"), justify=justify, overflow="fold", no_wrap=whole)
    return made

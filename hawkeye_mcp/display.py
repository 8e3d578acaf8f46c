"""How results look to a person on a terminal. Texts that a candidate could have shaped are printed as plain text."""

import re
from collections.abc import Iterable
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hawkeye_mcp import taxonomy
from hawkeye_mcp.evaluation import Correctness, Diagnosis, Evaluation, Timing, Versions
from hawkeye_mcp.profile import Count, Finding, Profile
from hawkeye_mcp.taxonomy import Cell
from hawkeye_mcp.workloads import Workload

_COLOUR = {"correct": "bold green", "harness_error": "bold magenta"}
_SHOWN_COMPILER_LINES = 12
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def evaluation(found: Evaluation, console: Console) -> None:
    """The verdict first, then what it rests on."""
    _headline(found, found.status, console)
    if found.timing:
        _timing(found.timing, console)
    if found.correctness:
        _line(console, "correctness", _correctness(found.correctness))
    if found.audit:
        kernels = ", ".join(f"{k.name} grid {k.grid}" for k in found.audit.kernels) or "none"
        outside = ", ".join(f"{op.op} x{op.count}" for op in found.audit.outside) or "nothing"
        _line(console, "audit", f"kernels: {kernels}; work outside them: {outside}")
    _compiler(found.compiler_message, console)
    _diagnosis(found.diagnosis, found.tpu, console)
    _line(console, "isolation", _isolation(found.isolation))
    if found.artifact:
        _line(console, "artifact", f"sha256 {found.artifact.sha256} ({found.artifact.bytes} bytes)")
    took = ", ".join(f"{stage} {s:.1f}" for stage, s in found.stages_s.items() if stage != "total")
    _line(console, "took", f"{found.stages_s.get('total', 0):.1f} s ({took})")
    _line(console, "versions", _versions(found.versions))


def profile(found: Profile, console: Console) -> None:
    """Where the predicted time goes; never called correct, because nothing was verified."""
    _headline(found, found.status, console)
    if found.timing:
        _timing(found.timing, console)
    if found.counters:
        _counters(found.counters, console)
    console.print()
    _compiler(found.compiler_message, console)
    for finding in found.findings:
        _finding(finding, found.tpu, console)
    _line(console, "versions", _versions(found.versions))


def workloads(found: Iterable[Workload], console: Console) -> None:
    table = _table("workload", "family", ">GFLOP", ">least MB", "what it computes")
    for w in found:
        table.add_row(w.name, w.family, f"{w.flops / 1e9:,.1f}", f"{w.least_bytes / 1e6:,.1f}", w.summary)
    console.print(table)


def cells(found: Iterable[Cell], console: Console) -> None:
    table = _table("tpu", "row", "technique", "in one line")
    for cell in found:
        table.add_row(cell.tpu, cell.row, cell.title, cell.one_line)
    console.print(table)


def baselines(rows: Iterable[tuple[str, str, str, str]], console: Console) -> None:
    """Rows of (chip, workload, microseconds, method)."""
    table = _table("tpu", "workload", ">predicted us", "method")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def plain(text: str) -> Text:
    """Text without control characters, which could rewrite what stands above, and without lone surrogates."""
    return Text(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))


def _headline(found: Evaluation | Profile, status: str, console: Console) -> None:
    colour = _COLOUR.get(found.status, "bold red")
    console.print(Text.assemble((status, colour), f"  {found.workload} on {found.tpu}"))
    console.print(plain(found.message), soft_wrap=True)
    console.print(Text.assemble(("Next: ", "bold"), plain(found.next_step)), soft_wrap=True)


def _timing(timing: Timing, console: Console) -> None:
    console.print()
    if timing.ops:
        table = _table("operation", ">calls", ">schedule us", ">HBM us", "bound", ">us", "method")
        for op in timing.ops:
            terms = (_us(op.static_us), _us(op.hbm_floor_us))
            table.add_row(plain(op.name), str(op.calls), *terms, op.bound, _us(op.us), op.method)
        console.print(table)
        console.print()
    least = " at least" if timing.lower_bound else ""
    base_least = " at least" if timing.baseline_lower_bound else ""
    times = f"candidate{least} {_us(timing.candidate_us)} us, XLA baseline{base_least} {_us(timing.baseline_us)} us"
    if timing.speedup is not None:
        times += f", speedup{base_least} {timing.speedup:g}"
    _line(console, timing.source or "no time", times)
    if timing.baseline_method:
        _line(console, "baseline by", timing.baseline_method)
    for note in timing.notes:
        _line(console, "note", note)


def _correctness(found: Correctness) -> str:
    seeds = f"{found.seeds} seed{'s' * (found.seeds != 1)}"
    parts = [f"{'within' if found.ok else 'outside'} {found.gate}, {seeds}, {found.size} size"]
    for output in found.outputs:
        errors = [("E", output.error_e), ("R", output.error_r), ("max abs", output.max_abs_error)]
        told = ", ".join(f"{name} {value:.3g}" for name, value in errors if value is not None)
        if output.nonfinite:
            told += f", {output.nonfinite} not finite"
        if output.worst_index is not None:
            told += f"; worst at {output.worst_index}: {output.actual:g} for {output.expected:g}"
        parts.append(f"output {output.index} {output.dtype}{output.shape}: {told}")
    return "; ".join(parts)


def _counters(counters: dict[str, Count], console: Console) -> None:
    table = _table("counter", ">total", "unit")
    for name, count in counters.items():
        table.add_row(name, f"{count.total:,.12g}", count.unit)
    console.print()
    console.print(table)


def _diagnosis(found: Diagnosis | None, tpu: str, console: Console) -> None:
    if not found:
        return
    for finding in found.findings:
        _line(console, "diagnosis", finding)
    there = [cell.row for cell in taxonomy.rows(tpu)]
    for row in found.taxonomy_rows:
        if row in there:
            _line(console, "taxonomy", f"hawkeye taxonomy show {row} --tpu {tpu}")


def _finding(found: Finding, tpu: str, console: Console) -> None:
    _line(console, "diagnosis", found.text)
    if found.taxonomy_row:
        _line(console, "taxonomy", f"hawkeye taxonomy show {found.taxonomy_row} --tpu {tpu}")


def _compiler(message: str | None, console: Console) -> None:
    if not message:
        return
    lines = message.strip().splitlines()
    console.print(
        "The compiler's own words:" + (" (cut; --json has all)" if len(lines) > _SHOWN_COMPILER_LINES else "")
    )
    for line in lines[:_SHOWN_COMPILER_LINES]:
        console.print(plain(f"  {line}"), soft_wrap=True)


def _isolation(name: str) -> str:
    if name == "bubblewrap":
        return name
    return (
        f"{name}: resource limits alone stood around the kernel's Python; `hawkeye doctor` says how to get bubblewrap"
    )


def _versions(found: Versions) -> str:
    return ", ".join(f"{name} {value}" for name, value in found)


def _us(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.5g}"


def _line(console: Console, label: str, text: str) -> None:
    console.print(Text.assemble((f"{label:<12}", "dim"), plain(text)), soft_wrap=True)


def _table(*columns: str) -> Table:
    """A table without lines; a column whose name starts with > is aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        justify: Literal["right", "left"] = "right" if name.startswith(">") else "left"
        # a workload's name is there to be copied
        table.add_column(name.removeprefix(">"), justify=justify, overflow="fold", no_wrap=name == "workload")
    return table

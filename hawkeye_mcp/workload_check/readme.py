"""workloads/README.md: one table of all workloads, from their declarations, their checks and the baselines."""

from collections.abc import Sequence
from pathlib import Path

from hawkeye_mcp import content
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check import runner
from hawkeye_mcp.workload_check.report import Checked
from hawkeye_mcp.workloads import Workload

_INTRODUCTION = """\
# Workloads

Each folder is one computation to speed up: `workload.py` (inputs, the computation in plain JAX, an oracle) and
`workload.toml` (sizes, gate and its reason, what differs from upstream). `hawkeye workloads show NAME` prints one as an
agent reads it, `hawkeye workloads check` audits them, `hawkeye workloads new NAME` starts one of your own.

This page is written by `hawkeye workloads readme --write`, which checks what has changed first. Columns:

- size: the dimensions at full size; GFLOP and least MB: useful work and traffic at that size.
- bound: what limits the workload on each chip at its peaks, FLOPs or HBM bytes.
- power: share of outputs at the check size that the mean of the right ones misses by more than the gate allows.
- honest, gate: the error of XLA's program in the workload's dtype, the worst of several draws, and what the judge allows.
- caught: wrong programs made from this one that fail the gate, of those that differ from it; the rest are in
  `workload.toml` under `[[survives]]` with reasons.
- XLA over roofline: predicted time of the XLA baseline over the time its FLOPs or bytes take at peak, per chip; >= where
  a part of it could not be predicted, empty where no baseline is shipped (`hawkeye baselines` predicts them). When they are
  predicted anew, `hawkeye workloads readme --write` brings this column up to date; it counts for nothing else.
- full size: processor seconds, of all cores together, and most memory of one verification at full size on a CPU (draw,
  program, oracle), from the last `hawkeye workloads check --size full`; "over 12 GB" is not run, empty was not yet.

"""
_COLUMNS = ("workload", "family", "size", "GFLOP", "least MB", "bound", "power", "honest", "gate", "caught")
_MEASURED = ("XLA over roofline", "full size")  # not compared: they change with the method and the machine
_HEADER = [*_COLUMNS, *_MEASURED]


def path() -> Path:
    return content.folder("workloads") / "README.md"


def render(workloads: Sequence[Workload], checks: Sequence[Checked], page: str = "") -> str:
    """The whole page; checks in the order of the workloads.

    page: the page so far, whose figures at full size stay where this machine has none of its own.
    """
    shown = {cells[0]: cells[-1] for line in page.splitlines() if len(cells := _split(line)) == len(_HEADER)}
    rows = [
        [*_row(w, c), _over_roofline(w, c), _at_full_size(runner.known(w, "full")) or shown.get(w.name, "")]
        for w, c in zip(workloads, checks, strict=True)
    ]
    header = _HEADER
    lines = [header, ["---"] * len(header), *rows]
    return _INTRODUCTION + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def differences(page: str, current: str) -> list[str]:
    """Lines of a page that are not the current one's, but for what is measured and a last digit of power and error."""
    have, want = ([_cells(line) for line in text.splitlines()] for text in (page, current))
    missing = [line for line in want if not any(_alike(line, other) for other in have)]
    left = [line for line in have if not any(_alike(line, other) for other in want)]
    return [f"+ {' | '.join(line)}" for line in missing] + [f"- {' | '.join(line)}" for line in left]


def _cells(line: str) -> list[str]:
    cells = _split(line)
    return cells[: len(_COLUMNS)] if len(cells) == len(_HEADER) else cells


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _alike(a: list[str], b: list[str]) -> bool:
    """The same, where power and error may differ as they do between two machines' roundings."""
    near = {_COLUMNS.index("power"): 1.0, _COLUMNS.index("honest"): None}
    if len(a) != len(b) or len(a) != len(_COLUMNS) or a[0] != b[0] or a[0] == "workload" or a[0].startswith("---"):
        return a == b
    for index, (left, right) in enumerate(zip(a, b, strict=True)):
        if left != right and not (index in near and _close(left, right, near[index])):
            return False
    return True


def _close(left: str, right: str, within: float | None) -> bool:
    try:
        one, other = float(left.rstrip("%")), float(right.rstrip("%"))
    except ValueError:
        return False
    return abs(one - other) <= (within if within is not None else 0.2 * max(one, other))


def _row(workload: Workload, found: Checked) -> list[str]:
    told = found.mutants
    passed = len(told.survived) + len(told.allowed)
    honest = max((variant.error for variant in found.honest if variant.error is not None), default=None)
    return [
        workload.name,
        workload.family,
        " ".join(f"{name}={value}" for name, value in workload.sizes["full"].items()),
        f"{workload.flops / 1e9:,.1f}",
        f"{workload.least_bytes / 1e6:,.1f}",
        _bounds(found),
        "none" if workload.no_power else ("" if found.power is None else f"{found.power:.0%}"),
        "" if honest is None else f"{honest:.2g}",
        found.gate,
        "none" if workload.no_power else f"{len(told.caught)} of {len(told.caught) + passed}",
    ]


def _bounds(found: Checked) -> str:
    """One word if all chips agree, else each chip's."""
    sides = {tpu: roof.bound for tpu, roof in found.roofline.items()}
    if len(set(sides.values())) == 1:
        return next(iter(sides.values()))
    return ", ".join(f"{tpu} {side}" for tpu, side in sides.items())


def _over_roofline(workload: Workload, found: Checked) -> str:
    """The shipped baselines' times over the least, by chip; only those of this version."""
    told = []
    for tpu, roof in found.roofline.items():
        entry = baseline.shipped(workload, tpu, versions())
        if entry and entry.refused is not None:
            told.append(f"{tpu} does not compile")
        elif entry:
            time = baseline.timed(entry, workload)
            told.append(f"{tpu} {'>=' * time.lower_bound}{time.us / roof.least_us:.3g}")
    return ", ".join(told)


def _at_full_size(found: Checked | None) -> str:
    """What one verification took, or nothing if none is known."""
    if found is None:
        return ""
    if found.cpu_seconds is None or found.peak_bytes is None:
        return f"over {runner.MEMORY_BYTES / 1e9:g} GB"
    return f"{found.cpu_seconds:.0f} s, {found.peak_bytes / 1e9:.1f} GB"

"""The static schedule of a kernel: its loops, and how full its slots are.

Read from three dumps of one operation that are as long as the program, not as its run: the final bundles as text, a table
of slots used in each bundle, and the register pressure. Their layout is undocumented; this is the only reader of them.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

VECTOR_REGISTERS = 64  # the dumps of all chips name v0 to v63
_DELAY_SLOTS = 4  # bundles after a jump that still run, as the dumps show

_BUNDLE = re.compile(rb"^ +(?:0x)?([0-9a-f]+) +(?:[A-Z]{2})?: ")
_STARTS = re.compile(rb"[Ss]tart(?:/End empty)? region (\d+)")
_JUMP = re.compile(rb"sbr\.rel [^;]*target = \$region(\d+)")
_LOCATION = re.compile(rb'loc\("([^"]*)":(\d{1,9}):')
_LONG = {  # instructions that keep their unit for several cycles, which the table of slots counts
    "mxu_matmuls": re.compile(rb" = vmatmul"),
    "mxu_pushes": re.compile(rb" = vmatp(?:ush|rep)"),
    "xlu_ops": re.compile(rb" = v(?!pop)\S*\.xlu\d"),
}
BUSY_COLUMNS = {"mxu_matmuls": "MATMUL", "mxu_pushes": "MATPUSH", "xlu_ops": "XLU"}
_REGISTER = re.compile(rb"%v\d+_v(\d{1,9})\b")
_PRESSURE = re.compile(rb"Register pressure for vregs is (\d{1,9})\b")


@dataclass(frozen=True)
class Loop:
    """A loop of the schedule: its first and last bundle, the region that its jump back names, and the first and last line
    of the kernel file in it."""

    first: int
    last: int
    region: str
    lines: tuple[int, int] | None


@dataclass(frozen=True)
class Schedule:
    """loops: in the order of their starts. registers: vector registers used. units: by counter how many instructions
    occupy a unit for more than one cycle, each instruction once."""

    loops: list[Loop]
    registers: int
    units: dict[str, int]


@dataclass(frozen=True)
class Slots:
    """Of each bundle how many slots of each kind it uses, and how many there are."""

    capacity: dict[str, int]
    rows: list[tuple[int, ...]]

    def used(self, first: int = 0, last: int | None = None) -> dict[str, int]:
        """Slots used in bundles first to last, the last included."""
        chosen = self.rows[first : None if last is None else last + 1]
        return {name: sum(column) for name, column in zip(self.capacity, zip(*chosen, strict=True), strict=False)}


def read(lines: Iterable[bytes], source: str) -> Schedule:
    """Read the dump of final bundles. source: the kernel file as the dump names it."""
    file = source.encode()
    starts: dict[str, int] = {}
    loops: list[tuple[int, int, str]] = []
    lines_at: list[tuple[int, int, int]] = []
    registers = 0
    units: Counter[str] = Counter()
    at = -1
    for text in lines:
        if bundle := _BUNDLE.match(text):
            at = int(bundle[1], 16)
        if at < 0:  # the legend
            continue
        starts.update((region.decode(), at) for region in _STARTS.findall(text))
        for region in map(bytes.decode, _JUMP.findall(text)):
            if starts.get(region, at + 1) <= at:
                loops.append((starts[region], at + _DELAY_SLOTS, region))
        numbers = [int(line) for path, line in _LOCATION.findall(text) if path == file]
        if numbers:
            lines_at.append((at, min(numbers), max(numbers)))
        registers = max(registers, *(int(n) + 1 for n in _REGISTER.findall(text)), 0)
        for counter, kind in _LONG.items():
            units[counter] += len(kind.findall(text))
    return Schedule(
        [
            Loop(first, last, region, _span([(lo, hi) for n, lo, hi in lines_at if first <= n <= last]))
            for first, last, region in sorted(loops)
        ],
        registers,
        dict(units),
    )


def _span(lines: list[tuple[int, int]]) -> tuple[int, int] | None:
    return (min(low for low, _ in lines), max(high for _, high in lines)) if lines else None


def hot_loop(schedule: Schedule, counts: Counter[str], bundles: int, *, grid: bool) -> tuple[Loop, int] | None:
    """The loop of the kernel's body that most of the executed bundles are of, and how often it jumped back; None if none
    takes half of them.

    counts: of the executed schedule, with the jumps. bundles: that were executed. grid: whether the outermost loop is the
    grid's, which is not of the body.
    """
    loops = schedule.loops
    weighed = []
    for loop in loops:
        innermost = not any(other.first > loop.first and other.last <= loop.last for other in loops)
        within = any(other.first < loop.first and other.last >= loop.last for other in loops)
        times = counts[f"to region{loop.region}"]
        if innermost and (within or not grid):
            weighed.append((times * (loop.last - loop.first + 1), times, loop))
    weight, times, hottest = max(weighed, key=lambda item: item[0], default=(0, 0, None))
    return (hottest, times) if hottest and weight > bundles / 2 else None


def read_slots(text: str) -> Slots | None:
    """The table of slots, or None if its layout is another."""
    lines = text.splitlines()
    try:
        names = [name.strip() for name in lines[1].split(",")]
        capacity = dict(zip(names, map(int, lines[2].split()), strict=True))
        rows = [tuple(map(int, line.split())) for line in lines[4:] if line.strip()]
    except (IndexError, ValueError):
        return None
    return Slots(capacity, rows) if all(len(row) == len(names) for row in rows) and rows else None


def read_pressure(text: bytes) -> int | None:
    """Most vector registers live at once before spilling, or None if the dump does not say."""
    found = _PRESSURE.search(text)
    return int(found[1]) if found else None


def dump_of(folder: Path, op: str, kind: str) -> Path | None:
    """The file of one operation; kind: "final_bundles", "register-pressure" or
    "final_hlo-static-per-bundle-utilization"."""
    wanted = re.compile(rf"\d+-{re.escape(op)}-\d+-{re.escape(kind)}\.txt")
    return next((path for path in folder.iterdir() if wanted.fullmatch(path.name)), None)

"""Who owns each cycle of a kernel's run, from libtpu's dump of its static profile's critical path.

The dump has a record for each bundle that issues something, in the order of execution: "Length to end: N, INSTRUCTION",
N the cycles from there to the end. The first N is the estimated cycles of the whole run. What N falls by from one record
to the next is one cycle of issue and, beyond that, cycles in which nothing is issued because the result of this
instruction is waited for. That of a transfer stands with its start, less what runs meanwhile. Its layout is undocumented;
this is the only reader of it.

Transfers that are started one after the other, without a wait between them, share a queue: which of their starts the dump
names for a wait is chance, so they share it in proportion to their sizes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hawkeye_mcp.profiler import llo

# Length, instruction's name, the rest up to the next record (a transfer's has several lines).
_RECORD = re.compile(rb"\nLength to end: (\d{1,18}), (?:%\S+ = )?([a-z_]\S*)([^\n]*(?:\n(?!Length to end: )[^\n]*)*)")
_GRANULES = re.compile(rb"size_in_granules=\*/(\d{1,18})\b")
_SPILL = re.compile(rb"\[(vmem|smem):\[#allocation\d+_spill\]")
_LOCATION = re.compile(rb'loc\("([^"]*)":(\d{1,9}):')
_SEPARATOR = b"\nLength to end: "

# A line of the kernel file, from 1, or what the compiler adds.
Place = int | str
SPILLS = "spills and fills of vector registers"
SCALAR_SPILLS = "spills and fills of scalar registers"  # to SMEM; no counter of spills has them
PIPELINE = "transfers and waits of the grid's pipeline"
OTHER = "addresses, loop control, moves, inside jax functions"

_CAUSES = {
    "mxu_matmuls": "MXU result",
    "mxu_pushes": "MXU operand push",
    "eup_ops": "EUP result",
    "vector_to_scalar": "vector to scalar move",
    "vector_loads": "vector load",
    "vector_stores": "vector store",
    "valu_ops": "VALU result",
    "scalar_ops": "scalar result",
    "dma_waits": "semaphore",
    "sync_ops": "semaphore",
}


@dataclass
class Walk:
    """Cycles of one run.

    issued: bundles that issue something, one cycle each. stalls: the other cycles, by what is waited for. places: all
    cycles by where they come from; place_stalls: those of them without issue. before, after: cycles until the kernel's
    own work begins and from where it has ended (transfers that fill and drain the pipeline).
    """

    cycles: int = 0
    issued: int = 0
    stalls: Counter[str] = field(default_factory=Counter)
    places: Counter[Place] = field(default_factory=Counter)
    place_stalls: Counter[Place] = field(default_factory=Counter)
    before: int = 0
    after: int = 0


class Incomplete(Exception):
    """The dump does not hold a whole walk: it was cut off, or its layout is another."""


def walk(pieces: Iterable[bytes], source: str, name_of: Callable[[bytes], str]) -> Walk:
    """Read one dump.

    Args:
        source: the kernel file as the dump names it; instructions of other files count as OTHER.
        name_of: tells what a transfer moves from its instruction's text.

    Raises:
        Incomplete: the records do not lead from the first length down to the end.
    """
    found = Walk()
    file = source.encode()
    kinds: dict[bytes, str] = {}
    flying: list[tuple[str, int, int]] = []
    left = 0  # length to end at the last instruction of the kernel's own
    for length, spent, op, rest in _spent(pieces):
        kind = kinds.get(op) or kinds.setdefault(op, llo.kind_of(op.decode("utf-8", "replace")))
        location = _LOCATION.search(rest)
        place: Place = int(location[2]) if location and location[1] == file else _added(kind, rest)
        found.cycles += spent
        found.issued += 1
        found.places[place] += spent
        if spent > 1:
            found.place_stalls[place] += spent - 1
        if kind == "dma_starts":
            size = _GRANULES.search(rest)
            flying.append((name_of(op + rest), int(size[1]) if size else 1, spent - 1))
        elif spent > 1:
            found.stalls[_cause(kind, op)] += spent - 1
        if kind == "dma_waits":
            _land(flying, found.stalls)
        if isinstance(place, int) and (op[:1] == b"v" or kind == "dma_starts"):
            found.before = found.before if left else found.cycles - spent
            left = length
    _land(flying, found.stalls)
    found.after = max(0, left - 1)
    return found


def _spent(pieces: Iterable[bytes]) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Of each record: cycles to the end, cycles to the next record, the instruction's name, the rest of its text.

    Raises:
        Incomplete: they do not lead down to the end.
    """
    last: tuple[int, bytes, bytes] | None = None
    for piece in pieces:
        for text, op, rest in _RECORD.findall(piece):
            length = int(text)
            if last:
                if length >= last[0]:
                    raise Incomplete(f"cycles to the end go from {last[0]} to {length}")
                yield last[0], last[0] - length, last[1], last[2]
            last = length, op, rest
    if last is None:
        raise Incomplete("the critical path has no records")
    if last[0] != 1:
        raise Incomplete("the critical path is cut off")
    yield 1, 1, last[1], last[2]


def _added(kind: str, rest: bytes) -> str:
    """What an instruction without a line of the kernel file is for."""
    if spilled := _SPILL.search(rest):
        return SPILLS if spilled[1] == b"vmem" else SCALAR_SPILLS
    return PIPELINE if kind in ("dma_starts", "dma_waits", "sync_ops") else OTHER


def _land(flying: list[tuple[str, int, int]], stalls: Counter[str]) -> None:
    """Share the waits for transfers (name, size, cycles waited) of one direction by their sizes, and forget them."""
    for direction in {name.split(" of ")[0] for name, _, _ in flying}:
        alike = [item for item in flying if item[0].startswith(direction)]
        waited, size = sum(stall for _, _, stall in alike), sum(size for _, size, _ in alike)
        given = 0
        for name, part, _ in sorted(alike, key=lambda item: item[1])[:-1]:
            # what only the run decides may be noted as nothing at all
            stalls[name] += (share := waited * part // size if size else 0)
            given += share
        stalls[max(alike, key=lambda item: item[1])[0]] += waited - given
    flying.clear()


def _cause(kind: str, op: bytes) -> str:
    if kind in llo.XLU:
        return "XLU result"
    if kind == "result_pops":
        unit = "EUP" if op == b"vpop.erf" else "XLU" if b".xlu" in op else "MXU"
        return f"{unit} result"
    return _CAUSES.get(kind, "nothing to issue")


def walk_file(path: Path, source: str, name_of: Callable[[bytes], str]) -> Walk | None:
    """One dump read, or None if it is not there."""
    return walk(llo.pieces(path, _SEPARATOR), source, name_of) if path.is_file() else None

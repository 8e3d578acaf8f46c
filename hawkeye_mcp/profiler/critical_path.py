"""Who owns each cycle of a kernel's run, from libtpu's dump of its static profile's critical path.

The dump has a record for each bundle that issues something, in the order of execution: "Length to end: N, INSTRUCTION",
N the cycles from there to the end. The first N is the estimated cycles of the whole run. What N falls by from one record
to the next is one cycle of issue and, beyond that, cycles in which nothing is issued because the result of this
instruction is waited for: that of a transfer stands with its start, minus what runs meanwhile. Its layout is
undocumented; this is the only reader of it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hawkeye_mcp.profiler import llo

# Length, instruction's name, the rest up to the next record (a transfer's has several lines).
_RECORD = re.compile(rb"\nLength to end: (\d+), (?:%\S+ = )?([a-z_]\S*)([^\n]*(?:\n(?!Length to end: )[^\n]*)*)")
_LOCATION = re.compile(rb'loc\("([^"]*)":(\d+):')
_SEPARATOR = b"\nLength to end: "

# A line of the kernel file, from 1, or what the compiler adds.
Place = int | str
SPILLS = "spills and fills of vector registers"
PIPELINE = "transfers and waits of the grid's pipeline"
OTHER = "address arithmetic, loop control, moves"

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
    last_length = -1
    kind, text = "", b""
    place: Place = OTHER
    entered = False
    left = 0  # length to end at the last instruction of the kernel's own

    def charge(spent: int) -> None:
        stall = spent - 1
        found.places[place] += spent
        if stall > 0:
            found.stalls[_cause(kind, text, name_of)] += stall
            found.place_stalls[place] += stall

    kinds: dict[bytes, str] = {}
    for piece in pieces:
        for length_text, op, rest in _RECORD.findall(piece):
            length = int(length_text)
            if last_length < 0:
                found.cycles = length
            elif length >= last_length:
                raise Incomplete(f"cycles to the end go from {last_length} to {length}")
            else:
                charge(last_length - length)
            if op not in kinds:
                kinds[op] = llo.kind_of(op.decode("utf-8", "replace"))
            kind, text = kinds[op], op + rest
            location = _LOCATION.search(rest)
            place = int(location[2]) if location and location[1] == file else _added(kind, rest)
            found.issued += 1
            if isinstance(place, int) and (op[:1] == b"v" or kind == "dma_starts"):
                if not entered:
                    entered = True
                    found.before = found.cycles - length
                left = length
            last_length = length
    if last_length != 1:
        raise Incomplete("it has no end" if last_length > 0 else "it has no records")
    charge(last_length)
    found.after = left - 1 if entered else 0
    return found


def _added(kind: str, rest: bytes) -> str:
    """What an instruction without a line of the kernel file is for."""
    if b"_spill]" in rest:
        return SPILLS
    return PIPELINE if kind in ("dma_starts", "dma_waits", "sync_ops") else OTHER


def _cause(kind: str, text: bytes, name_of: Callable[[bytes], str]) -> str:
    if kind == "dma_starts":
        return name_of(text)
    if kind in llo.XLU:
        return "XLU result"
    if kind == "result_pops":
        unit = "EUP" if b"vpop.erf" in text else "XLU" if b"lane" in text else "MXU"
        return f"{unit} result"
    return _CAUSES.get(kind, "nothing to issue")


def walk_file(path: Path, source: str, name_of: Callable[[bytes], str]) -> Walk | None:
    """One dump read, or None if it is not there."""
    return walk(llo.pieces(path, _SEPARATOR), source, name_of) if path.is_file() else None

"""Bytes that an operation of the compiled program must move over HBM: a lower bound.

An operand that only slices reach is read as far as they need, not whole: a fusion that takes one row out of a large
array moves a row. So each fused computation is walked from its results back to its parameters, with the fraction of
every value that is needed at least. An update in place writes its update alone.
"""

import itertools

from hawkeye_mcp.profiler.hlo_text import Computations, Line, arrays, root

_SLICES = ("slice", "dynamic-slice", "gather")
_UPDATES = {"dynamic-update-slice": 1, "scatter": 2}  # which operand holds the update
_SAME = ("bitcast", "reshape")


def moved_bytes(line: Line, types: dict[str, str], computations: Computations) -> int:
    """Of one operation at the top of a computation whose values have these types."""
    if line.opcode.endswith("-start"):  # a copy between HBM and VMEM; of a slice the type holds the whole as well
        return min((array.bytes for array in arrays(line.type) if array.dims), default=0)
    if line.opcode == "async-update":
        return _offloaded_bytes(line.type)
    results = arrays(line.type)
    shares = _written(line, types, computations)
    total = sum(array.bytes * share for array, share in zip(results, shares, strict=True) if not array.on_chip)
    read: dict[str, float] = {}
    for operand, share in zip(line.operands, _read(line, types, computations, 1.0, True), strict=True):
        read[operand] = max(read.get(operand, 0.0), share)
    return int(total + sum(hbm_bytes(types.get(operand, "")) * share for operand, share in read.items()))


def _offloaded_bytes(text: str) -> int:
    """Of a gather on a SparseCore, whose type is ((operands), result, context): it reads what it writes, if there is so
    much."""
    depths = itertools.accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in text[1:])
    end = next((at for at, depth in enumerate(depths, start=1) if depth == 0), len(text))
    result = arrays(text[end:])[:1]
    written = sum(array.bytes for array in result if not array.on_chip)
    return written + min(sum(array.bytes for array in result), hbm_bytes(text[:end]))


def hbm_bytes(text: str) -> int:
    """Bytes of the arrays of an HLO type that are not placed in VMEM or another on-chip space."""
    return sum(array.bytes for array in arrays(text) if not array.on_chip)


def _elements(text: str) -> int:
    return sum(array.elements for array in arrays(text))


def _written(line: Line, types: dict[str, str], computations: Computations) -> list[float]:
    """Of each array that an operation results in, the fraction that it writes at least."""
    whole = [1.0] * len(arrays(line.type))
    if line.opcode in _UPDATES and len(whole) == 1:
        return [_update_share(line, types)]
    if line.opcode == "fusion":
        inner = computations.get(line.computation("calls"), [])
        by_name = {each.name: each for each in inner}
        last = root(inner)
        results = [by_name.get(name) for name in last.operands] if last and last.opcode == "tuple" else [last]
        if len(results) == len(whole):
            inner_types = {each.name: each.type for each in inner}
            return [_written_by(result, by_name, inner_types, computations) for result in results]
    return whole


def _written_by(
    line: Line | None, by_name: dict[str, Line], types: dict[str, str], computations: Computations
) -> float:
    while line and line.opcode in _SAME and line.operands:
        line = by_name.get(line.operands[0])
    shares = _written(line, types, computations) if line else []
    return shares[0] if len(shares) == 1 else 1.0


def _update_share(line: Line, types: dict[str, str]) -> float:
    at = _UPDATES[line.opcode]
    update = _elements(types.get(line.operands[at], "")) if len(line.operands) > at else 0
    return min(1.0, update / max(_elements(line.type), 1))


def _read(line: Line, types: dict[str, str], computations: Computations, needed: float, in_place: bool) -> list[float]:
    """Of each operand the fraction that is read at least, where this fraction of the result is needed.

    in_place: whether the result takes the place of the operand that it updates.
    """
    if line.opcode == "fusion" and (inner := computations.get(line.computation("calls"))):
        found = _parameters(inner, computations, needed, in_place)
        return [found.get(at, needed) for at in range(len(line.operands))]
    size = max(_elements(line.type), 1)
    shares = []
    for at, operand in enumerate(line.operands):
        own = max(_elements(types.get(operand, "")), 1)
        share = needed
        # what is not needed of the result may all come from this operand
        rest = max(0.0, 1.0 - (1.0 - needed) * size / own)
        if line.opcode in _SLICES and at == 0:
            share = min(1.0, needed * size / own)
        elif line.opcode in _UPDATES and at == 0:
            share = 0.0 if in_place else max(0.0, needed - _update_share(line, types))
        elif line.opcode == "concatenate" or at == _UPDATES.get(line.opcode):
            share = rest
        elif line.opcode == "pad" and at == 0:
            share = min(rest, size / own)
        shares.append(share)
    return shares


def _parameters(lines: list[Line], computations: Computations, needed: float, in_place: bool) -> dict[int, float]:
    """Of each parameter of a fused computation, by number, the fraction that is read at least."""
    types = {line.name: line.type for line in lines}
    last = root(lines)
    if last is None:
        return {}
    fractions = {last.name: needed}
    results = {last.name} if in_place else set()
    found: dict[int, float] = {}
    for line in reversed(lines):
        if line.opcode == "parameter" and line.inside.isdigit():
            found[int(line.inside)] = fractions.get(line.name, 0.0)
        if line.name not in fractions:
            continue
        if line.name in results and line.opcode in (*_SAME, "tuple"):
            results.update(line.operands)
        shares = _read(line, types, computations, fractions[line.name], line.name in results)
        for operand, share in zip(line.operands, shares, strict=True):
            fractions[operand] = max(fractions.get(operand, 0.0), share)
    return found

"""How often a loop of the compiled program runs: XLA's TPU compiler notes no trip count, but counted loops show theirs.

A counted loop carries a counter that starts at a constant, grows by a constant, and is compared with a constant.
"""

import re

from hawkeye_mcp.profiler.hlo_text import Computations, Line, root

_MOVES = ("copy", "copy-start", "copy-done", "bitcast")
Named = dict[str, Line]


def trips(loop: Line, around: list[Line], computations: Computations) -> int | None:
    """Turns of a while instruction of the computation `around`, or None if they are not known."""
    if known := loop.config.get("known_trip_count", {}).get("n"):
        return int(known)
    condition, body = (_named(computations.get(loop.computation(role), [])) for role in ("condition", "body"))
    test, after = root(list(condition.values())), root(list(body.values()))
    before = _named(around)
    first = _source(before, loop.operands[0]) if loop.operands else None
    if not (test and after and first) or test.opcode != "compare" or {first.opcode, after.opcode} != {"tuple"}:
        return None

    def constant(lines: Named, name: str) -> int | None:
        """Of a value in the loop: a constant there, or one from before that the loop carries unchanged."""
        at = _carried(lines, name)
        if at is None:
            return _constant(lines, name)
        return _constant(before, first.operands[at]) if _carried(body, after.operands[at]) == at else None

    counter, end = _carried(condition, test.operands[0]), constant(condition, test.operands[1])
    if counter is None or end is None:
        return None
    start = _constant(before, first.operands[counter])
    turn = _source(body, after.operands[counter])
    if start is None or turn is None or turn.opcode != "add":
        return None
    steps = [constant(body, name) for name in turn.operands if _carried(body, name) != counter]
    direction = re.search(r"direction=(\w+)", test.rest)
    if len(steps) != 1 or not steps[0] or steps[0] < 0 or not direction or direction[1] not in ("LT", "LE"):
        return None
    return max(0, -((start - end - (direction[1] == "LE")) // steps[0]))


def _named(lines: list[Line]) -> Named:
    return {line.name: line for line in lines}


def _source(lines: Named, name: str) -> Line | None:
    """Where a value comes from, past copies of it."""
    line = lines.get(name)
    while line and line.opcode in _MOVES and line.operands:
        line = lines.get(line.operands[0])
    return line


def _carried(lines: Named, name: str) -> int | None:
    """Which of the values that the loop carries this is; None if it is another."""
    line = _source(lines, name)
    if not line or line.opcode != "get-tuple-element" or not (index := re.search(r"\bindex=(\d+)", line.rest)):
        return None
    source = lines.get(line.operands[0])
    return int(index[1]) if source and source.opcode == "parameter" else None


def _constant(lines: Named, name: str) -> int | None:
    line = _source(lines, name)
    return int(line.inside) if line and line.opcode == "constant" and re.fullmatch(r"-?\d+", line.inside) else None

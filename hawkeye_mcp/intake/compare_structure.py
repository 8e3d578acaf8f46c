"""Whether two programs are the same computation, from their structures alone: no value is looked at.

identical: the same operations on the same operands, in whatever order they are written, once calls are inlined and
what changes nothing is left out (`structure`). equivalent: different only in the ways that `essence` lists. divergent:
anything else, with the operations at which the two part.
"""

import hashlib
from collections import Counter
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.intake.essence import Essence, essence
from hawkeye_mcp.intake.graph import BadStructure, Graph, read
from hawkeye_mcp.intake.structure import COMMUTATIVE
from hawkeye_mcp.intake.structure_facts import Facts, facts

Verdict = Literal["identical", "equivalent", "divergent"]
MOST_LINES = 40
_LISTS = ("inputs", "outputs", "reductions", "contractions", "constants", "casts", "dtypes", "loops")


class Counts(BaseModel):
    """What one of two programs has more of than the other."""

    reference: list[str] = []
    candidate: list[str] = []


class Comparison(BaseModel):
    """differences: "- " is only in the reference, "+ " only in the candidate."""

    model_config = ConfigDict(extra="forbid")

    verdict: Verdict
    message: str
    differences: list[str] = Field(description="The operations at which the two part, first ones first.")
    counted: dict[str, Counts] = Field(
        description="What differs in their facts: operations, reductions, constants, ..."
    )


def compare(reference: dict[str, Any], candidate: dict[str, Any]) -> Comparison:
    """Raises BadStructure: one of them is no structure."""
    try:
        first, second = read(reference), read(candidate)
        return _compare(first, second)
    except RecursionError:
        raise BadStructure("the program is nested too deep to be compared") from None


def _compare(reference: Graph, candidate: Graph) -> Comparison:
    counted = _counted(facts(reference), facts(candidate))
    signature = [
        f"{sign} {kind} {number}: {of}"
        for kind, ours, theirs in (
            ("argument", reference.inputs, candidate.inputs),
            ("output", reference.types, candidate.types),
        )
        for sign, these, those in (("-", ours, theirs), ("+", theirs, ours))
        for number, of in enumerate(these)
        if number >= len(those) or those[number] != of
    ]
    if signature:
        message = "The two take or return different arrays."
        return Comparison(verdict="divergent", message=message, differences=signature[:MOST_LINES], counted=counted)
    if fingerprint(reference) == fingerprint(candidate):
        message = "The same operations on the same operands."
        return Comparison(verdict="identical", message=message, differences=[], counted={})
    ours, theirs = essence(reference), essence(candidate)
    if ours.digest == theirs.digest:
        message = "The same computation in another layout or spelling; values may differ by rounding."
        return Comparison(verdict="equivalent", message=message, differences=[], counted=counted)
    lines = _parting(ours, theirs)
    shown = lines[:MOST_LINES] + ([f"... and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])
    message = f"Not the same computation: they part at {len(lines)} operation{'s' if len(lines) != 1 else ''}."
    return Comparison(verdict="divergent", message=message, differences=shown, counted=counted)


def fingerprint(graph: Graph) -> str:
    """The same for programs that differ only in the order of what does not depend on each other."""
    keys: dict[str, str] = {}
    effects = []
    for number, node in enumerate(graph.nodes):
        operands = [keys.get(ref, ref) for ref in node.operands]
        if node.op in COMMUTATIVE:
            operands.sort()
        bodies = [fingerprint(body) for body in node.bodies]
        parts = (node.op, operands, node.out, sorted(node.params.items()), bodies, node.times)
        key = hashlib.sha256(repr(parts).encode()).hexdigest()[:24]
        effects += [key] if node.effects else []
        keys |= {f"n{number}.{position}": f"{key}.{position}" for position in range(len(node.out))}
    whole = (graph.inputs, [keys.get(ref, ref) for ref in graph.outputs], graph.types, effects)
    return hashlib.sha256(repr(whole).encode()).hexdigest()


def _parting(ours: Essence, theirs: Essence) -> list[str]:
    """The operations of each that the other lacks although it has all that they hang on."""
    lines = [f"- {line}" for line in _first_lacking(ours, theirs)]
    lines += [f"+ {line}" for line in _first_lacking(theirs, ours)]
    for number, (mine, other) in enumerate(zip(ours.outputs, theirs.outputs, strict=True)):
        if mine != other and mine[0] == other[0]:
            lines.append(f"- output {number}: the same values along other axes")
        elif mine != other and not lines:
            lines.append(f"- output {number}: another of the same values")
    return lines


def _first_lacking(of: Essence, other: Essence) -> list[str]:
    known = other.entries.keys() | {key for key, _, _ in other.outputs}
    waiting, seen, roots = [key for key, _, _ in reversed(of.outputs)], set(), set()
    waiting += [key for key, entry in of.entries.items() if entry.line.startswith("effect ")]
    while waiting:
        key = waiting.pop()
        if key in seen or key in known or key not in of.entries:
            continue
        seen.add(key)
        lacking = [one for one in of.entries[key].operands if one in of.entries and one not in known]
        if lacking:
            waiting += lacking
        else:
            roots.add(key)
    return list(dict.fromkeys(entry.line for key, entry in of.entries.items() if key in roots))


def _counted(ours: Facts, theirs: Facts) -> dict[str, Counts]:
    found = {}
    pairs: dict[str, tuple[Counter[str], Counter[str]]] = {
        "operations": (Counter(ours.operations), Counter(theirs.operations))
    }
    pairs |= {kind: (Counter(getattr(ours, kind)), Counter(getattr(theirs, kind))) for kind in _LISTS}
    for kind, (mine, other) in pairs.items():
        more, less = mine - other, other - mine
        if more or less:
            found[kind] = Counts(reference=_lines(more), candidate=_lines(less))
    return found


def _lines(counts: Counter[str]) -> list[str]:
    lines = [line if count == 1 else f"{line} x{count}" for line, count in counts.items()]
    return lines[:MOST_LINES] + ([f"... and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])

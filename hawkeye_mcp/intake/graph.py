"""The data that `structure` makes, read back strictly: it may come from a sandbox, whose program may have written it."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MOST_NODES = 20_000
_DEEPEST = 12
_REFERENCE = re.compile(r"a(\d{1,6})|n(\d{1,6})\.(\d{1,6})|([ck]):.*", re.DOTALL)
_TYPE = re.compile(r"(\w+)\[((?:\d+(?:,\d+)*)?)\]")

Word = Annotated[str, Field(max_length=200)]
Words = Annotated[list[Word], Field(max_length=2_000)]


class BadStructure(ValueError):
    """It is none; the message says why."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


class Node(_Part):
    """One operation; see `structure` for what the fields hold."""

    op: Word
    operands: Words = Field(alias="in")
    out: Words
    params: dict[Word, Any] = {}
    bodies: Annotated[list["Graph"], Field(max_length=64)] = []
    times: int | None = None
    effects: bool = False


class Graph(_Part):
    """A program, or the body of an operation."""

    inputs: Words
    outputs: Words
    types: Words
    nodes: Annotated[list[Node], Field(max_length=MOST_NODES)]

    def type_of(self, ref: str) -> str:
        """The type of what a reference stands for, such as "f32[8,128]"."""
        kind, rest = ref[0], ref[1:]
        if kind == "a":
            return self.inputs[int(rest)]
        if kind == "n":
            number, _, position = rest.partition(".")
            return self.nodes[int(number)].out[int(position)]
        dtype = ref.split(":", 2)[1]
        return dtype if kind == "k" else f"{dtype}[]"


def read(value: Any) -> Graph:
    """The graph in what `structure` returned.

    Raises:
        BadStructure: anything else.
    """
    if not isinstance(value, dict) or value.get("schema") != "hawkeye.structure/1":
        raise BadStructure("the structure is no hawkeye.structure/1")
    _bounded(value)
    try:
        found = Graph.model_validate({key: part for key, part in value.items() if key != "schema"})
    except (ValidationError, RecursionError) as error:
        raise BadStructure(f"the structure does not read: {str(error)[:300]}") from None
    _check(found)
    return found


def _bounded(value: Any) -> None:
    left = 40 * MOST_NODES
    waiting = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > 8 * _DEEPEST:
            raise BadStructure("the structure is too large")
        if isinstance(one, dict | list):
            waiting += [(inner, depth + 1) for inner in (one.values() if isinstance(one, dict) else one)]
        elif isinstance(one, str) and len(one) > 500:
            raise BadStructure("the structure has a text that is too long")


def _check(graph: Graph, depth: int = 0) -> None:
    """Every reference is to what was there before it."""
    if depth > _DEEPEST:
        raise BadStructure("bodies lie too deep in one another")
    if len(graph.types) != len(graph.outputs):
        raise BadStructure("outputs and their types do not agree")
    for number, node in enumerate(graph.nodes):
        for ref in node.operands:
            _check_reference(graph, ref, number)
        for body in node.bodies:
            _check(body, depth + 1)
    for ref in graph.outputs:
        _check_reference(graph, ref, len(graph.nodes))


def _check_reference(graph: Graph, ref: str, before: int) -> None:
    match = _REFERENCE.fullmatch(ref)
    good = match is not None
    if match and match[1]:
        good = int(match[1]) < len(graph.inputs)
    elif match and match[2]:
        good = int(match[2]) < before and int(match[3]) < len(graph.nodes[int(match[2])].out)
    elif match:
        good = ref.count(":") >= 2
    if not good:
        raise BadStructure(f"{ref[:60]!r} refers to nothing")


def dtype_and_shape(kind: str) -> tuple[str, tuple[int, ...] | None]:
    """("f32", (8, 128)) of "f32[8,128]"; no shape for what is no array, such as a reference to memory."""
    match = _TYPE.fullmatch(kind)
    if not match:
        return kind, None
    return match[1], tuple(int(size) for size in match[2].split(",") if size)


def walk(graph: Graph, path: str = "") -> Iterator[tuple[str, Graph, Node]]:
    """Every node with the loops around it in words ("scan of 8: "), the graph it is in and itself."""
    for node in graph.nodes:
        yield path, graph, node
        for body in node.bodies:
            times = "" if node.op == "cond" else f" of {'an unknown number' if node.times is None else node.times}"
            yield from walk(body, f"{path}{node.op}{times}: ")


def integers(value: Any) -> tuple[int, ...]:
    """A parameter that should be a list of small integers; empty if it is none."""
    return tuple(one for one in value if isinstance(one, int)) if isinstance(value, list) else ()


def pairs(node: Node) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """((contracted of left, of right), (batch of left, of right)) of a dot_general; None if the node says none."""
    try:
        (left, right), (batch_left, batch_right) = node.params["dimension_numbers"]
    except (KeyError, TypeError, ValueError):
        return None
    return (integers(left), integers(right)), (integers(batch_left), integers(batch_right))

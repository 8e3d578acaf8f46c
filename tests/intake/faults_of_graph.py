"""A program's structure with one fault put in, at every place where it can be."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

_OTHER = {
    "add": "mul", "mul": "add", "max": "min", "min": "max", "exp": "log", "rsqrt": "sqrt", "sqrt": "rsqrt", "tanh": "sin",
    "reduce_sum": "reduce_max", "reduce_max": "reduce_sum", "logistic": "tanh", "sub": "add", "div": "mul", "lt": "le",
    "ge": "gt",
}  # fmt: skip
_ORDERED = {"sub", "div", "lt", "gt", "ge", "le", "pow", "atan2"}

Fault = Callable[[dict[str, Any], dict[str, Any]], None]


def faulty(graph: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(what was done to which operation, the structure with it)."""
    for number, node in enumerate(graph["nodes"]):
        for name, fault in _faults(graph, number, node):
            wrong = copy.deepcopy(graph)
            fault(wrong, wrong["nodes"][number])
            if wrong != graph:
                yield f"{name} at {node}", wrong


def _faults(graph: dict[str, Any], number: int, node: dict[str, Any]) -> Iterator[tuple[str, Fault]]:
    op, operands = node["op"], node["in"]
    neutral = op in ("div", "mul") and any(ref.endswith((":1", ":1.0")) for ref in operands)  # as good as none
    for place, ref in enumerate(operands):
        if ref.startswith(("c:f32:", "c:bf16:")):
            other = ref.rpartition(":")[0] + ":7.5"
            yield "another constant", lambda g, n, place=place, other=other: n["in"].__setitem__(place, other)
    if op in _ORDERED and operands[0] != operands[1]:
        yield "operands exchanged", lambda g, n: n["in"].reverse()
    if op == "select_n" and operands[1] != operands[2]:
        yield "cases exchanged", lambda g, n: n.update({"in": [n["in"][0], n["in"][2], n["in"][1]]})
    if op in _OTHER and not neutral:
        yield "another operation", lambda g, n: n.update(op=_OTHER[op])
    if op.startswith("reduce_") and "axes" in node.get("params", {}):
        yield (
            "another axis",
            lambda g, n: n["params"].update(axes=[axis - 1 if axis else 1 for axis in n["params"]["axes"]]),
        )
    if op == "dot_general":
        yield "another contraction", _contracted
    if op == "convert_element_type":
        yield "another dtype", lambda g, n: n.update(out=[n["out"][0].replace("f32[", "f16[").replace("b", "")])
    if len(node["out"]) == 1 and operands and _type(graph, operands[0]) == node["out"][0] and not neutral:
        yield "left out", lambda g, n: _left_out(g, number)


def _type(graph: dict[str, Any], ref: str) -> str:
    if ref.startswith("a"):
        return graph["inputs"][int(ref[1:])]
    if ref.startswith("n"):
        number, _, position = ref[1:].partition(".")
        return graph["nodes"][int(number)]["out"][int(position)]
    return ""


def _contracted(graph: dict[str, Any], node: dict[str, Any]) -> None:
    (left, right), batch = node["params"]["dimension_numbers"]
    rank = _type(graph, node["in"][1]).count(",") + 1
    free = [axis for axis in range(rank) if axis not in (*right, *batch[1])]
    if free:
        node["params"]["dimension_numbers"] = [[left, [free[0]]], batch]


def _left_out(graph: dict[str, Any], number: int) -> None:
    gone, instead = f"n{number}.0", graph["nodes"][number]["in"][0]
    for node in graph["nodes"][number + 1 :]:
        node["in"] = [instead if ref == gone else ref for ref in node["in"]]
    graph["outputs"] = [instead if ref == gone else ref for ref in graph["outputs"]]

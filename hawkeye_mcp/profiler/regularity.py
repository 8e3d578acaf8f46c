"""On which grid axes a kernel's control flow depends: the axes that may not be shortened when sampling.

An axis is regular if branches and loop bounds depend on its position only by comparing it with its first or last
value, as accumulators do. Every middle step of a regular axis then does the same work, so two of them tell as much
as all. Values read from memory that reach a branch or a loop bound make the whole cost depend on data.
"""

from dataclasses import dataclass
from typing import Any

from jax._src.lib.mlir import ir

from hawkeye_mcp.profiler.mosaic import MosaicCall

DATA = -1  # the label of values read from memory, beside the axes' numbers
Labels = frozenset[int]
_NONE: Labels = frozenset()
# operations that steer control flow, and how many of their first operands decide
_DECIDING = {"scf.if": 1, "scf.index_switch": 1, "scf.condition": 1, "scf.for": 3}
_KNOWN_BEFORE = ("memref.dim",)  # a number out of an array's type, not out of its elements


@dataclass(frozen=True)
class Regularity:
    irregular: frozenset[int]
    data_dependent: bool


def regularity(call: MosaicCall) -> Regularity:
    flow = _Flow(call)
    flow.visit(call.main.regions[0].blocks[0])
    return Regularity(frozenset(axis for axis in flow.reached if axis >= 0), DATA in flow.reached)


def last_step_tests(call: MosaicCall) -> list[tuple[ir.Operation, int, int]]:
    """Comparisons of a grid index with the last value of its axis: the operation, which operand is that, the axis."""
    flow = _Flow(call)
    flow.visit(call.main.regions[0].blocks[0])
    return list(flow.last_step_tests.values())


class _Flow:
    """Follows grid indices and values read from memory to the branches and loop bounds that they reach."""

    def __init__(self, call: MosaicCall) -> None:
        self._grid = call.grid
        indices = list(call.main.regions[0].blocks[0].arguments)[: len(call.grid)]
        self._labels: dict[Any, Labels] = {index: frozenset([axis]) for axis, index in enumerate(indices)}
        self._axis_of: dict[Any, int] = {index: axis for axis, index in enumerate(indices)}
        self._constants: dict[Any, int] = {}
        self.reached: set[int] = set()
        self.last_step_tests: dict[Any, tuple[ir.Operation, int, int]] = {}

    def visit(self, block: Any) -> None:
        for each in block:
            op = each.operation
            name = op.name.removeprefix("stable_mosaic.")
            labels = self._outgoing(op, name)
            if name in _DECIDING:
                self.reached.update(self._union(list(op.operands)[: _DECIDING[name]]))
            labels = self._through(op, labels)
            for result in op.results:
                self._labels[result] = labels

    def _through(self, op: Any, labels: Labels) -> Labels:
        """Visit an operation's regions; its results, and a loop's next turn, depend on what these yield."""
        blocks = [block for region in op.regions for block in region]
        while True:
            yielded = labels
            for block in blocks:
                for argument in block.arguments:
                    self._labels[argument] = labels
                self.visit(block)
                yielded |= self._union(list(block)[-1].operation.operands)
            if yielded == labels:
                return labels
            labels = yielded

    def _outgoing(self, op: Any, name: str) -> Labels:
        labels = self._union(op.operands)
        if name == "arith.constant" and isinstance(op.attributes["value"], ir.IntegerAttr):
            self._constants[op.results[0]] = int(ir.IntegerAttr(op.attributes["value"]).value)
        elif name in ("arith.extui", "arith.extsi", "arith.index_cast") and op.operands[0] in self._axis_of:
            self._axis_of[op.results[0]] = self._axis_of[op.operands[0]]
        elif name == "arith.cmpi" and self._is_edge_test(op):
            return _NONE
        elif name not in _KNOWN_BEFORE and not name.startswith("scf.") and _reads_a_scalar(op):
            return labels | {DATA}
        return labels

    def _is_edge_test(self, op: Any) -> bool:
        """Whether this compares a grid index for (in)equality with the first or last value of its axis."""
        at = 0 if op.operands[0] in self._axis_of else 1
        index, constant = op.operands[at], op.operands[1 - at]
        if int(ir.IntegerAttr(op.attributes["predicate"]).value) not in (0, 1) or index not in self._axis_of:
            return False
        axis, value = self._axis_of[index], self._constants.get(constant)
        if value == self._grid[axis] - 1:
            self.last_step_tests[op.results[0]] = (op, 1 - at, axis)
        return value in (0, self._grid[axis] - 1)

    def _union(self, values: Any) -> Labels:
        return frozenset().union(*(self._labels.get(value, _NONE) for value in values))


def _reads_a_scalar(op: Any) -> bool:
    """Whether an operation makes single numbers out of a vector or of memory, whatever it is called."""
    return any(_holds_many(value.type) for value in op.operands) and any(
        not _holds_many(result.type) for result in op.results
    )


def _holds_many(kind: Any) -> bool:
    return str(kind).startswith(("vector", "memref"))


def axes_of_window(call: MosaicCall, transform: str) -> Labels:
    """The grid axes (and DATA) on which a window's block index depends."""
    for op in call.body.body.operations:
        function = op.operation
        if "sym_name" not in function.attributes or ir.StringAttr(function.attributes["sym_name"]).value != transform:
            continue
        block = function.regions[0].blocks[0]
        labels: dict[Any, Labels] = {
            arg: frozenset([i if i < len(call.grid) else DATA]) for i, arg in enumerate(block.arguments)
        }
        for each in block:
            found = frozenset().union(*(labels.get(value, _NONE) for value in each.operation.operands))
            if each.operation.name.endswith("func.return"):
                return found
            for result in each.operation.results:
                labels[result] = found
    return _NONE

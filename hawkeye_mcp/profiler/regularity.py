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
_SCALAR_READS = ("memref.load", "vector.extract", "tpu.load_scalar", "tpu.sem_read")


@dataclass(frozen=True)
class Regularity:
    irregular: frozenset[int]
    data_dependent: bool


def regularity(call: MosaicCall) -> Regularity:
    grid = call.grid
    block = call.main.regions[0].blocks[0]
    arguments = list(block.arguments)
    labels: dict[Any, Labels] = {arg: frozenset([i]) for i, arg in enumerate(arguments[: len(grid)])}
    axis_of = {arg: i for i, arg in enumerate(arguments[: len(grid)])}
    constants: dict[Any, int] = {}
    reached: set[int] = set()

    def label(values: Any) -> Labels:
        return frozenset().union(*(labels.get(value, _NONE) for value in values))

    def is_edge_test(op: Any) -> bool:
        left, right = op.operands
        if left not in axis_of:
            left, right = right, left
        if int(ir.IntegerAttr(op.attributes["predicate"]).value) not in (0, 1) or left not in axis_of:
            return False
        return constants.get(right) in (0, grid[axis_of[left]] - 1)

    def visit(block: Any) -> None:
        for each in block:
            op = each.operation
            name = op.name.removeprefix("stable_mosaic.")
            incoming = label(op.operands)
            if name == "arith.constant":
                if isinstance(op.attributes["value"], ir.IntegerAttr):
                    constants[op.results[0]] = int(ir.IntegerAttr(op.attributes["value"]).value)
            elif name in ("arith.extui", "arith.index_cast", "arith.extsi") and op.operands[0] in axis_of:
                axis_of[op.results[0]] = axis_of[op.operands[0]]
            elif name == "arith.cmpi" and is_edge_test(op):
                incoming = _NONE
            elif name in _SCALAR_READS or name.endswith("load") and not _is_vector(op):
                incoming = incoming | {DATA}
            if name in ("scf.if", "scf.for", "scf.while", "scf.index_switch"):
                # an `if` decides by its condition alone; a loop by its bounds, its first three operands
                deciding = {"scf.if": 1, "scf.index_switch": 1, "scf.for": 3}.get(name, len(op.operands))
                reached.update(label(list(op.operands)[:deciding]))
            for result in op.results:
                labels[result] = incoming
            for region in op.regions:
                for inner in region:
                    for arg in inner.arguments:
                        labels[arg] = incoming
                    visit(inner)

    visit(block)
    return Regularity(frozenset(axis for axis in reached if axis >= 0), DATA in reached)


def _is_vector(op: Any) -> bool:
    return any(str(result.type).startswith("vector") for result in op.results)


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

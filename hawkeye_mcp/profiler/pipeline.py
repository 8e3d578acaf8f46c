"""What a grid's pipeline transfers at each of its steps, with the arrays that a kernel prefetches known or not.

A block moves when its index differs from that of the step before. The transfer of an input runs while the step
before computes, that of an output while the step after does: no step hides more than its own neighbours' transfers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax._src.lib.mlir import ir

from hawkeye_mcp.profiler.mosaic import DataDependent, MosaicCall, Window, integer_operation

MOST_STEPS = 4_000_000
Known = Sequence[np.ndarray | None] | None  # of each prefetched array its values


@dataclass(frozen=True)
class Steps:
    """One entry for each step of the grid, in order.

    read_bytes, reads: of the blocks that arrive for the step. written_bytes, writes: of those that leave after it.
    """

    read_bytes: np.ndarray
    reads: np.ndarray
    written_bytes: np.ndarray
    writes: np.ndarray

    def during(self) -> tuple[np.ndarray, np.ndarray]:
        """Bytes and transfers that share the time of each step: reads for the next, writes of the one before."""
        after = np.append(self.read_bytes[1:], 0) + np.insert(self.written_bytes[:-1], 0, 0)
        count = np.append(self.reads[1:], 0) + np.insert(self.writes[:-1], 0, 0)
        return after, count

    def counted(self) -> list[tuple[int, int, int]]:
        """(bytes, transfers, steps): how many steps share their time with so many transfers of so many bytes."""
        moved, transfers = self.during()
        base = int(transfers.max(initial=0)) + 1
        pairs, times = np.unique(moved * base + transfers, return_counts=True)  # one number sorts faster than two
        return [(int(pair // base), int(pair % base), int(n)) for pair, n in zip(pairs, times, strict=True)]

    @property
    def total_bytes(self) -> int:
        return int(self.read_bytes.sum() + self.written_bytes.sum())


def points_of(grid: Sequence[int]) -> list[np.ndarray]:
    """Coordinates of every step along each axis, in the order in which they run."""
    if np.prod(grid, dtype=np.int64) > MOST_STEPS:
        raise DataDependent("the grid has too many steps to walk")
    return [axis.ravel() for axis in np.indices(tuple(grid), dtype=np.int64)]


def steps(call: MosaicCall, known: Known = None) -> Steps:
    """Raises DataDependent if a block index depends on values that are not known."""
    if call.dynamic_grid:
        raise DataDependent("the grid is computed at run time")
    points = points_of(call.grid)
    n = len(points[0]) if points else 1
    read_bytes, reads = np.zeros(n, np.int64), np.zeros(n, np.int64)
    written_bytes, writes = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for window in call.windows:
        if window.space not in ("vmem", "smem"):
            continue
        size, moved = _blocks(call, window, points, n, known)
        bits = size * window.item_bits // 8
        if window.is_output:
            leaves = np.append(moved[1:], True)
            written_bytes += np.where(leaves, bits, 0)
            writes += leaves
        else:
            read_bytes += np.where(moved, bits, 0)
            reads += moved
    return Steps(read_bytes, reads, written_bytes, writes)


def window_bytes(call: MosaicCall, known: Known = None) -> list[int]:
    """Bytes that the pipeline moves for each window over the grid. Raises DataDependent as `steps`."""
    points = points_of(call.grid)
    n = len(points[0]) if points else 1
    moved_bytes = []
    for window in call.windows:
        elements = 0
        if window.space in ("vmem", "smem"):
            size, moved = _blocks(call, window, points, n, known)
            elements = int(size[moved].sum())
        moved_bytes.append(elements * window.item_bits // 8)
    return moved_bytes


def unused_bytes(call: MosaicCall, idle: np.ndarray, known: Known = None) -> int:
    """Of the blocks that arrive, the bytes of those that leave before any step that is not idle.

    idle: of each step whether it uses no block. Raises DataDependent as `steps`.
    """
    points = points_of(call.grid)
    unused = 0
    for window in call.windows:
        if window.space in ("vmem", "smem") and not window.is_output:
            size, moved = _blocks(call, window, points, len(idle), known)
            used = np.bincount(np.cumsum(moved) - 1, weights=~idle) > 0
            unused += int(size[moved][~used].sum()) * window.item_bits // 8
    return unused


def _blocks(
    call: MosaicCall, window: Window, points: list[np.ndarray], n: int, known: Known
) -> tuple[np.ndarray, np.ndarray]:
    """Elements of the block of each step, clipped to the array, and whether it differs from that of the step before."""
    if window.transform is None or not points:
        moved = np.zeros(n, bool)
        moved[0] = True
        return np.full(n, np.prod(window.array, dtype=np.int64)), moved
    function = _function(call, window.transform)
    indices = evaluate(function, call, points, known)
    stacked = np.stack([np.broadcast_to(index, (n,)) for index in indices], axis=1)
    moved = np.ones(n, bool)
    moved[1:] = (stacked[1:] != stacked[:-1]).any(axis=1)
    rank = len(window.array)
    block = np.array(window.block[-rank:] if len(window.block) >= rank else window.array)
    return np.clip(np.array(window.array) - stacked[:, -rank:] * block, 0, block).prod(axis=1), moved


def _function(call: MosaicCall, name: str) -> ir.Operation:
    for op in call.body.body.operations:
        attributes = op.operation.attributes
        if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == name:
            return op.operation
    raise DataDependent(f"the index map {name} is missing")


def evaluate(function: ir.Operation, call: MosaicCall, points: list[np.ndarray], known: Known) -> list[np.ndarray]:
    """The results of an index map at all points."""
    block = function.regions[0].blocks[0]
    values = Scalars(block, call.grid, points, known)
    for op in block:
        if op.operation.name.removeprefix("stable_mosaic.") == "func.return":
            found = [values.get(operand) for operand in op.operation.operands]
            if any(value is None for value in found):
                raise DataDependent("an index map reads values that are not known")
            return [value for value in found if value is not None]
        values.add(op.operation)
    raise DataDependent("an index map returns nothing")


class Scalars:
    """Integers of a block of a kernel at all steps at once, as far as they follow from grid and prefetched arrays."""

    def __init__(self, block: Any, grid: Sequence[int], points: list[np.ndarray], known: Known) -> None:
        self._grid, axes = grid, len(grid)
        arguments = list(block.arguments)
        self._values: dict[Any, np.ndarray] = dict(zip(arguments[:axes], points, strict=False))
        self._arrays = {
            argument: array
            for argument, array in zip(arguments[axes:], known or (), strict=False)
            if array is not None and array.size
        }

    def get(self, value: Any) -> np.ndarray | None:
        return self._values.get(value)

    def add(self, op: Any) -> None:
        """Follow one operation; what it gives stays unknown if it is of another kind or of unknown operands."""
        name = op.name.removeprefix("stable_mosaic.")
        if len(op.results) != 1:
            return
        result = op.results[0]
        if name == "arith.constant":
            attribute = op.attributes["value"]
            if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr):
                value = int(attribute.value)
                self._values[result] = np.asarray(abs(value) if str(result.type) == "i1" else value, np.int64)
            return
        if name == "tpu.iteration_bound":
            axis = int(ir.IntegerAttr(op.attributes["dim"]).value)
            self._values[result] = np.asarray(self._grid[axis], np.int64)
            return
        if name == "memref.load":
            array, *indices = list(op.operands)
            at = [self._values.get(index) for index in indices]
            if array in self._arrays and all(index is not None for index in at):
                held = self._arrays[array]
                # what is read beyond the end, as of a step after the last, is used by no kernel that is right
                within = [
                    np.clip(index, 0, n - 1) for index, n in zip(at, held.shape, strict=True) if index is not None
                ]
                self._values[result] = np.asarray(held[tuple(within)], np.int64)
            return
        operands = [self._values.get(operand) for operand in op.operands]
        if name.startswith("arith.") and operands and all(operand is not None for operand in operands):
            try:
                self._values[result] = integer_operation(name.removeprefix("arith."), op, operands)  # type: ignore[arg-type]
            except DataDependent:
                return


def summary(call: MosaicCall, cores: int, known: Known = None) -> dict[str, Any] | None:
    """How many steps share their time with how much traffic, as `timing.Pipeline` takes it; None if that is not known.

    Cores that share a grid are taken to walk their parts of it side by side: a step of each moves what all do.
    """
    try:
        found = steps(call, known)
    except DataDependent:
        return None
    return {
        "transfers": [[moved * cores, transfers, n / cores] for moved, transfers, n in found.counted()],
        "edge_bytes": int(found.read_bytes[0] + found.written_bytes[-1]),
    }

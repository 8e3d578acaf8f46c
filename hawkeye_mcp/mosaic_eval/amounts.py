"""How much arithmetic of each kind a Mosaic kernel executes at most, found without running it.

Branches and loops that the grid's position decides count where they are taken; those that values decide count as taken,
and a loop of unknown length as without end. So nothing is executed more often than is said here, and a kernel cannot
pass for one that works by keeping the work where it is never reached, unless its data decide.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax._src.lib.mlir import ir

from hawkeye_mcp.artifact import operations
from hawkeye_mcp.mosaic_eval.kinds import items, kinds
from hawkeye_mcp.profiler.mosaic import DataDependent, MosaicCall, integer_operation

_MOST_STEPS = 1 << 20  # of a grid whose every step is looked at
_MOST_CALLS = 32  # of functions within functions
_MOST_OPERATIONS = 1_000_000  # functions that call others twice could be walked for ever

Weights = np.ndarray  # how often a block runs, by grid step
Test = Callable[[np.ndarray], np.ndarray]  # at which steps a branch is taken, by what decides


def amounts(call: MosaicCall) -> Mapping[str, float]:
    """Items by kind over all runs of a kernel; infinite where no bound is known."""
    try:
        return _Walk(call).found
    except _TooLong:
        return dict.fromkeys((kind for op in operations(call.body.operation) for kind in kinds(op)), np.inf)


class _TooLong(Exception):
    """Functions call functions more often than anybody could count, or one that is not there."""


class _Walk:
    def __init__(self, call: MosaicCall) -> None:
        self.found: dict[str, float] = defaultdict(float)
        self._grid = call.grid
        self._known: dict[Any, np.ndarray] = {}
        self._functions = {
            str(ir.StringAttr(op.operation.attributes["sym_name"]).value): op.operation
            for op in call.body.body.operations
            if "sym_name" in op.operation.attributes
        }
        self._open, self._left = 0, _MOST_OPERATIONS
        block = call.main.regions[0].blocks[0]
        steps = float(np.prod([float(n) for n in call.grid])) if not call.dynamic_grid else np.inf
        if steps <= _MOST_STEPS:
            weights = np.ones(int(steps))
            axes = [axis.ravel() for axis in np.indices(call.grid, dtype=np.int64)]
            self._known.update(zip(list(block.arguments), axes, strict=False))
        else:  # as one step, run as often as there are steps
            weights = np.array([steps])
        self._visit(block, weights * (call.calls or np.inf))

    def _visit(self, block: Any, weights: Weights) -> None:
        total = float(weights.sum())
        for each in block:
            op = each.operation
            self._left -= 1
            if not self._left:
                raise _TooLong
            for kind in kinds(op):
                self.found[kind] += items(op) * total if total else 0.0
            name = op.name.removeprefix("stable_mosaic.")
            if name == "scf.if":
                self._branch(op, weights, [lambda value: value != 0, lambda value: value == 0])
            elif name == "scf.index_switch":
                self._branch(op, weights, _cases(op))
            elif name == "scf.for":
                self._visit(op.regions[0].blocks[0], self._turned(op, weights))
            elif name == "scf.while":
                for region in op.regions:
                    self._visit(region.blocks[0], np.where(weights > 0, np.inf, 0.0))
            elif name == "func.call":
                self._call(op, weights)
            else:
                self._note(op, name)
                for region in op.regions if not kinds(op) else ():  # the regions of a reduction are no blocks of work
                    for inner in region:
                        self._visit(inner, weights)

    def _branch(self, op: ir.Operation, weights: Weights, taken: Sequence[Test]) -> None:
        value = self._known.get(op.operands[0])
        for region, test in zip(op.regions, taken, strict=True):
            for block in region:
                self._visit(block, weights if value is None else np.where(test(value), weights, 0.0))

    def _turned(self, op: ir.Operation, weights: Weights) -> Weights:
        """How often a loop's body runs where the loop runs `weights` times."""
        bounds = [self._known[value] for value in list(op.operands)[:3] if value in self._known]
        turns = np.asarray(np.inf)
        if len(bounds) == 3:
            first, end, step = bounds
            turns = np.maximum(0, -((first - end) // np.maximum(step, 1))).astype(float)
        runs = (weights > 0) & (turns > 0)
        return np.where(runs, np.where(runs, weights, 0.0) * np.where(runs, turns, 0.0), 0.0)

    def _call(self, op: ir.Operation, weights: Weights) -> None:
        function = self._functions.get(str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value))
        if function is None or self._open >= _MOST_CALLS:
            raise _TooLong
        block = function.regions[0].blocks[0]
        for argument, value in zip(block.arguments, op.operands, strict=True):
            self._known.pop(argument, None)
            if value in self._known:
                self._known[argument] = self._known[value]
        self._open += 1
        self._visit(block, weights)
        self._open -= 1

    def _note(self, op: ir.Operation, name: str) -> None:
        """Keep an integer that is known at every grid step; forget what it was in an earlier call of its function."""
        for result in op.results:
            self._known.pop(result, None)
        if name == "arith.constant" and isinstance(op.attributes["value"], ir.IntegerAttr):
            self._known[op.results[0]] = np.asarray(ir.IntegerAttr(op.attributes["value"]).value, np.int64)
        elif name == "tpu.iteration_bound":
            self._known[op.results[0]] = np.asarray(self._grid[ir.IntegerAttr(op.attributes["dim"]).value])
        elif name.startswith("arith.") and len(op.results) == 1 and all(v in self._known for v in op.operands):
            try:
                with np.errstate(all="ignore"):
                    value = integer_operation(
                        name.removeprefix("arith."), op, [self._known[each] for each in op.operands]
                    )
            except DataDependent:
                return
            self._known[op.results[0]] = value


def _cases(op: ir.Operation) -> list[Test]:
    """Of the regions of a switch: the default first."""
    cases = [int(n) for n in ir.DenseI64ArrayAttr(op.attributes["cases"])]
    return [lambda value: ~np.isin(value, cases), *(functools.partial(np.equal, case) for case in cases)]

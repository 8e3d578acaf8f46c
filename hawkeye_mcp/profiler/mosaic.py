"""Mosaic kernels inside an artifact: find them, read their grids and windows."""

import base64
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jax._src.lib.mlir import ir

from hawkeye_mcp.artifact import Program, operations

_DYNAMIC = -(2**63)  # MLIR's ShapedType::kDynamic
_ITEM_BITS = {"i1": 8, "f8": 8, "bf16": 16}


class DataDependent(Exception):
    """What is asked depends on values that only exist at run time."""


@dataclass(frozen=True)
class Window:
    """One operand or result: moved between HBM and VMEM block by block with the grid, whole without one."""

    array: tuple[int, ...]
    block: tuple[int, ...]
    item_bits: int
    transform: str | None
    is_output: bool
    space: str


@dataclass(frozen=True)
class MosaicCall:
    """One tpu_custom_call: its operation, how often the program runs it (0: unknown), its Mosaic module."""

    op: ir.Operation
    calls: int
    config: dict[str, Any]
    body: ir.Module

    @cached_property
    def main(self) -> ir.Operation:
        for op in self.body.body.operations:
            if "iteration_bounds" in op.operation.attributes or "window_params" in op.operation.attributes:
                return op.operation
        return self.body.body.operations[0].operation

    @cached_property
    def name(self) -> str:
        for where in (self.op, self.main):
            for attribute in ("kernel_name", "sym_name"):
                if attribute in where.attributes:
                    return str(ir.StringAttr(where.attributes[attribute]).value)
        return "kernel"

    @cached_property
    def grid(self) -> tuple[int, ...]:
        if "iteration_bounds" not in self.main.attributes:
            return ()
        return tuple(int(n) for n in ir.DenseI64ArrayAttr(self.main.attributes["iteration_bounds"]))

    @property
    def dynamic_grid(self) -> bool:
        return any(n == _DYNAMIC for n in self.grid)

    @cached_property
    def prefetched(self) -> int:
        """Number of scalar-prefetch operands."""
        if "scalar_prefetch" not in self.main.attributes:
            return 0
        return int(ir.IntegerAttr(self.main.attributes["scalar_prefetch"]).value)

    @cached_property
    def windows(self) -> list[Window]:
        arrays = [*list(self.op.operands)[self.prefetched :], *self.op.results]
        params: list[Any] = [ir.DictAttr.get({}, self.body.context)] * len(arrays)  # without a grid nothing is said
        if "window_params" in self.main.attributes:
            params = list(ir.ArrayAttr(self.main.attributes["window_params"]))
        n_inputs = len(self.op.operands) - self.prefetched
        arguments = list(self.main.regions[0].blocks[0].arguments)[len(self.grid) + self.prefetched :]
        found = []
        for i, (param, array, argument) in enumerate(zip(params, arrays, arguments, strict=False)):
            kind = ir.RankedTensorType(array.type)
            shape = tuple(kind.shape)
            fields = ir.DictAttr(param)
            transform, block = None, shape
            if "transform_indices" in fields:
                transform = str(ir.FlatSymbolRefAttr(fields["transform_indices"]).value)
                block = tuple(int(n) for n in ir.DenseI64ArrayAttr(fields["window_bounds"]))
            space = re.search(r"memory_space<(\w+)>", str(argument.type))
            found.append(
                Window(
                    shape,
                    block,
                    item_bits(str(kind.element_type)),
                    transform,
                    i >= n_inputs,
                    space[1] if space else "any",
                )
            )
        return found

    @cached_property
    def moves_by_hand(self) -> bool:
        """Whether the body starts transfers of its own, beside those of the grid's pipeline."""
        return any(name.startswith("tpu.enqueue_") for name in body_operations(self))

    def window_bytes(self, grid: Sequence[int] | None = None) -> list[int]:
        """Bytes that the pipeline moves for each window over a whole grid: every block whose index changed, clipped.

        Consecutive grid steps with the same block index move nothing. Operands left in HBM (memory space any)
        count nothing here: what a kernel moves of them by hand (`moves_by_hand`) stands only in its schedule.

        Raises:
            DataDependent: a block index is computed from prefetched values, or the grid is dynamic.
        """
        grid = tuple(self.grid if grid is None else grid)
        if any(n == _DYNAMIC for n in grid):
            raise DataDependent("the grid is computed at run time")
        moved = []
        for window in self.windows:
            if window.space not in ("vmem", "smem"):
                elements = 0
            elif window.transform is None or not grid:
                elements = math.prod(window.array)
            else:
                elements = self._window_elements(window, grid)
            moved.append(elements * window.item_bits // 8)
        return moved

    def window_moves(self, grid: Sequence[int]) -> list[int]:
        """How often each window moves to another block over a grid, its first block included; 0 if it is no block.

        Raises:
            DataDependent: as window_bytes.
        """
        return [
            len(self._moved_blocks(window, tuple(grid))) if window.transform is not None else 0
            for window in self.windows
        ]

    def _window_elements(self, window: Window, grid: tuple[int, ...]) -> int:
        moved = self._moved_blocks(window, grid)
        rank = len(window.array)
        block = np.array(window.block[-rank:] if len(window.block) >= rank else window.array)
        start = moved[:, -rank:] * block
        return int(np.clip(np.array(window.array) - start, 0, block).prod(axis=1).sum())

    @cached_property
    def _walked(self) -> dict[tuple[str | None, tuple[int, ...]], np.ndarray]:
        """What _moved_blocks found."""
        return {}

    def _moved_blocks(self, window: Window, grid: tuple[int, ...]) -> np.ndarray:
        """The block indices of a window at each grid step at which they differ from those before."""
        steps = math.prod(grid)
        if (window.transform, grid) in self._walked:
            return self._walked[window.transform, grid]
        if steps > 4_000_000:
            raise DataDependent(f"the grid has {steps} steps, too many to walk")
        points = [axis.ravel() for axis in np.indices(grid, dtype=np.int64)]
        indices = self._block_indices(window.transform or "", points)
        stacked = np.stack([np.broadcast_to(index, (steps,)) for index in indices], axis=1)
        moved = np.ones(steps, bool)
        moved[1:] = (stacked[1:] != stacked[:-1]).any(axis=1)
        self._walked[window.transform, grid] = stacked[moved]
        return stacked[moved]

    def _block_indices(self, transform: str, points: list[np.ndarray]) -> list[np.ndarray]:
        for op in self.body.body.operations:
            attributes = op.operation.attributes
            if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == transform:
                return _interpret(op.operation, points)
        raise DataDependent(f"the index map {transform} is missing")


def item_bits(element: str) -> int:
    """Bits of one element of an MLIR type such as bf16, f32, i8, ui4, f8E4M3FN."""
    for prefix, bits in _ITEM_BITS.items():
        if element.startswith(prefix):
            return bits
    digits = re.search(r"\d+", element)
    return int(digits[0]) if digits else 32


_BINARY = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "floordivsi": np.floor_divide,
    "shrsi": np.right_shift,
    "shli": np.left_shift,
}
_COMPARE = {0: np.equal, 1: np.not_equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal}


def _interpret(function: ir.Operation, points: list[np.ndarray]) -> list[np.ndarray]:
    """Run an index map on vectors of grid coordinates."""
    block = function.regions[0].blocks[0]
    values: dict[Any, np.ndarray] = dict(zip(list(block.arguments), points, strict=False))
    for op in block:
        name = op.operation.name.removeprefix("stable_mosaic.")
        operands = list(op.operation.operands)
        if name == "func.return":
            return [_known(values, v) for v in operands]
        if name == "arith.constant":
            values[op.operation.results[0]] = np.asarray(
                ir.IntegerAttr(op.operation.attributes["value"]).value, np.int64
            )
            continue
        if not name.startswith("arith."):
            raise DataDependent(f"an index map uses {name}")
        values[op.operation.results[0]] = integer_operation(
            name.removeprefix("arith."), op, [_known(values, v) for v in operands]
        )
    raise DataDependent("an index map returns nothing")


def _known(values: dict[Any, np.ndarray], value: Any) -> np.ndarray:
    if value not in values:
        raise DataDependent("an index map reads prefetched values")
    return values[value]


def integer_operation(name: str, op: Any, args: list[np.ndarray]) -> np.ndarray:
    """One operation on integers, in the dialect `arith`; args: its operands at any number of grid points.

    Raises:
        DataDependent: it is none that is known here.
    """
    if name in _BINARY:
        return np.asarray(_BINARY[name](*args))
    if name in ("divsi", "remsi"):  # MLIR's round towards zero
        quotient = np.trunc(args[0] / args[1]).astype(np.int64)
        return np.asarray(quotient if name == "divsi" else args[0] - quotient * args[1])
    if name == "cmpi":
        predicate = int(ir.IntegerAttr(op.operation.attributes["predicate"]).value)
        if predicate in _COMPARE:
            return np.asarray(_COMPARE[predicate](*args))
    if name == "select":
        return np.where(*args)
    if name in ("extui", "extsi", "trunci", "index_cast"):
        return np.asarray(args[0], dtype=np.int64)
    raise DataDependent(f"an index map uses arith.{name}")


def mosaic_calls(program: Program) -> list[MosaicCall]:
    """Every Mosaic kernel that the public entry point can reach, with how often it runs, in the order of the program.

    Raises:
        RecursionError: functions that call themselves.
    """
    functions = {
        str(ir.StringAttr(op.operation.attributes["sym_name"]).value): op.operation
        for op in program.module.body.operations
        if "sym_name" in op.operation.attributes
    }
    # Once for each function: nested calls may run one more often than anybody could count.
    known: dict[str, _Runs] = {}

    def runs_of(name: str) -> _Runs:
        if name not in known:
            found: _Runs = {}
            visit(functions[name], 1, found)
            known[name] = found
        return known[name]

    def visit(parent: ir.Operation, times: int, found: _Runs) -> None:
        for region in parent.regions:
            for block in region:
                for each in block:
                    op = each.operation
                    if op.name == "stablehlo.custom_call" and target(op) == "tpu_custom_call":
                        _add_runs(found, op, times)
                    elif op.name in ("func.call", "call"):
                        callee = str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
                        for kernel, inner in runs_of(callee).values() if callee in functions else ():
                            _add_runs(found, kernel, times * inner)
                    else:
                        # inside a loop or a branch the number of runs is not known here
                        unknown = op.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if")
                        visit(op, 0 if unknown else times, found)

    with program.context:
        found = []
        for op, times in runs_of("main").values():
            config = json.loads(ir.StringAttr(op.attributes["backend_config"]).value)
            body = ir.Module.parse(base64.b64decode(config["custom_call_config"]["body"]), program.context)
            found.append(MosaicCall(op, times, config, body))
        return found


_Runs = dict[int, tuple[ir.Operation, int]]  # of each kernel, by its operation's hash; 0: unknown


def _add_runs(found: _Runs, op: ir.Operation, times: int) -> None:
    if known := found.get(hash(op)):
        times = known[1] + times if known[1] and times else 0
    found[hash(op)] = op, times


def target(op: ir.Operation) -> str:
    """A custom call's target name."""
    return str(ir.StringAttr(op.attributes["call_target_name"]).value)


def body_operations(call: MosaicCall) -> set[str]:
    """Names of the operations in a kernel, such as "tpu.matmul"."""
    return {op.name.removeprefix("stable_mosaic.") for op in operations(call.body.operation)}

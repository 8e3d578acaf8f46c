"""Bytes that a kernel moves over HBM with transfers of its own (async copies, inner pipelines), exactly.

Such transfers stand in the kernel's body between integers and loops. That part of the body is rewritten as Python and
run for every grid step; vectors and floats are left out. What transfers depend on and is not such an integer (values
from memory) makes the answer unknown.
"""

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

from jax._src.lib.mlir import ir

from hawkeye_mcp.artifact import operations
from hawkeye_mcp.profiler.mosaic import DataDependent, MosaicCall, item_bits

MOST_OPERATIONS = 60_000_000  # executed; some seconds
_NESTED = 10  # regions in one another; Python takes 20 loops
HBM = ("any", "hbm")

_INFIX = {"addi": "+", "subi": "-", "muli": "*", "andi": "&", "ori": "|", "xori": "^", "floordivsi": "//"}
_CALLS = {
    "divsi": "quotient({0}, {1})",
    "remsi": "{0} - quotient({0}, {1}) * {1}",
    "ceildivsi": "-(-{0} // {1})",
    "divui": "{0} // {1}",
    "remui": "{0} % {1}",
    "minsi": "min({0}, {1})",
    "maxsi": "max({0}, {1})",
    "minui": "min({0}, {1})",
    "maxui": "max({0}, {1})",
    "shli": "{0} << ({1} & 31)",
    "shrsi": "{0} >> ({1} & 31)",
    "shrui": "{0} >> ({1} & 31)",
    "select": "{1} if {0} else {2}",
    "extui": "{0}",
    "trunci": "{0}",
    "index_cast": "{0}",
    "index_castui": "{0}",
}
_SIGNED = ("==", "!=", "<", "<=", ">", ">=")
_COMPARE = (*_SIGNED, "<", "<=", ">", ">=")  # sizes and positions are not negative


def transferred_bytes(call: MosaicCall) -> list[int]:
    """Bytes moved by hand between HBM and each operand and result, in their order; last those of the kernel's own HBM.

    Raises:
        DataDependent: they depend on values from memory, or the kernel is one that this does not follow.
    """
    return _followed(call, None)[0]


def turns_of(call: MosaicCall, loop: ir.Operation) -> list[tuple[int, ...]]:
    """What each turn of a loop does, as far as it can be told: bytes moved for each array, operations executed.

    Turns that do the same work have the same figures. The loop must run once.

    Raises:
        DataDependent: as transferred_bytes.
    """
    marks = _followed(call, loop)[1]
    return [
        tuple(after - before for before, after in zip(one, following, strict=True))
        for one, following in itertools.pairwise(marks)
    ]


def _followed(call: MosaicCall, loop: ir.Operation | None) -> tuple[list[int], list[tuple[int, ...]]]:
    """Bytes moved for each array; the same and the operations executed at the start of each turn of a loop."""
    if call.dynamic_grid:
        raise DataDependent("the grid is computed at run time")
    in_body = sum(_is_transfer(op) for op in operations(call.body.operation))
    if in_body != sum(_is_transfer(op) for op in operations(call.main)):
        raise DataDependent("transfers stand in another function")
    arrays = len(call.op.operands) + len(call.op.results)
    moved = [0] * (arrays + 1)
    budget = _Budget()
    marks: list[tuple[int, ...]] = []

    def mark() -> None:
        marks.append((*moved, budget.spent))

    scope: dict[str, Any] = {"quotient": _quotient, "spend": budget.spend, "mark": mark}
    try:
        source = _Writer(call, arrays, loop).program()
        exec(compile(source, "transfers", "exec"), scope)  # written here from integers and numbered names alone
        for step in itertools.product(*map(range, call.grid)):
            scope["step"](moved, *step)
    except DataDependent:
        raise
    except Exception as error:  # a hostile body may be anything
        raise DataDependent(f"its transfers cannot be followed: {error}") from error
    return [bits // 8 for bits in moved], marks


class _Budget:
    def __init__(self) -> None:
        self.spent = 0

    def spend(self, operations: int) -> None:
        self.spent += operations
        if self.spent > MOST_OPERATIONS:
            raise DataDependent("its transfers are too many to walk")


def _quotient(a: int, b: int) -> int:
    """MLIR's division rounds towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _is_transfer(op: ir.Operation) -> bool:
    return _name(op).startswith("tpu.enqueue_")


def _name(op: Any) -> str:
    return str(op.name).removeprefix("stable_mosaic.")


def _is_memref(value: Any) -> bool:
    return str(value.type).startswith("memref<")


class _Writer:
    """Python for one grid step. Values without a name here are unknown."""

    def __init__(self, call: MosaicCall, arrays: int, marked: ir.Operation | None) -> None:
        self._call, self._marked = call, marked
        self._own = arrays
        self._numbers = itertools.count()
        self._names: dict[Any, str] = {}
        self._views: dict[Any, tuple[int, str]] = {}  # memref: the array it is part of, and its elements
        arguments = list(call.main.regions[0].blocks[0].arguments)
        self._indices, rest = arguments[: len(call.grid)], arguments[len(call.grid) :]
        for at, argument in enumerate(rest):
            if _is_memref(argument):
                self._views[argument] = (min(at, arrays), self._elements(argument.type, []))

    def program(self) -> str:
        parameters = ", ".join(["moved", *(self._define(index) for index in self._indices)])
        body, _ = self._block(self._call.main.regions[0].blocks[0], 1)
        return "\n".join([f"def step({parameters}):", *body])

    def _define(self, value: Any) -> str:
        return self._names.setdefault(value, f"v{next(self._numbers)}")

    def _block(self, block: Any, depth: int) -> tuple[list[str], list[Any]]:
        """Lines of a block, and the values that it yields."""
        if depth > _NESTED:
            raise DataDependent("its transfers are nested too deeply")
        ops = [each.operation for each in block]
        lines = [f"{' ' * depth}spend({len(ops)})"]
        for op in ops:
            lines += [" " * depth + line if not line.startswith(" ") else line for line in self._operation(op, depth)]
        return lines, list(ops[-1].operands) if ops else []

    def _operation(self, op: Any, depth: int) -> Iterator[str]:
        name = _name(op)
        operands = list(op.operands)
        if name == "tpu.enqueue_dma":
            yield from self._transfer(op)
        elif name == "scf.for" and all(value in self._names for value in operands[:3]):
            yield from self._loop(op, depth)
        elif name == "scf.if" and operands[0] in self._names:
            yield from self._branch(op, depth)
        elif name == "tpu.region":
            lines, yielded = self._block(op.regions[0].blocks[0], depth)
            yield from lines
            for result, value in zip(op.results, yielded, strict=False):
                self._same(result, value)
        elif _is_transfer(op) or any(_is_transfer(inner) for inner in operations(op)):
            raise DataDependent(f"its transfers depend on data ({name})")
        elif name == "tpu.iteration_bound":
            axis = int(ir.IntegerAttr(op.attributes["dim"]).value)
            yield f"{self._define(op.results[0])} = {self._call.grid[axis]}"
        elif name == "tpu.assume_multiple":
            self._same(op.results[0], operands[0])
        elif len(op.results) == 1 and _is_memref(op.results[0]):
            self._view(op, name)
        elif name.startswith("arith.") and (formula := self._formula(op, name.removeprefix("arith."))):
            yield f"{self._define(op.results[0])} = {formula}"

    def _formula(self, op: Any, name: str) -> str | None:
        """An integer's formula, wrapped as 32 bits are; None for what is unknown."""
        kind = op.results[0].type
        if not re.fullmatch(r"i\d+|index", str(kind)):
            return None
        if name == "constant":
            value = int(ir.IntegerAttr(op.attributes["value"]).value)
            return str(abs(value) if str(kind) == "i1" else value)
        names = [self._names.get(value, "") for value in op.operands]
        if not all(names):
            return None
        if name == "cmpi":
            return f"int({names[0]} {_COMPARE[int(ir.IntegerAttr(op.attributes['predicate']).value)]} {names[1]})"
        if name == "extsi":
            return f"-{names[0]}" if str(op.operands[0].type) == "i1" else names[0]
        formula = _CALLS[name].format(*names) if name in _CALLS else None
        if name in _INFIX:
            formula = f"{names[0]} {_INFIX[name]} {names[1]}"
        if name in ("addi", "subi", "muli", "shli"):
            formula = f"(({formula}) + 2147483648 & 4294967295) - 2147483648"
        return formula

    def _loop(self, op: Any, depth: int) -> Iterator[str]:
        lower, upper, step, *starts = op.operands
        block = op.regions[0].blocks[0]
        turn, *carried = block.arguments
        unknown: set[int] = set()
        while True:  # what a turn leaves unknown is unknown from the start
            self._define(turn)
            for at, (argument, start) in enumerate(zip(carried, starts, strict=True)):
                if start in self._names and at not in unknown:
                    self._define(argument)
                else:
                    self._names.pop(argument, None)
                    unknown.add(at)
            before = dict(self._names)
            lines, yielded = self._block(block, depth + 1)
            left = {at for at, value in enumerate(yielded) if at not in unknown and value not in self._names}
            if not left:
                break
            unknown |= left
            self._names = before
        known = [at for at in range(len(carried)) if at not in unknown]
        for at in known:
            yield f"{self._names[carried[at]]} = {self._names[starts[at]]}"
        yield f"for {self._names[turn]} in range({', '.join(self._names[v] for v in (lower, upper, step))}):"
        if self._marked is not None and op == self._marked:
            yield " " * (depth + 1) + "mark()"
        yield from lines
        if known:
            targets = ", ".join(self._names[carried[at]] for at in known)
            yield " " * (depth + 1) + f"{targets} = {', '.join(self._names[yielded[at]] for at in known)}"
        for at in known:
            yield f"{self._define(op.results[at])} = {self._names[carried[at]]}"

    def _branch(self, op: Any, depth: int) -> Iterator[str]:
        sides = [self._block(region.blocks[0], depth + 1) for region in op.regions if len(region.blocks)]
        known = [
            at
            for at in range(len(op.results))
            if len(sides) == 2 and all(yielded[at] in self._names for _, yielded in sides)
        ]
        for number, (lines, yielded) in enumerate(sides):
            yield "else:" if number else f"if {self._names[op.operands[0]]}:"
            yield from lines
            for at in known:
                yield " " * (depth + 1) + f"{self._define(op.results[at])} = {self._names[yielded[at]]}"

    def _same(self, result: Any, value: Any) -> None:
        if value in self._names:
            self._names[result] = self._names[value]
        if value in self._views:
            self._views[result] = self._views[value]

    def _view(self, op: Any, name: str) -> None:
        """Part of an array, or an array under another shape."""
        kind = op.results[0].type
        if name in ("memref.alloca", "memref.alloc"):
            self._views[op.results[0]] = (self._own, self._elements(kind, []))
            return
        source = self._views.get(op.operands[0]) if len(op.operands) else None
        if not source:
            return
        sizes: list[Any] = []
        if name == "tpu.memref_slice":
            given = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
            sizes = list(op.operands)[given[0] + given[1] :]
        elif not ir.MemRefType(kind).has_static_shape:
            self._views[op.results[0]] = source  # as many elements under another shape
            return
        self._views[op.results[0]] = (source[0], self._elements(kind, sizes))

    def _elements(self, kind: Any, sizes: list[Any]) -> str:
        """A formula for the elements of a memref type, with these values for its dimensions of unknown length."""
        memref = ir.MemRefType(kind)
        dims = [memref.shape[at] for at in range(memref.rank) if not memref.is_dynamic_dim(at)]
        unknown = memref.rank - len(dims)
        names = [self._names.get(size, "") for size in sizes[:unknown]]
        return " * ".join([str(math.prod(dims)), *names]) if len(names) == unknown and all(names) else ""

    def _transfer(self, op: Any) -> Iterator[str]:
        given = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        operands = list(op.operands)
        source, target = operands[0], operands[given[0] + given[1]]
        for side in (source, target):
            memref = ir.MemRefType(side.type)
            if not any(f"<{space}>" in str(memref.memory_space) for space in HBM):
                continue
            array, elements = self._views.get(side, (self._own, ""))
            if not elements:
                raise DataDependent("the size of a transfer depends on data")
            yield f"moved[{array}] += {elements} * {item_bits(str(memref.element_type))}"

"""A kernel's operations translated once into Python functions on a frame of values, then run as often as needed.

Each operation has a translator, by name: it reads the operation's attributes and returns what to do with a frame.
Pure ones return a function of their operands' values instead. What has no translator is `Unsupported`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jax._src.lib.mlir import ir

from hawkeye_mcp.mosaic_eval.errors import Ended, Exhausted, Unsupported
from hawkeye_mcp.mosaic_eval.form import check_layout
from hawkeye_mcp.mosaic_eval.memory import Semaphores
from hawkeye_mcp.mosaic_eval.types import Array, vector

# About a minute of scalar operations.
MOST_STEPS = 20_000_000
_TERMINATORS = {"scf.yield", "tpu.yield", "func.return", "scf.condition"}

Frame = list[Any]
Instruction = Callable[[Frame], None]
Translator = Callable[[Any, "Scope"], Instruction]
PureTranslator = Callable[[Any], Callable[..., Array]]

TRANSLATORS: dict[str, Translator] = {}
PURE: dict[str, PureTranslator] = {}


@dataclass
class Machine:
    """What all functions of a kernel share in one run.

    exact: float32 operands of matmuls at the default precision are not rounded to bfloat16. grid: its bounds.
    """

    kernel: str
    functions: dict[str, Any]
    exact: bool
    grid: tuple[int, ...] = ()
    semaphores: Semaphores = field(default_factory=Semaphores)
    steps_left: int = field(default_factory=lambda: MOST_STEPS)
    open_calls: list[str] = field(default_factory=list)  # functions whose translation led here

    def spend(self, steps: int) -> None:
        """Raises Exhausted."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise Exhausted(f"more than {MOST_STEPS} operations", f"kernel {self.kernel}")


@dataclass(frozen=True)
class Body:
    """A translated block. results: slots of what its terminator passes on."""

    arguments: list[int]
    instructions: list[tuple[Instruction, Any]]
    results: list[int]

    def run(self, frame: Frame, machine: Machine, arguments: Sequence[Any] = ()) -> list[Any]:
        """Raises Ended."""
        machine.spend(len(self.instructions) + 1)
        for slot, value in zip(self.arguments, arguments, strict=True):
            frame[slot] = value
        for instruction, op in self.instructions:
            try:
                instruction(frame)
            except Ended as ended:
                raise ended.at(place(op, machine.kernel)) from None
            except MemoryError as error:
                raise Exhausted(f"{op.name}: out of memory", place(op, machine.kernel)) from error
            except (ValueError, TypeError, IndexError, KeyError, ArithmeticError) as error:
                # a variant that its translator did not foresee
                raise Unsupported(f"{op.name} ({type(error).__name__}: {error})", place(op, machine.kernel)) from error
        return [frame[slot] for slot in self.results]


class Scope:
    """The slots of one function's values, while it is translated."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._slots: dict[Any, int] = {}

    @property
    def size(self) -> int:
        return len(self._slots)

    def define(self, value: Any) -> int:
        """Raises Unsupported for memory with a layout of its own."""
        check_layout(value.type)
        return self._slots.setdefault(value, len(self._slots))

    def slot(self, value: Any) -> int:
        """Raises Unsupported for a value of another function."""
        if value not in self._slots:
            raise Unsupported("a value that is not of this function")
        return self._slots[value]

    def slots(self, values: Any) -> list[int]:
        return [self.slot(value) for value in values]

    def body(self, block: Any) -> Body:
        """Raises Ended."""
        arguments = [self.define(argument) for argument in block.arguments]
        instructions: list[tuple[Instruction, Any]] = []
        for op in block:
            if op.operation.name in _TERMINATORS:
                return Body(arguments, instructions, self.slots(op.operation.operands))
            try:
                instructions.append((self._translated(op), op.operation))
            except Ended as ended:
                raise ended.at(place(op.operation, self.machine.kernel)) from None
            except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
                what = f"{op.operation.name} ({type(error).__name__}: {error})"
                raise Unsupported(what, place(op.operation, self.machine.kernel)) from error
        raise Unsupported("a block that does not end in a terminator")

    def _translated(self, op: Any) -> Instruction:
        name = op.operation.name
        if name in TRANSLATORS:
            return TRANSLATORS[name](op, self)
        if name not in PURE:
            raise Unsupported(name)
        function = PURE[name](op)
        operands = self.slots(op.operation.operands)
        (value,) = op.operation.results
        result, (shape, dtype) = self.define(value), vector(value.type)

        def run(frame: Frame) -> None:
            found = function(*[frame[slot] for slot in operands])
            if found.shape != shape or found.dtype != dtype:  # a translator that got it wrong
                raise Unsupported(f"{name} (it gave {found.dtype}{list(found.shape)})")
            frame[result] = found

        return run


def translator(*names: str) -> Callable[[Translator], Translator]:
    def register(function: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(names, function))
        return function

    return register


def pure(*names: str) -> Callable[[PureTranslator], PureTranslator]:
    def register(function: PureTranslator) -> PureTranslator:
        PURE.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass(frozen=True)
class Function:
    """A translated func.func."""

    machine: Machine
    body: Body
    scope: Scope

    @classmethod
    def of(cls, function: Any, machine: Machine) -> "Function":
        """Raises Ended."""
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            raise Unsupported("a function of several blocks", f"kernel {machine.kernel}")
        scope = Scope(machine)
        return cls(machine, scope.body(blocks[0]), scope)

    def __call__(self, *arguments: Any) -> list[Any]:
        return self.body.run([None] * self.scope.size, self.machine, arguments)


def place(op: Any, kernel: str) -> str:
    """The kernel, and the line of its file that an operation came from where that is known."""
    for location in _files(op.location, 8):
        return f"kernel {kernel}, {location}"
    return f"kernel {kernel}"


def _files(location: Any, depth: int) -> Iterator[str]:
    """Where an operation was inlined, the caller is the place in the file."""
    if depth == 0:
        return
    if isinstance(location, ir.CallSiteLoc):
        yield from _files(location.caller, depth - 1)
    elif isinstance(location, ir.NameLoc):
        yield from _files(location.child_loc, depth - 1)
    elif isinstance(location, ir.FileLineColLoc):
        yield f"{str(location.filename).rsplit('/', 1)[-1]} line {location.start_line}"


def integer(attribute: Any) -> int:
    return int(ir.IntegerAttr(attribute).value)


def flag(op: Any, name: str) -> bool:
    """A boolean attribute, false where it is missing."""
    attributes = op.operation.attributes
    return name in attributes and bool(ir.BoolAttr(attributes[name]).value)


def numbers(attribute: Any) -> list[int]:
    """Of a dense array or an array of integers."""
    for kind in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr):
        if isinstance(attribute, kind):
            return [int(n) for n in attribute]
    return [integer(each) for each in ir.ArrayAttr(attribute)]

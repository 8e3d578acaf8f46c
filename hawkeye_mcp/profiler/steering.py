"""The small integer arrays that steer an artifact's kernels, cut out of the artifact as a program of their own.

Scalar-prefetch operands, and whole arrays in SMEM, decide which blocks a kernel moves and what it does at which step.
Where they follow from the program's small integer inputs, the operations in between are copied into a program that
takes these inputs and gives these arrays: there is no kernel, no float input and no large array in it. XLA leaves out
what no result needs.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import export
from jax._src.export import _export
from jax._src.lib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hawkeye_mcp.artifact import Program, operations
from hawkeye_mcp.profiler.cutout import aval
from hawkeye_mcp.profiler.mosaic import MosaicCall, mosaic_calls, target

MOST_ELEMENTS = 1 << 22  # of an array on the way
MOST_WORDS = 1 << 18  # of 32 bits, of an array that steers: SMEM holds no more on any chip
MOST_OPERATIONS = 50_000  # on the way, functions unfolded where they hold a kernel
# what reaches outside the program or is not the same on every platform
_REFUSED = ("custom_call", "infeed", "outfeed", "send", "recv", "rng", "rng_bit_generator", "all_reduce", "all_gather")
_CALLS = ("func.call", "call")
_KERNEL, _LARGE = "tpu_custom_call", "a large array"


@dataclasses.dataclass(frozen=True)
class Steering:
    """exported: from inputs of the artifact to arrays of its kernels, for the CPU. inputs: their positions. operands:
    (kernel, operand) of each result; drawn: those that depend on inputs. unknown: the results that mean nothing, and
    why.
    """

    exported: export.Exported
    inputs: list[int]
    operands: list[tuple[int, int]]
    drawn: set[tuple[int, int]]
    unknown: dict[tuple[int, int], str]


def steering_operands(call: MosaicCall) -> list[int]:
    """The operands that a kernel holds as whole integer arrays in SMEM and only reads from."""
    found = []
    arguments = list(call.main.regions[0].blocks[0].arguments)[len(call.grid) :]
    windows: list[Any] = [None] * call.prefetched + [window for window in call.windows if not window.is_output]
    for at, (operand, argument, window) in enumerate(zip(call.op.operands, arguments, windows, strict=False)):
        whole = window is None or (
            window.space == "smem" and (window.transform is None or window.block == window.array)
        )
        tensor = ir.RankedTensorType(operand.type)
        integers = str(tensor.element_type).startswith(("i", "ui"))
        if whole and integers and math.prod(tensor.shape) <= MOST_WORDS and _only_read(argument):
            found.append(at)
    return found


def _only_read(argument: Any) -> bool:
    return all(str(use.owner.name).removeprefix("stable_mosaic.") == "memref.load" for use in argument.uses)


def cut(program: Program) -> Steering:
    """Raises ValueError if the program is not one that this follows."""
    with program.context, ir.Location.unknown(program.context):
        calls = mosaic_calls(program)
        operands = [(number, at) for number, call in enumerate(calls) for at in steering_operands(call)]
        results = [aval(calls[number].op.operands[at].type) for number, at in operands]
        inputs = [
            at
            for at, of in enumerate(program.exported.in_avals)
            if jnp.issubdtype(of.dtype, jnp.integer) and of.size <= MOST_ELEMENTS
        ]

        def carrier(*arrays: jax.Array) -> list[jax.Array]:
            return [jnp.zeros(result.shape, result.dtype) for result in results]

        shapes = [jax.ShapeDtypeStruct(program.exported.in_avals[at].shape, program.exported.in_avals[at].dtype) for at in inputs]  # fmt: skip
        exported = export.export(jax.jit(carrier, keep_unused=True), platforms=["cpu"])(*shapes)
        module = stablehlo.deserialize_portable_artifact(program.context, exported.mlir_module_serialized)
        copier = _Copier(program, calls, module, operands)
        copier.run(inputs)
        exported = dataclasses.replace(exported, mlir_module_serialized=_export._module_to_bytecode(module))
    unknown = {operand: why for operand, why in copier.reasons.items()}
    unknown |= {
        operand: "it is in a loop or a branch"
        for operand in operands
        if operand not in copier.found and operand not in unknown
    }
    drawn = {operand for operand, value in copier.found.items() if value in copier.drawn}
    return Steering(exported, inputs, operands, drawn, unknown)


_Known = Any  # a value of the new program, or as a str the reason why there is none


class _Copier:
    """Copies what is known of a program into the only function of another."""

    def __init__(
        self, program: Program, calls: list[MosaicCall], module: ir.Module, operands: list[tuple[int, int]]
    ) -> None:
        self._functions = {
            str(ir.StringAttr(op.operation.attributes["sym_name"]).value): op.operation
            for op in program.module.body.operations
            if "sym_name" in op.operation.attributes
        }
        self._program, self._module = program, module
        self._block = module.body.operations[0].regions[0].blocks[0]
        self._end = list(self._block)[-1].operation
        self._numbers = {hash(call.op): number for number, call in enumerate(calls)}
        self._operands = {operand: at for at, operand in enumerate(operands)}
        self._inside: dict[str, set[str]] = {}
        self._copied: set[str] = set()
        self._left = MOST_OPERATIONS
        self._walked: dict[tuple[Any, ...], list[_Known]] = {}
        self.found: dict[tuple[int, int], Any] = {}
        self.drawn: set[Any] = set()
        self.reasons: dict[tuple[int, int], str] = {}

    def run(self, inputs: list[int]) -> None:
        arguments = list(self._block.arguments)
        self.drawn.update(arguments)
        known = [
            arguments[inputs.index(at)] if at in inputs else f"it depends on input {at}, which is not a small integer array"
            for at in range(len(self._program.exported.in_avals))
        ]  # fmt: skip
        self._walk("main", known)
        for operand, value in self.found.items():
            self._end.operands[self._operands[operand]] = value

    def _walk(self, name: str, known: list[_Known]) -> list[_Known]:
        """The results of a function of the old program for these arguments."""
        key = (name, *known)
        if key not in self._walked:
            block = self._functions[name].regions[0].blocks[0]
            values: dict[Any, _Known] = dict(zip(block.arguments, known, strict=True))
            for each in block:
                op = each.operation
                self._left -= 1
                if self._left < 0:
                    raise ValueError("the program has too many operations around its kernels")
                if op.name in ("func.return", "return"):
                    self._walked[key] = [values[operand] for operand in op.operands]
                    break
                values.update(zip(op.results, self._results(op, values), strict=True))
        return self._walked[key]

    def _results(self, op: Any, values: dict[Any, _Known]) -> list[_Known]:
        if (number := self._numbers.get(hash(op))) is not None:
            self._note(number, [values[operand] for operand in op.operands])
            return ["it depends on a kernel's result"] * len(op.results)
        if op.name in _CALLS and _KERNEL in self._of_function(_callee(op)):
            return self._walk(_callee(op), [values[operand] for operand in op.operands])
        why = self._unknown(op, values)
        return [why] * len(op.results) if why else self._copy(op, values)

    def _note(self, number: int, operands: list[_Known]) -> None:
        for at, value in enumerate(operands):
            if (number, at) not in self._operands or (number, at) in self.reasons:
                continue
            if isinstance(value, str):
                self.reasons[number, at] = value
            elif self.found.setdefault((number, at), value) != value:
                self.reasons[number, at] = "the kernel runs several times with different values"

    def _unknown(self, op: Any, values: dict[Any, _Known]) -> str:
        """Why an operation cannot be copied; empty if it can."""
        inside = list(operations(op))
        for operand in (value for each in (op, *inside) for value in each.operands):
            if isinstance(found := values.get(operand), str):
                return found
        refused = self._of_operations([op, *inside]) & {*_REFUSED, _LARGE}
        return f"it depends on {min(refused)}, which is not followed" if refused else ""

    def _of_operations(self, listed: list[Any]) -> set[str]:
        """Names of operations, dialect left out, through all calls; _KERNEL and _LARGE for what these stand for."""
        names = set()
        for op in listed:
            names.add(op.name.rsplit(".", 1)[-1])
            if op.name == "stablehlo.custom_call" and target(op) == _KERNEL:
                names.add(_KERNEL)
            if any(_elements(result.type) > MOST_ELEMENTS for result in op.results):
                names.add(_LARGE)
            if op.name in _CALLS:
                names |= self._of_function(_callee(op))
        return names

    def _of_function(self, name: str) -> set[str]:
        if name not in self._inside:
            self._inside[name] = set()  # no valid program calls itself; stay finite on others
            self._inside[name] = self._of_operations(list(operations(self._functions[name])))
        return self._inside[name]

    def _copy(self, op: Any, values: dict[Any, _Known]) -> list[Any]:
        copy = op.clone(ir.InsertionPoint(self._end))
        drawn = False
        for each in (copy, *operations(copy)):
            for at, operand in enumerate(each.operands):
                if operand in values:
                    each.operands[at] = values[operand]
                    drawn |= values[operand] in self.drawn
            if each.name in _CALLS:
                self._copy_function(_callee(each))
        if drawn:
            self.drawn.update(copy.results)
        return list(copy.results)

    def _copy_function(self, name: str) -> None:
        if name in self._copied:
            return
        self._copied.add(name)
        function = self._functions[name].clone(ir.InsertionPoint.at_block_begin(self._module.body))
        for op in operations(function):
            if op.name in _CALLS:
                self._copy_function(_callee(op))


def _callee(op: Any) -> str:
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def _elements(kind: ir.Type) -> float:
    tensor = ir.RankedTensorType(kind) if isinstance(kind, ir.RankedTensorType) else None
    return math.prod(tensor.shape) if tensor and tensor.has_static_shape else math.inf

"""The one long loop of a kernel that has no grid, or hardly one: what an inner pipeline or copies by hand stand in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jax._src.lib.mlir import ir

from hawkeye_mcp.profiler.mosaic import MosaicCall


@dataclass(frozen=True)
class LongLoop:
    """A loop from `first` to before `end`, one by one, that the kernel's function runs once."""

    op: ir.Operation
    first: int
    end: int

    @property
    def turns(self) -> int:
        return self.end - self.first


def long_loop(call: MosaicCall) -> LongLoop | None:
    """The loop with the most turns that stands in no other loop or branch; None if its bounds are not constant."""
    found = [loop for loop in _loops(call.main.regions[0].blocks[0], {})]
    return max(found, key=lambda loop: loop.turns, default=None)


def _loops(block: Any, constants: dict[Any, int]) -> Iterator[LongLoop]:
    for each in block:
        op = each.operation
        note_constant(op, constants)
        if op.name == "stable_mosaic.tpu.region":
            yield from _loops(op.regions[0].blocks[0], constants)
        elif (turns := turns_of_for(op, constants)) and turns.step == 1:
            yield LongLoop(op, turns.start, turns.stop)


def note_constant(op: ir.Operation, constants: dict[Any, int]) -> None:
    """Add the value that an operation makes, if it is a constant or a sum of constants."""
    name = op.name.removeprefix("stable_mosaic.")
    if name == "arith.constant" and isinstance(op.attributes["value"], ir.IntegerAttr):
        constants[op.results[0]] = int(ir.IntegerAttr(op.attributes["value"]).value)
    elif name == "arith.addi" and all(value in constants for value in op.operands):
        constants[op.results[0]] = sum(constants[value] for value in op.operands)


def turns_of_for(op: ir.Operation, constants: dict[Any, int]) -> range | None:
    """The turns of a loop between constants."""
    if op.name != "stable_mosaic.scf.for" or not all(value in constants for value in list(op.operands)[:3]):
        return None
    first, end, step = (constants[value] for value in list(op.operands)[:3])
    return range(first, end, step) if step > 0 else None


def shorten(loop: LongLoop, turns: int) -> None:
    """Let a loop stop after its first turns."""
    bound = loop.op.operands[1]
    with ir.InsertionPoint(loop.op):
        end = ir.Operation.create(
            "stable_mosaic.arith.constant",
            [bound.type],
            attributes={"value": ir.IntegerAttr.get(bound.type, loop.first + turns)},
        )
    loop.op.operands[1] = end.results[0]

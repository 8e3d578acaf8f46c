"""Translators of control flow and of what only names a place in the program."""

from typing import Any

from jax._src.lib.mlir import ir

from hawkeye_mcp.mosaic_eval.errors import Fault, Unsupported
from hawkeye_mcp.mosaic_eval.machine import Frame, Function, Instruction, Scope, integer, numbers, translator
from hawkeye_mcp.mosaic_eval.types import dtype_of

_MOST_CALLS = 32  # of functions within functions


def _assign(frame: Frame, slots: list[int], values: list[Any]) -> None:
    for slot, value in zip(slots, values, strict=True):
        frame[slot] = value


@translator("scf.if")
def _if(op: Any, scope: Scope) -> Instruction:
    (condition,) = scope.slots(op.operation.operands)
    regions = list(op.operation.regions)
    branches = [scope.body(list(region.blocks)[0]) if list(region.blocks) else None for region in regions]
    results = [scope.define(value) for value in op.operation.results]

    def run(frame: Frame) -> None:
        branch = branches[0 if frame[condition] else 1]
        if branch:
            _assign(frame, results, branch.run(frame, scope.machine))

    return run


@translator("scf.index_switch")
def _switch(op: Any, scope: Scope) -> Instruction:
    (which,) = scope.slots(op.operation.operands)
    default, *cases = [scope.body(list(region.blocks)[0]) for region in op.operation.regions]
    known = dict(zip(numbers(op.operation.attributes["cases"]), cases, strict=True))
    results = [scope.define(value) for value in op.operation.results]

    def run(frame: Frame) -> None:
        _assign(frame, results, known.get(int(frame[which]), default).run(frame, scope.machine))

    return run


@translator("scf.for")
def _for(op: Any, scope: Scope) -> Instruction:
    lower, upper, step, *initial = scope.slots(op.operation.operands)
    body = scope.body(list(op.operation.regions[0].blocks)[0])
    results = [scope.define(value) for value in op.operation.results]
    dtype = dtype_of(op.operation.operands[0].type)

    def run(frame: Frame) -> None:
        carried = [frame[slot] for slot in initial]
        by = int(frame[step])
        if by <= 0:
            raise Fault(f"a loop with step {by}")
        for i in range(int(frame[lower]), int(frame[upper]), by):
            carried = body.run(frame, scope.machine, [dtype.type(i), *carried])
        _assign(frame, results, carried)

    return run


@translator("scf.while")
def _while(op: Any, scope: Scope) -> Instruction:
    initial = scope.slots(op.operation.operands)
    before, after = [scope.body(list(region.blocks)[0]) for region in op.operation.regions]
    results = [scope.define(value) for value in op.operation.results]

    def run(frame: Frame) -> None:
        carried = [frame[slot] for slot in initial]
        while True:
            goes_on, *passed = before.run(frame, scope.machine, carried)
            if not goes_on:
                break
            carried = after.run(frame, scope.machine, passed)
        _assign(frame, results, passed)

    return run


@translator("tpu.region", "scf.execute_region", "tpu.trace")
def _region(op: Any, scope: Scope) -> Instruction:
    blocks = list(op.operation.regions[0].blocks)
    if len(blocks) != 1 or op.operation.operands:
        raise Unsupported(f"{op.operation.name} of several blocks")
    body = scope.body(blocks[0])
    results = [scope.define(value) for value in op.operation.results]
    return lambda frame: _assign(frame, results, body.run(frame, scope.machine))


@translator("func.call")
def _call(op: Any, scope: Scope) -> Instruction:
    name = str(ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value)
    machine = scope.machine
    if name not in machine.functions:
        raise Unsupported(f"func.call of {name}")
    if len(machine.open_calls) > _MOST_CALLS or name in machine.open_calls:
        raise Unsupported("func.call within itself")
    machine.open_calls.append(name)
    try:
        function = Function.of(machine.functions[name], machine)
    finally:
        machine.open_calls.pop()
    arguments = scope.slots(op.operation.operands)
    results = [scope.define(value) for value in op.operation.results]
    return lambda frame: _assign(frame, results, function(*[frame[slot] for slot in arguments]))


@translator("tpu.iteration_bound")
def _iteration_bound(op: Any, scope: Scope) -> Instruction:
    result, axis = scope.define(op.operation.results[0]), integer(op.operation.attributes["dim"])
    dtype = dtype_of(op.operation.results[0].type)

    def run(frame: Frame) -> None:
        frame[result] = dtype.type(scope.machine.grid[axis])

    return run


@translator("tpu.device_id", "tpu.core_id")
def _alone(op: Any, scope: Scope) -> Instruction:
    """One device with one core does all the work."""
    result, dtype = scope.define(op.operation.results[0]), dtype_of(op.operation.results[0].type)

    def run(frame: Frame) -> None:
        frame[result] = dtype.type(0)

    return run


@translator("tpu.trace_start", "tpu.trace_stop", "tpu.trace_value", "tpu.delay", "cf.assert")
def _nothing(op: Any, scope: Scope) -> Instruction:
    if op.operation.name != "cf.assert":
        return lambda frame: None
    (condition,) = scope.slots(op.operation.operands)

    def run(frame: Frame) -> None:
        if not frame[condition]:
            raise Fault("an assertion of the kernel does not hold")

    return run

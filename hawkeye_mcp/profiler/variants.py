"""Copies of a kernel that cost what some of its steps cost, so that libtpu's profile tells the kinds of step apart.

libtpu's profile takes what a kernel reads from memory as unknown. A branch on such a value is made constant here,
once for each combination of branches that occurs among the kernel's steps.
"""

import base64
import dataclasses
import io
import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jax._src.lib.mlir import ir

from hawkeye_mcp.artifact import operations
from hawkeye_mcp.profiler.mosaic import MosaicCall
from hawkeye_mcp.profiler.pipeline import Known, Scalars, points_of
from hawkeye_mcp.profiler.regularity import DATA, _Flow

Branches = tuple[bool, ...]


def branches(call: MosaicCall, known: Known) -> tuple[list[int], Counter[Branches]]:
    """Which of the top-level branches depend on prefetched values, and how many steps take which combination of them."""
    numbers, paths = paths_of_steps(call, known)
    if not numbers:
        return [], Counter({(): len(paths)})
    rows, counts = np.unique(paths, axis=0, return_counts=True)
    return numbers, Counter({tuple(bool(x) for x in row): int(count) for row, count in zip(rows, counts, strict=True)})


def paths_of_steps(call: MosaicCall, known: Known) -> tuple[list[int], np.ndarray]:
    """Which of the top-level branches depend on prefetched values, and of each step whether it takes each of them.

    Raises:
        ValueError: such a branch depends on values that are not known.
    """
    flow = _Flow(call)
    block = call.main.regions[0].blocks[0]
    flow.visit(block)
    points = points_of(call.grid)
    n = len(points[0]) if points else 1
    scalars = Scalars(block, call.grid, points, known)
    numbers, taken = [], []
    for number, op in enumerate(block):
        scalars.add(op.operation)
        if op.operation.name.removeprefix("stable_mosaic.") != "scf.if":
            continue
        condition = op.operation.operands[0]
        if DATA not in flow._labels.get(condition, frozenset()):
            continue
        value = scalars.get(condition)
        if value is None:
            raise ValueError("a branch depends on values that are not known")
        numbers.append(number)
        taken.append(np.broadcast_to(value, (n,)) != 0)
    return numbers, np.stack(taken, axis=1) if taken else np.zeros((n, 0), bool)


def variant(call: MosaicCall, numbers: Sequence[int], taken: Branches, *, without_masks: bool = False) -> MosaicCall:
    """A copy in which these branches are constant.

    On chips that compute in bfloat16, libtpu's profile ends the process on a bfloat16 constant; there the other operand
    takes its place, at the same cost. without_masks: selections between bfloat16 vectors, which end it too on some
    chips, give their first choice; that leaves out one vector operation each.
    """
    with call.body.context, ir.Location.unknown(call.body.context):
        body = ir.Module.parse(call.body.operation.get_asm(binary=False, enable_debug_info=True))
        copy = MosaicCall(call.op, call.calls, call.config, body)
        block = copy.main.regions[0].blocks[0]
        listed = list(block)
        i1 = ir.IntegerType.get_signless(1)
        for number, value in zip(numbers, taken, strict=True):
            op = listed[number].operation
            with ir.InsertionPoint(op):
                constant = _constant(i1, int(value))
            op.operands[0] = constant
        _replace_constants(body)
        if without_masks:
            _drop_selects(body)
        out = io.BytesIO()
        body.operation.write_bytecode(out)
        inner = call.config["custom_call_config"] | {"body": base64.b64encode(out.getvalue()).decode()}
        config = call.config | {"custom_call_config": inner}
        op = call.op.clone(ir.InsertionPoint(call.op))
        op.attributes["backend_config"] = ir.StringAttr.get(json.dumps(config, separators=(",", ":")))
    return dataclasses.replace(copy, op=op, config=config)


def _constant(kind: ir.Type, value: int) -> ir.Value:
    attributes = {"value": ir.IntegerAttr.get(kind, value)}
    return ir.Operation.create("stable_mosaic.arith.constant", [kind], [], attributes).results[0]


def _replace_constants(body: ir.Module) -> None:
    for op in operations(body.operation):
        name = op.name.removeprefix("stable_mosaic.")
        if name not in ("arith.mulf", "arith.addf", "arith.subf", "arith.maximumf", "arith.minimumf"):
            continue
        if "bf16" not in str(op.results[0].type):
            continue
        left, right = op.operands
        if _is_splat(right):
            op.operands[1] = left
        elif _is_splat(left):
            op.operands[0] = right


def _drop_selects(body: ir.Module) -> None:
    for op in list(operations(body.operation)):
        if op.name.endswith("arith.select") and "bf16" in str(op.results[0].type):
            op.results[0].replace_all_uses_with(op.operands[1])


def _is_splat(value: ir.Value) -> bool:
    owner = value.owner
    if not isinstance(owner, ir.Operation | ir.OpView):
        return False
    op = owner.operation
    name = op.name.removeprefix("stable_mosaic.")
    if name == "vector.broadcast" and len(op.operands) == 1:
        return _is_splat(op.operands[0])
    return bool(name == "arith.constant")


def empty(call: MosaicCall) -> None:
    """Take a kernel's work out of its program: the call stays, with its operands, its blocks and its claims."""
    with call.body.context, ir.Location.unknown(call.body.context):
        body = ir.Module.parse(call.body.operation.get_asm(binary=False, enable_debug_info=True))
        hollow = MosaicCall(call.op, call.calls, call.config, body)
        listed = list(hollow.main.regions[0].blocks[0])
        for op in reversed(listed[:-1]):
            op.operation.erase()
        out = io.BytesIO()
        body.operation.write_bytecode(out)
        inner = call.config["custom_call_config"] | {"body": base64.b64encode(out.getvalue()).decode()}
        config = json.dumps(call.config | {"custom_call_config": inner}, separators=(",", ":"))
        call.op.attributes["backend_config"] = ir.StringAttr.get(config)

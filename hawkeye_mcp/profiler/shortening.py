"""A Mosaic kernel with a shorter grid and the same body, for the profile of a few steps.

Along a shortened axis the kernel still does what it does at the ends: comparisons with the axis's last value compare
with the short one's last. A window whose array is not a whole number of blocks still ends with its clipped block.
Nothing else changes, and no instruction is added to a step where nothing is clipped: a few cycles a step are per cents
of a kernel of short steps.
"""

import base64
import dataclasses
import io
import json
from collections.abc import Sequence

from jax._src.lib.mlir import ir

from hawkeye_mcp.profiler import lines
from hawkeye_mcp.profiler.long_loop import long_loop, shorten
from hawkeye_mcp.profiler.mosaic import MosaicCall, Window
from hawkeye_mcp.profiler.regularity import last_step_tests


def with_grid(call: MosaicCall, point: Sequence[int]) -> str:
    """The call's backend_config with a grid as short as asked; one number more is the turns of its long loop."""
    grid, turns = point[: len(call.grid)], point[len(call.grid) :]
    with call.body.context, ir.Location.unknown(call.body.context):
        body = ir.Module.parse(lines.of_callers(call.body.operation.get_asm(binary=False, enable_debug_info=True)))
        short = dataclasses.replace(call, body=body)
        for test, at, axis in last_step_tests(short):
            if grid[axis] != call.grid[axis]:
                constant = test.operands[at]
                with ir.InsertionPoint(test):
                    last = ir.Operation.create(
                        "stable_mosaic.arith.constant",
                        [constant.type],
                        attributes={"value": ir.IntegerAttr.get(constant.type, grid[axis] - 1)},
                    )
                test.operands[at] = last.results[0]
        clipped = {window.transform for window in call.windows if _is_clipped(window)}
        for each in body.body.operations:
            if ir.StringAttr(each.operation.attributes["sym_name"]).value in clipped:
                _pin_last(each.operation.regions[0].blocks[0], grid, call.grid)
        if call.grid:
            short.main.attributes["iteration_bounds"] = ir.DenseI64ArrayAttr.get(list(grid))
        if turns and (loop := long_loop(short)):
            shorten(loop, turns[0])
        out = io.BytesIO()
        body.operation.write_bytecode(out)
    inner = call.config["custom_call_config"] | {"body": base64.b64encode(out.getvalue()).decode()}
    return json.dumps(call.config | {"custom_call_config": inner}, separators=(",", ":"))


def _is_clipped(window: Window) -> bool:
    """Whether the last block of some dimension reaches over the array's edge."""
    rank = len(window.array)
    return window.transform is not None and (
        len(window.block) < rank
        or any(n % block for n, block in zip(window.array, window.block[-rank:], strict=True) if block > 0)
    )


def _pin_last(block: ir.Block, short: Sequence[int], full: Sequence[int]) -> None:
    """Replace each shortened grid index by select(index == short - 1, full - 1, index)."""
    i32 = ir.IntegerType.get_signless(32)

    def create(name: str, kind: ir.Type, operands: list[ir.Value], **attributes: ir.Attribute) -> ir.Operation:
        return ir.Operation.create(f"stable_mosaic.arith.{name}", [kind], operands, attributes)

    with ir.InsertionPoint.at_block_begin(block):
        for argument, n_short, n_full in zip(list(block.arguments), short, full, strict=False):
            if n_short == n_full:
                continue
            end = create("constant", i32, [], value=ir.IntegerAttr.get(i32, n_short - 1))
            last = create("constant", i32, [], value=ir.IntegerAttr.get(i32, n_full - 1))
            at_end = create(
                "cmpi", ir.IntegerType.get_signless(1), [argument, end.results[0]],
                predicate=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
            )  # fmt: skip
            index = create("select", i32, [at_end.results[0], last.results[0], argument])
            argument.replace_all_uses_except(index.results[0], [at_end, index])

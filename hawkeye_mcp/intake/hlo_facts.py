"""What the TPU's compiler made of a program: its fusions, layouts, copies and custom calls, read from optimised HLO.

The text is read where it was compiled, as its reader imports jax; the facts are data for any process.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from hawkeye_mcp.profiler.hlo import Op
    from hawkeye_mcp.profiler.hlo_text import Computations, Line

MOST_LISTED = 64
_KIND = re.compile(r"\bkind=k(\w+)")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_LAYOUT = re.compile(r"\{[\d,]*(?::[^{}]*)?\}")
_COPIES = ("copy", "copy-start", "transpose", "bitcast-convert")
_HEAVY = {
    "dot",
    "convolution",
    "reduce",
    "reduce-window",
    "sort",
    "gather",
    "scatter",
    "exponential",
    "rsqrt",
    "tanh",
    "divide",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Operation(_Part):
    """One operation of the compiled program that takes time.

    result: its type with its layout. does: the operations in it that cost most. hbm_bytes: what must cross HBM each
    time it runs, a lower bound. xla_cycles: the compiler's own estimate where it chose a tiling. times: it runs so often;
    0 where only a run can tell.
    """

    name: str
    kind: str = Field(description="loop, output, input or custom for a fusion, else the operation")
    result: str
    does: list[str] = []
    hbm_bytes: int
    xla_cycles: int | None = None
    times: int = 1


class HloFacts(_Part):
    """The program as the compiler of one TPU generation left it."""

    operations: list[Operation] = Field(description="Those with a cost, in the order of the program; the first 64.")
    operation_count: int
    fusion_kinds: dict[str, int]
    custom_calls: dict[str, int] = Field(description="Targets; tpu_custom_call is a Mosaic kernel that XLA made.")
    copies: list[str] = Field(description="What only moves an array or changes its layout.")
    layouts: dict[str, int] = Field(description="Minor-to-major order and tiling of arrays between operations.")
    argument_layouts: list[str]
    result_layouts: list[str]
    hbm_bytes: int = Field(description="What must cross HBM in one run, a lower bound; loops of unknown length once.")
    unknown_loops: bool = Field(description="Whether a loop runs an unknown number of times.")


def hlo_facts(text: str) -> HloFacts:
    """Raises hlo.Unreadable: the text is no optimised HLO as this reader knows it."""
    from hawkeye_mcp.profiler import hlo
    from hawkeye_mcp.profiler.hlo_text import parse

    costs = hlo.ops(text)
    computations, entry = parse(text)
    lines = {line.name: line for line in _lines(computations)}
    if not entry:
        raise hlo.Unreadable("the text has no entry computation")
    main = computations[entry]
    results = [line for line in main if line.opcode not in ("parameter", "constant")]
    parameters = [line for line in main if line.opcode == "parameter"]
    root = next((line for line in main if line.root), main[-1])
    listed = [_operation(op, lines[op.name], computations) for op in costs if op.name in lines]
    return HloFacts(
        operations=listed[:MOST_LISTED],
        operation_count=len(listed),
        fusion_kinds=dict(Counter(f"{kind}" for op in listed if (kind := _fusion(lines[op.name])))),
        custom_calls=dict(Counter(_TARGET.findall("\n".join(line.rest for line in lines.values())))),
        copies=[f"{op.name}: {op.result}" for op in listed if op.kind in _COPIES][:MOST_LISTED],
        layouts=dict(
            Counter(layout for line in results for layout in _LAYOUT.findall(line.type)).most_common(MOST_LISTED)
        ),
        argument_layouts=[line.type for line in sorted(parameters, key=_number)],
        result_layouts=[root.type],
        hbm_bytes=sum(op.hbm_bytes * max(op.calls, 1) for op in costs),
        unknown_loops=any(not op.calls for op in costs),
    )


def _lines(computations: "Computations") -> "Iterator[Line]":
    for lines in computations.values():
        yield from lines


def _number(parameter: "Line") -> int:
    return int(parameter.inside) if parameter.inside.isdigit() else 0


def _fusion(line: "Line") -> str:
    found = _KIND.search(line.rest) if line.opcode == "fusion" else None
    return found[1].lower() if found else ""


def _operation(op: "Op", line: "Line", computations: "Computations") -> Operation:
    inside = Counter(each.opcode for each in _within(line, computations))
    heavy = [f"{name} x{count}" if count > 1 else name for name, count in inside.items() if name in _HEAVY]
    return Operation(
        name=op.name,
        kind=_fusion(line) or op.opcode,
        result=line.type,
        does=heavy,
        hbm_bytes=op.hbm_bytes,
        xla_cycles=op.xla_cycles,
        times=op.calls,
    )


def _within(line: "Line", computations: "Computations", depth: int = 0) -> "Iterator[Line]":
    if line.opcode != "fusion" or depth > 8:
        yield line
        return
    for each in computations.get(line.computation("calls"), []):
        yield from _within(each, computations, depth + 1)

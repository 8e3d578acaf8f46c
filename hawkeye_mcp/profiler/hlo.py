"""Optimised TPU HLO, read per operation: cycles that the compiler noted, bytes that must cross HBM, how often it runs."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hawkeye_mcp.profiler.cutout import POINT
from hawkeye_mcp.profiler.flops import Product, products
from hawkeye_mcp.profiler.hlo_text import Computations, Line, arrays, parse
from hawkeye_mcp.profiler.loops import trips
from hawkeye_mcp.profiler.traffic import moved_bytes

# Values of a u32[] or a tuple's pieces and so on cost nothing worth a line.
_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id",
    "copy-done", "slice-done", "async-done", "add-dependency", "opt-barrier", "iota",
}  # fmt: skip
SMALL = 1024  # elements: one vector register of 32-bit numbers


@dataclass(frozen=True)
class Op:
    """One operation of the compiled program.

    profile_cycles: libtpu's static profile (only in a process that has it on). xla_cycles: XLA's own estimate when
    it chose the tiling. hbm_bytes: what must cross HBM of operands and results, a lower bound. calls: 0 when
    a loop's trip count is unknown. vmem_bytes: scoped VMEM that the operation takes. on_chip: of each operand, then
    each result, whether XLA placed it in VMEM. ahead: a copy that XLA starts before its result is needed. small: it
    touches no array that would not fit a vector register, so that it costs next to nothing. sort: what kind of work it
    does, one of `SORTS`. partial: vector registers of partial sums that its tiling adds to what is there. elements: of the largest array that it touches. products: its matrix products. skips: it leaves
    out work that depends on data, which neither its products nor its cycles show. call: of a Mosaic kernel what
    `xla_kernel` needs to compile it alone.
    """

    name: str
    opcode: str
    profile_cycles: int | None
    xla_cycles: int | None
    hbm_bytes: int
    calls: int
    mosaic: bool
    point: int | None
    vmem_bytes: int | None
    on_chip: list[bool]
    ahead: bool
    small: bool
    sort: str = "elementwise"
    elements: int = 0
    partial: int = 0
    products: list[Product] = field(default_factory=list)
    skips: bool = False
    call: dict[str, Any] | None = None


SORTS = ("product", "reduction", "transcendental", "elementwise", "copy", "irregular", "mosaic")
_COPIES = {
    "copy", "copy-start", "transpose", "broadcast", "reshape", "slice", "dynamic-slice", "dynamic-update-slice",
    "concatenate", "pad", "reverse",
}  # fmt: skip
_REDUCTIONS = {"reduce", "reduce-window"}
_TRANSCENDENTAL = {
    "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "rsqrt", "sqrt", "divide", "power",
    "erf", "cosine", "sine",
}  # fmt: skip
# how long these take depends on data, or on an order of access that bytes say little about
_IRREGULAR = {"gather", "scatter", "sort", "select-and-scatter", "async-update"}


class Unreadable(ValueError):
    """The text is no optimised HLO as this reader knows it; it says what it stumbled over."""


def ops(text: str) -> list[Op]:
    """The operations with a cost of the entry computation, loops and calls unfolded.

    Raises:
        Unreadable: it is not written as libtpu writes it.
    """
    try:
        computations, entry = parse(text)
        return list(_walk(computations, entry, 1))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise Unreadable(f"the HLO is not as expected: {type(error).__name__}: {error}"[:500]) from error


def _walk(computations: Computations, name: str, times: int) -> Iterator[Op]:
    lines = computations.get(name, [])
    types = {line.name: line.type for line in lines}
    for line in lines:
        if line.opcode in _FREE or 'custom_call_target="AllocateBuffer"' in line.rest:
            continue
        if line.opcode == "while":
            yield from _walk(computations, line.computation("body"), times * (trips(line, lines, computations) or 0))
            continue
        if line.opcode in ("call", "conditional"):
            for callee in re.findall(r"(?:to_apply|branch_computations=\{|computation=)=?%?([\w.\-]+)", line.rest):
                yield from _walk(computations, callee, times if line.opcode == "call" else 0)
            continue
        yield _op(line, types, computations, times)


def _op(line: Line, types: dict[str, str], computations: Computations, times: int) -> Op:
    config = line.config
    profile = config.get("bundle_analysis_data", {}).get("estimated_cycles")
    estimate = config.get("window_config", {}).get("estimated_cycles")
    scoped = [int(c["size"]) for c in config.get("used_scoped_memory_configs", []) if c.get("memory_space") == "1"]
    point = re.search(POINT + r'="(\d+)"', line.rest)
    operands = [arrays(types.get(name, "")) for name in line.operands]
    results = arrays(line.type)
    touched = [array for each in (*operands, results) for array in each]
    found = products(line, types, computations)
    mosaic = line.opcode == "custom-call" and 'custom_call_target="tpu_custom_call"' in line.rest
    return Op(
        name=line.name,
        opcode=line.opcode,
        profile_cycles=int(profile) if profile else None,
        xla_cycles=int(estimate) if estimate else None,
        hbm_bytes=moved_bytes(line, types, computations),
        calls=times,
        mosaic=mosaic,
        point=int(point[1]) if point else None,
        vmem_bytes=max(scoped, default=None),
        on_chip=[any(array.on_chip for array in each) for each in operands] + [array.on_chip for array in results],
        ahead=line.opcode.endswith("-start"),
        small=line.opcode not in ("sort", "custom-call") and all(array.elements <= SMALL for array in touched),
        sort="mosaic" if mosaic else "product" if found else _sort(line, computations),
        elements=max((array.elements for array in touched), default=0),
        partial=_partial(config.get("window_config", {}), max((array.elements for array in results), default=0)),
        products=found,
        skips="ragged_dot" in line.rest,
        call=_call(line, types) if mosaic else None,
    )


def _sort(line: Line, computations: Computations) -> str:
    """Of an operation without products: by the most demanding operation in it; a fusion of copies alone is a copy."""
    inside = list(_inside(line, computations))
    opcodes = {each.opcode for each in inside}
    if opcodes & _IRREGULAR:
        return "irregular"
    if opcodes & _REDUCTIONS:
        return "reduction"
    sizes = [(each.opcode, sum(array.elements for array in arrays(each.type))) for each in inside]
    largest = max((size for _, size in sizes), default=0)
    if any(opcode in _TRANSCENDENTAL and 8 * size >= largest for opcode, size in sizes):
        return "transcendental"
    return "copy" if opcodes <= _COPIES else "elementwise"


def _inside(line: Line, computations: Computations) -> Iterator[Line]:
    """The operation, or what a fusion consists of."""
    if line.opcode != "fusion":
        yield line
        return
    for each in computations.get(line.computation("calls"), []):
        if each.opcode not in _FREE:
            yield from _inside(each, computations)


def _partial(window: dict[str, Any], elements: int) -> int:
    """A tiling writes a window of whole registers at each step; what exceeds the result is written more than once."""
    steps, registers = (
        math.prod(int(n) for n in window.get(key, [])) for key in ("iteration_bounds", "output_window_bounds")
    )
    return max(0, steps * registers - -(-elements // SMALL))


def _call(line: Line, types: dict[str, str]) -> dict[str, Any]:
    """The configuration of a Mosaic kernel, and dtype and shape of its operands and results."""
    shapes = [
        [[array.dtype, list(array.dims)] for array in arrays(text)]
        for text in (*(types.get(name, "") for name in line.operands), line.type)
    ]
    return {
        "config": line.config.get("custom_call_config", {}),
        "operands": [array for each in shapes[:-1] for array in each],
        "results": shapes[-1],
    }

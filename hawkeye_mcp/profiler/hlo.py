"""Optimised TPU HLO, read per operation: cycles that the compiler noted, bytes that must cross HBM, how often it runs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hawkeye_mcp.profiler.cutout import POINT
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
    touches no array that would not fit a vector register, so that it costs next to nothing.
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


def ops(text: str) -> list[Op]:
    """The operations with a cost of the entry computation, loops and calls unfolded."""
    computations, entry = parse(text)
    return list(_walk(computations, entry, 1))


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
    return Op(
        name=line.name,
        opcode=line.opcode,
        profile_cycles=int(profile) if profile else None,
        xla_cycles=int(estimate) if estimate else None,
        hbm_bytes=moved_bytes(line, types, computations),
        calls=times,
        mosaic=line.opcode == "custom-call" and 'custom_call_target="tpu_custom_call"' in line.rest,
        point=int(point[1]) if point else None,
        vmem_bytes=max(scoped, default=None),
        on_chip=[any(array.on_chip for array in each) for each in operands] + [array.on_chip for array in results],
        ahead=line.opcode.endswith("-start"),
        small=line.opcode not in ("sort", "custom-call") and all(array.elements <= SMALL for array in touched),
    )

"""Optimised TPU HLO, read per operation: cycles that the compiler noted, bytes that must cross HBM, how often it runs."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hawkeye_mcp.profiler.cutout import POINT

# Values of a u32[] or a tuple's pieces and so on cost nothing worth a line.
_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id",
    "copy-done", "slice-done", "async-done", "add-dependency", "opt-barrier", "iota",
}  # fmt: skip
_BITS = {"pred": 8, "bf16": 16, "token": 0, "opaque": 0}
_SHAPE = re.compile(r"([a-z]+[a-z0-9]*)\[([\d,]*)\](\{[^}]*\})?")
_OP = re.compile(
    r"^\s+(ROOT )?%(?P<name>\S+) = (?P<type>\(.*?\)|\S+) (?P<opcode>[a-z][a-z0-9-]*)\((?P<operands>.*?)\)(?P<rest>.*)$"
)


@dataclass(frozen=True)
class Op:
    """One operation of the compiled program.

    profile_cycles: libtpu's static profile (only in a process that has it on). xla_cycles: XLA's own estimate when
    it chose the tiling. hbm_bytes: operands and results that live in HBM, each once; a lower bound. calls: 0 when
    a loop's trip count is unknown. vmem_bytes: scoped VMEM that the operation takes. on_chip: of each operand, then
    each result, whether XLA placed it in VMEM. ahead: a copy that XLA starts before its result is needed.
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


@dataclass
class _Line:
    name: str
    type: str
    opcode: str
    operands: list[str]
    rest: str
    config: dict[str, Any] = field(default_factory=dict)


def ops(text: str) -> list[Op]:
    """The operations with a cost of the entry computation, loops and calls unfolded."""
    computations, entry = _parse(text)
    return list(_walk(computations, entry, 1))


def _parse(text: str) -> tuple[dict[str, list[_Line]], str]:
    computations: dict[str, list[_Line]] = {}
    current, entry = "", ""
    for raw in text.splitlines():
        header = re.match(r"^(ENTRY )?%?(\S+) \(.*\{$", raw)
        if header and not raw.startswith(" "):
            current = header[2]
            entry = current if header[1] else entry
            computations[current] = []
        elif current and (found := _OP.match(raw)):
            operands = re.findall(r"%([\w.\-]+)", found["operands"])
            config = re.search(r"backend_config=(\{.*\})\s*$", found["rest"])
            line = _Line(found["name"], found["type"], found["opcode"], operands, found["rest"])
            if config:
                line.config = _json_prefix(config[1])
            computations[current].append(line)
    return computations, entry


def _json_prefix(text: str) -> dict[str, Any]:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _walk(computations: dict[str, list[_Line]], name: str, times: int) -> Iterator[Op]:
    types = {line.name: line.type for line in computations.get(name, [])}
    for line in computations.get(name, []):
        if line.opcode in _FREE:
            continue
        if line.opcode == "while":
            body = re.search(r"body=%?([\w.\-]+)", line.rest)
            trips = line.config.get("known_trip_count", {}).get("n")
            if body:
                yield from _walk(computations, body[1], times * int(trips) if trips else 0)
            continue
        if line.opcode in ("call", "conditional"):
            for callee in re.findall(r"(?:to_apply|branch_computations=\{|computation=)=?%?([\w.\-]+)", line.rest):
                yield from _walk(computations, callee, times if line.opcode == "call" else 0)
            continue
        yield _op(line, types, times)


def _op(line: _Line, types: dict[str, str], times: int) -> Op:
    config = line.config
    profile = config.get("bundle_analysis_data", {}).get("estimated_cycles")
    estimate = config.get("window_config", {}).get("estimated_cycles")
    scoped = [int(c["size"]) for c in config.get("used_scoped_memory_configs", []) if c.get("memory_space") == "1"]
    point = re.search(POINT + r'="(\d+)"', line.rest)
    ahead = line.opcode.endswith("-start")
    if ahead:
        moved = max((_bytes(shape) for shape in _shapes(line.type)), default=0)  # one side of it is HBM
    else:
        moved = hbm_bytes(line.type) + sum(hbm_bytes(types.get(name, "")) for name in dict.fromkeys(line.operands))
    return Op(
        name=line.name,
        opcode=line.opcode,
        profile_cycles=int(profile) if profile else None,
        xla_cycles=int(estimate) if estimate else None,
        hbm_bytes=moved,
        calls=times,
        mosaic=line.opcode == "custom-call" and 'custom_call_target="tpu_custom_call"' in line.rest,
        point=int(point[1]) if point else None,
        vmem_bytes=max(scoped, default=None),
        on_chip=[_on_chip(types.get(name, "")) for name in line.operands] + [_on_chip(t) for t in _tuple(line.type)],
        ahead=ahead,
    )


def _tuple(text: str) -> list[str]:
    return ["".join(found) for found in re.findall(r"([a-z]+[a-z0-9]*\[[\d,]*\])(\{[^}]*\})?", text)]


def _on_chip(text: str) -> bool:
    return bool(re.search(r"S\(\d+\)", text))


def _shapes(text: str) -> list[tuple[str, str, str]]:
    return [(dtype, dims, layout or "") for dtype, dims, layout in _SHAPE.findall(text)]


def _bytes(shape: tuple[str, str, str]) -> int:
    dtype, dims, _ = shape
    digits = re.search(r"\d+", dtype)
    bits = _BITS.get(dtype, 8 if dtype.startswith("f8") else int(digits[0]) if digits else 32)
    n = 1
    for dim in dims.split(","):
        n *= int(dim) if dim else 1
    return n * bits // 8


def hbm_bytes(text: str) -> int:
    """Bytes of the arrays of an HLO type that are not placed in VMEM or another on-chip space."""
    return sum(_bytes(shape) for shape in _shapes(text) if not _on_chip(shape[2]))

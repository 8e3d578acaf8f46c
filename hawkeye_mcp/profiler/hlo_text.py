"""Optimised HLO as text, taken apart: computations, their instructions, and the arrays in a type."""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

_BITS = {"pred": 8, "bf16": 16, "token": 0, "opaque": 0}
_SHAPE = re.compile(r"([a-z]+[a-z0-9]*)\[([\d,]*)\](\{[^}]*\})?")
_OP = re.compile(
    r"^\s+(ROOT )?%(?P<name>\S+) = (?P<type>\(.*?\)|\S+) (?P<opcode>[a-z][a-z0-9-]*)\((?P<operands>.*?)\)(?P<rest>.*)$"
)


@dataclass(frozen=True)
class Array:
    """One array of a type; on_chip: XLA placed it in VMEM, SMEM or another space that is not HBM."""

    dtype: str
    dims: tuple[int, ...]
    on_chip: bool

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        digits = re.search(r"\d+", self.dtype)
        bits = _BITS.get(self.dtype, 8 if self.dtype.startswith("f8") else int(digits[0]) if digits else 32)
        return self.elements * bits // 8


@dataclass
class Line:
    """One instruction; inside: what stands between its parentheses, rest: what follows them."""

    name: str
    type: str
    opcode: str
    operands: list[str]
    inside: str
    rest: str
    root: bool
    config: dict[str, Any] = field(default_factory=dict)

    def computation(self, role: str) -> str:
        """The name of the computation that it calls as "calls", "body" or "condition"; empty without one."""
        found = re.search(rf"\b{role}=%?([\w.\-]+)", self.rest)
        return found[1] if found else ""


Computations = dict[str, list[Line]]


def parse(text: str) -> tuple[Computations, str]:
    """Every computation by name, instructions in the order of their definition, and the name of the entry."""
    computations: Computations = {}
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
            computations[current].append(
                Line(
                    found["name"],
                    found["type"],
                    found["opcode"],
                    operands,
                    found["operands"],
                    found["rest"],
                    bool(found[1]),
                    _json_prefix(config[1]) if config else {},
                )
            )
    return computations, entry


def _json_prefix(text: str) -> dict[str, Any]:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def arrays(text: str) -> list[Array]:
    """The arrays of an HLO type, those of a tuple in order."""
    return [
        Array(dtype, tuple(int(dim) for dim in dims.split(",") if dim), bool(re.search(r"S\(\d+\)", layout or "")))
        for dtype, dims, layout in _SHAPE.findall(text)
    ]


def root(lines: list[Line]) -> Line | None:
    """What a computation returns."""
    return next((line for line in lines if line.root), lines[-1] if lines else None)

"""Floating-point operations of the matrix products in an optimised HLO program, from its text.

XLA's TPU compiler writes every matrix product as a convolution: batch dimensions become spatial ones with a dilated
operand, whose holes do no work. So each spatial dimension counts the pairs of output and kernel position that meet an
element of the operand, and neither padding nor holes.
"""

import math
import re
from dataclasses import dataclass

from hawkeye_mcp.profiler.hlo_text import Computations, Line, arrays

_WINDOW = re.compile(r"window=\{([^}]*)\}")
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_MOST_TAPS = 1 << 20  # each is looked at; no array of a chip's memory has a dimension that is a window of more


@dataclass(frozen=True)
class Product:
    """One convolution or dot.

    flops: twice its multiplications. depth: elements that an output element sums over at one window position.
    width: features of the output.
    """

    flops: float
    depth: int
    width: int

    def padded_flops(self, side: int) -> float:
        """What a matrix unit of side x side does for it, where depth and width are filled up to whole sides."""
        return self.flops * math.prod(-(-n // side) * side / n for n in (self.depth, self.width))


def products(line: Line, types: dict[str, str], computations: Computations) -> list[Product]:
    """The matrix products of one operation, with those in the computations that it fuses.

    types: of the values of the computation in which the operation stands, by name.
    """
    if line.opcode == "convolution":
        return [_convolution(line, types)]
    if line.opcode == "dot":
        return [_dot(line, types)]
    if line.opcode != "fusion":
        return []
    inner = computations.get(line.computation("calls"), [])
    inner_types = {each.name: each.type for each in inner}
    return [product for each in inner for product in products(each, inner_types, computations)]


def _convolution(line: Line, types: dict[str, str]) -> Product:
    labels = _LABELS.search(line.rest)
    if not labels:
        raise ValueError(f"{line.name}: a convolution without dim_labels")
    left, kernel, result = labels.groups()
    lhs, rhs = (arrays(types[name])[0].dims for name in line.operands[:2])
    out = arrays(line.type)[0].dims
    found = _WINDOW.search(line.rest)
    window = dict(part.split("=") for part in found[1].split()) if found else {}
    depth = rhs[kernel.index("i")]  # of one group, where features come in groups
    width = out[result.index("f")]
    meetings = 1
    for at in range(sum(label.isdigit() for label in result)):
        meetings *= _meetings(
            result=out[result.index(str(at))],
            kernel=rhs[kernel.index(str(at))],
            operand=lhs[left.index(str(at))],
            stride=_entry(window, "stride", at, 1),
            before=int(window["pad"].split("x")[at].split("_")[0]) if "pad" in window else 0,
            spread=_entry(window, "lhs_dilate", at, 1),
            kernel_spread=_entry(window, "rhs_dilate", at, 1),
        )
    return Product(2.0 * out[result.index("b")] * width * depth * meetings, depth, width)


def _entry(window: dict[str, str], key: str, at: int, default: int) -> int:
    return int(window[key].split("x")[at]) if key in window else default


def _meetings(
    *, result: int, kernel: int, operand: int, stride: int, before: int, spread: int, kernel_spread: int
) -> int:
    """Pairs of an output and a kernel position along one dimension that meet an element of the operand."""
    if kernel > _MOST_TAPS:
        raise ValueError(f"a window of {kernel} positions")
    last = (operand - 1) * spread
    shared = math.gcd(stride, spread)
    period = spread // shared  # every so many outputs meet an element, the others a hole
    count = 0
    for tap in range(kernel):
        offset = tap * kernel_spread - before  # output o looks at position o * stride + offset
        first, end = max(0, -(offset // stride)), min(result - 1, (last - offset) // stride)
        if offset % shared or first > end:
            continue
        phase = (-offset // shared * pow(stride // shared, -1, period)) % period
        count += (end - phase) // period - (first - 1 - phase) // period
    return count


def _dot(line: Line, types: dict[str, str]) -> Product:
    lhs = arrays(types[line.operands[0]])[0].dims
    contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", line.rest)
    depth = math.prod(lhs[int(dim)] for dim in contracted[1].split(",") if dim) if contracted else 1
    out = arrays(line.type)[0]
    return Product(2.0 * out.elements * depth, depth, out.dims[-1] if out.dims else 1)

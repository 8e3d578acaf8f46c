"""Copies in a compiled program that change nothing but the place, which run at HBM's bandwidth.

XLA notes an estimate of cycles with them that is more than twice what they take (measured on v5e), while its estimate
of copies that also change the layout, whose elements go through registers, is about right (measured on 7x).
"""

import re

from hawkeye_mcp.profiler.hlo_text import parse


def plain_copies(text: str) -> set[str]:
    """Names of the copy instructions of optimised HLO whose result has the layout of what they copy."""
    computations, _ = parse(text)
    found = set()
    for lines in computations.values():
        types = {line.name: line.type for line in lines}
        for line in lines:
            if (
                line.opcode == "copy"
                and line.operands
                and _layout(line.type) == _layout(types.get(line.operands[0], ""))
            ):
                found.add(line.name)
    return found


def _layout(text: str) -> str:
    """An array type without the memory space: "bf16[8,128]{1,0:T(8,128)(2,1)}"."""
    return re.sub(r"S\(\d+\)", "", text)

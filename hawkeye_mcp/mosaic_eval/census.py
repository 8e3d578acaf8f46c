"""Whether the artifacts of one candidate do the same kinds of work, and enough of it at the full size.

What is verified is the artifact for the interpreter at the check size; what is timed is that for the TPU at the full one.
Both come from a process that ran the candidate's Python, so nothing but what stands in them tells that they belong
together. Kinds of arithmetic must be the same for both platforms; of what the kernels do at the check size nothing may be
gone at the full one; and with the matrix products that the workload needs they must reach the count of operations that no
correct kernel can do without. Workers only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hawkeye_mcp.artifact import Program, operations
from hawkeye_mcp.mosaic_eval.amounts import amounts
from hawkeye_mcp.mosaic_eval.kinds import PRODUCT, kinds
from hawkeye_mcp.profiler.mosaic import mosaic_calls

# A count of operations is a convention: what needs less than this share of it is too little by any.
ENOUGH = 0.9
# Work that grows by less than this share of the outputs' growth is told: tables, for one, may be made once.
_GROWS = 0.1


@dataclass(frozen=True)
class Census:
    """inside: items by kind that the kernels execute at most. around: kinds in the program around them."""

    inside: Mapping[str, float]
    around: frozenset[str]

    @property
    def kinds(self) -> set[str]:
        return {*self.inside, *self.around}


def census(program: Program) -> Census:
    """Of a program for the TPU; of one for the CPU, which has no kernels, everything is around."""
    inside: dict[str, float] = {}
    with program.context:
        around = frozenset(kind for op in operations(program.module.operation) for kind in kinds(op))
        for call in mosaic_calls(program):
            for kind, much in amounts(call).items():
                inside[kind] = inside.get(kind, 0.0) + much
    return Census(inside, around)


def apart(tpu: Census, cpu: Census) -> list[str]:
    """Kinds of work that one of the two artifacts of one size does and the other does not."""
    alone = {"for the TPU": tpu.kinds - cpu.kinds, "for the interpreter": cpu.kinds - tpu.kinds}
    return [f"{kind} {where} alone" for where, found in alone.items() for kind in sorted(found)]


def lost(check: Census, full: Census) -> list[str]:
    """Kinds of which the kernels do less at the full size than at the check size."""
    return sorted(
        kind
        for kind, much in check.inside.items()
        if full.inside.get(kind, 0.0) < much < math.inf and kind not in full.around
    )


def too_little(check: Census, full: Census, least_flops: float) -> float | None:
    """The share of the operations that no correct kernel can do without, if that is too small; of kernels with matrix
    products alone, since of other work a count is a convention.
    """
    if not check.inside.get(PRODUCT):
        return None
    done = sum(full.inside.values()) + full.inside.get(PRODUCT, 0.0)  # an addition for each of its multiplications
    return done / least_flops if done < ENOUGH * least_flops else None


def slow_growth(check: Census, full: Census, outputs: float) -> list[tuple[str, float]]:
    """Kinds that grow far less than the outputs, by how much. outputs: how often as large the smallest grows."""
    grown = {
        kind: full.inside.get(kind, 0.0) / much for kind, much in check.inside.items() if much and math.isfinite(much)
    }
    return [(kind, times) for kind, times in sorted(grown.items()) if 1 <= times < _GROWS * outputs]

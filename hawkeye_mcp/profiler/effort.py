"""Roughly how long one grid step of a kernel computes, and so how it can be sampled. Nothing is predicted from this."""

import math
from typing import Any

from jax._src.lib.mlir import ir

from hawkeye_mcp.profiler.long_loop import note_constant, turns_of_for
from hawkeye_mcp.profiler.mosaic import MosaicCall
from hawkeye_mcp.profiler.sampling import Pace

# A grid step that computes for this long hides the latency of its transfers, about 750 cycles on v5e.
BUSY_STEP_CYCLES = 4096
_REGISTER_ITEMS = 1024  # of 32 bits in a vector register
_ALUS = 2  # vector operations that a bundle issues, as a rule
_FUNCTION = 8  # vector operations that exp, tanh and the like come to
# Time that the profile of a kernel may take where it can be chosen, and what a step took on 2 cores of an Intel Xeon.
_BUDGET_MS, _STEP_MS, _CYCLE_MS = 1400.0, 1.0, 0.015
_LEAST_STEPS = 24  # two points of a single axis


def pace(call: MosaicCall, flops_per_cycle: float, bytes_per_cycle: float) -> tuple[Pace, int]:
    """How to sample a kernel, and how many steps points whole periods apart may take.

    flops_per_cycle, bytes_per_cycle: peaks of a core's MXUs and of its share of HBM.
    """
    matmul_cycles = work(call.main)[0] / flops_per_cycle
    largest = max((math.prod(w.block) * w.item_bits // 8 for w in call.windows if w.transform), default=0)
    # transfers reach some nine tenths of the peak
    if matmul_cycles >= max(BUSY_STEP_CYCLES, 1.25 * largest / bytes_per_cycle + 1000):
        return Pace.LONG, 0
    return Pace.SHORT, most_steps(call.main, flops_per_cycle)


def most_steps(step: Any, flops_per_cycle: float) -> int:
    """How many steps, or turns of a loop, can be walked for the sake of their waits. step: the operation around one."""
    matmuls, vectors = work(step)
    cycles = matmuls / flops_per_cycle + vectors / _ALUS
    return max(_LEAST_STEPS, int(_BUDGET_MS / (_STEP_MS + _CYCLE_MS * cycles)))


def work(parent: Any, constants: dict[Any, int] | None = None) -> tuple[float, float]:
    """Matmul FLOP and vector instructions below an operation, loops of known length unfolded, branches taken.

    constants: of values from around it.
    """
    flops = vectors = 0.0
    constants = {} if constants is None else constants
    for region in parent.regions:
        for block in region:
            for each in block:
                op = each.operation
                name = op.name.removeprefix("stable_mosaic.")
                note_constant(op, constants)
                inside = work(op, constants)
                turns = len(found) if (found := turns_of_for(op, constants)) else 1
                flops += turns * inside[0]
                vectors += turns * inside[1]
                if name == "tpu.matmul":
                    sides = (*list(op.operands)[:2], op.results[0])
                    lhs, rhs, out = (math.prod(ir.VectorType(side.type).shape) for side in sides)
                    flops += 2 * math.sqrt(lhs * rhs * out)  # (m k)(k n)(m n) = (m k n)^2
                elif name.startswith(("arith.", "math.", "vector.", "tpu.")):
                    items = max((_items(value.type) for value in (*op.operands, *op.results)), default=0)
                    vectors += items / _REGISTER_ITEMS * (_FUNCTION if name.startswith("math.") else 1)
    return flops, vectors


def _items(kind: ir.Type) -> int:
    return math.prod(ir.VectorType(kind).shape) if isinstance(kind, ir.VectorType) else 0

"""Which kinds of work the kernels of one artifact do and those of another lack.

A kernel may choose its path by the sizes that it sees: what is verified at the check size is then not what is timed at the
full one. A kind of work that is gone at the full size is a sign of that, no proof: branches for ragged edges go too, which
is why only arithmetic counts here, and work that is there may stand where it is never executed.
"""

from hawkeye_mcp.artifact import Program
from hawkeye_mcp.profiler.mosaic import body_operations, mosaic_calls

_WORK = {"tpu.matmul", "vector.multi_reduction", "tpu.reduce_index", "tpu.reciprocal", "arith.divf", "arith.mulf"}


def lost(check: Program, full: Program) -> list[str]:
    """Operations that do arithmetic in the kernels of the check size and are in no kernel of the full size."""
    return sorted(_work(check) - _work(full))


def _work(program: Program) -> set[str]:
    found: set[str] = set()
    with program.context:
        for call in mosaic_calls(program):
            found |= {name for name in body_operations(call) if name in _WORK or name.startswith("math.")}
    return found

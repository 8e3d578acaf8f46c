"""Kernels whose branches and blocks are decided by arrays in SMEM, planned by the values of these arrays.

The values tell which way each step goes through the branches. Each kind of step is profiled as a copy of the kernel in
which these branches are constant, and counts as often as it occurs.
"""

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np

from hawkeye_mcp.profiler import pipeline, sampling, variants
from hawkeye_mcp.profiler.mosaic import DataDependent, MosaicCall
from hawkeye_mcp.profiler.regularity import regularity

MOST_KINDS = 8  # each is compiled
MOST_STEPS = 500_000


class Kind(TypedDict):
    """branches: which of the operations of a kernel's body are branches that values decide. taken: whether they are."""

    branches: list[int]
    taken: list[bool]


def of_kind(call: MosaicCall, kind: Kind | None) -> MosaicCall:
    """The kernel as if all its steps were of one kind."""
    return variants.variant(call, kind["branches"], tuple(kind["taken"])) if kind else call


def plan(
    call: MosaicCall, known: Sequence[np.ndarray | None], plan_one: Callable[[MosaicCall], sampling.Plan]
) -> tuple[sampling.Plan, list[Kind | None]]:
    """Points, first those of the commonest kind of step, and the kind of each.

    plan_one: how a kernel is sampled whose steps are all of one kind.

    Raises:
        DataDependent: these values do not decide the kernel's blocks and branches.
    """
    if np.prod(call.grid, dtype=np.int64) > MOST_STEPS:
        raise DataDependent("the grid has too many steps to follow")
    pipeline.steps(call, known)
    try:
        numbers, counts = variants.branches(call, known)
    except ValueError as reason:
        raise DataDependent(f"{reason}") from reason
    if len(counts) > MOST_KINDS:
        raise DataDependent(f"its steps take {len(counts)} different ways through its branches")
    kinds: list[Kind | None] = [
        Kind(branches=numbers, taken=list(taken)) if numbers else None for taken, _ in counts.most_common()
    ]
    copies = [of_kind(call, kind) for kind in kinds]
    if any(regularity(copy).data_dependent for copy in copies):
        raise DataDependent("branches inside of others, or loops, depend on data")
    found = plan_one(copies[0])
    sizes = [int(np.prod(point)) for point in found.points]
    longest = sizes.index(max(sizes))
    points, weights = list(found.points), list(found.weights)
    # as if every step were of the commonest kind, then each other kind's difference per step
    for _, count in counts.most_common()[1:]:
        points.append(found.points[longest])
        weights.append(count / sizes[longest])
        weights[longest] -= count / sizes[longest]
    return sampling.Plan(tuple(points), tuple(weights)), [kinds[0]] * len(found.points) + kinds[1:]


def idle(call: MosaicCall, known: Sequence[np.ndarray | None]) -> tuple[int, int]:
    """Steps that take none of the branches that values decide, and the bytes of blocks that arrive for them alone.

    Raises:
        DataDependent, ValueError: these values do not decide the kernel's blocks and branches.
    """
    numbers, paths = variants.paths_of_steps(call, known)
    if not numbers:
        return 0, 0
    none = np.asarray(~paths.any(axis=1))
    return int(none.sum()), pipeline.unused_bytes(call, none, known)

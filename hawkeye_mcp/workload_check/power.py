"""How many of a workload's outputs carry the verdict."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.workloads import Tolerance


def power(oracle: Sequence[NDArray[Any]], another: Sequence[NDArray[Any]], tolerance: Tolerance) -> float:
    """Share of elements that a kernel cannot get right without computing; the least of several outputs.

    An element counts if the trivial prediction misses it by more than the gate times the scale that the metric divides
    by: for E the root mean square of oracle - prediction, for R that of the oracle's row (last axis). The prediction is
    the oracle's mean over `trivial_axis`, and for a scalar the answer to another draw.
    """
    return min(_power(ref, other, tolerance) for ref, other in zip(oracle, another, strict=True))


def trivial_axis(shape: tuple[int, ...], tolerance: Tolerance) -> int:
    """The tolerance's axis, or the first longer one where that has a single element, whose mean is the answer."""
    longer = [axis for axis, length in enumerate(shape) if length > 1]
    return tolerance.axis if tolerance.axis in longer or not longer else longer[0]


def _power(ref: NDArray[Any], other: NDArray[Any], tolerance: Tolerance) -> float:
    ref = ref.astype(np.float64)
    trivial = ref.mean(axis=trivial_axis(ref.shape, tolerance), keepdims=True) if ref.ndim else other.astype(np.float64)
    miss = np.abs(ref - trivial)
    if tolerance.metric == "E" and ref.ndim:
        scale = np.sqrt((miss**2).mean())
    else:
        scale = np.sqrt((ref**2).mean(axis=-1, keepdims=True)) if ref.ndim else np.abs(ref)
    return float((miss > tolerance.limit * scale).mean())

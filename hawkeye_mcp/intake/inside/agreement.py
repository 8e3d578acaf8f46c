"""Whether results agree, what rounding of their own they may be off by, and what that means for others.

A result differs where its NaN and infinities are not those of what it is held against, and where not (|difference| <=
allowed): NaN passes nowhere by comparing false.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hawkeye_mcp.intake.capture import RecommendedTolerance
from hawkeye_mcp.intake.inside.record import Array, epsilon, is_float, wide

FLOAT32_TOLERANCE = 1e-4
OWN_ROUNDINGS = 4  # how many times a program's own rounding another's may lie from it, as it rounds elsewhere
_NEGLIGIBLE = 0.1  # of the root mean square
RECOMMENDED_FACTOR, RECOMMENDED_LEAST, RECOMMENDED_MOST = 10.0, 1e-6, 0.5


@dataclass(frozen=True)
class Allowed:
    """|difference| <= atol + rtol |golden|."""

    atol: float
    rtol: float
    reason: str


@dataclass(frozen=True)
class Difference:
    """worst: index of the element that is furthest beyond what is allowed, or closest to it."""

    elements: int
    wrong: int
    worst_abs: float
    worst_rel: float
    worst: tuple[int, ...]
    here: float
    there: float
    what: str = ""

    @property
    def ok(self) -> bool:
        return not self.wrong and not self.what


def same_bits(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def scale(golden: Array) -> float:
    """Root mean square of the finite elements; 0 without any."""
    finite = wide(golden)[np.isfinite(wide(golden))]
    return float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0


def own_rounding(golden: Array, golden64: Array | None) -> float:
    """How far results of no more than the usual size lie from what float64 gives; 0 if that is not known."""
    if golden64 is None or not is_float(golden.dtype):
        return 0.0
    off, finite = _apart(golden, golden64)
    return float(off[finite & (np.abs(wide(golden64)) <= scale(golden64))].max(initial=0.0))


def _apart(one: Array, other: Array) -> tuple[Array, Array]:
    """(|difference| where both are finite and 0 elsewhere, where both are)."""
    one, other = wide(one), wide(other)
    finite = np.isfinite(one) & np.isfinite(other)
    return np.abs(np.subtract(one, other, out=np.zeros(one.shape), where=finite)), finite


def allowed(golden: Array, golden64: Array | None) -> Allowed:
    """How far another program's result may lie from this one: 1e-4 of it, or a few of its own roundings if that is more.

    The absolute part is relative to the size of the whole result, so that small results are not let off.
    """
    if not is_float(golden.dtype):
        return Allowed(0, 0, "nothing, as they are integers")
    size, own, spacing = scale(golden), own_rounding(golden, golden64), epsilon(golden.dtype)
    if spacing > FLOAT32_TOLERANCE:  # less than one spacing at the usual size, no two programs can promise
        own = max(own, spacing * size)
    rtol, atol = max(FLOAT32_TOLERANCE, 2 * spacing), max(FLOAT32_TOLERANCE * size, OWN_ROUNDINGS * own)
    why = f", {OWN_ROUNDINGS} times its own rounding" if OWN_ROUNDINGS * own > FLOAT32_TOLERANCE * size else ""
    return Allowed(atol, rtol, f"{atol:.2g} + {rtol:.2g} |result|{why}")


def compare(result: Array, golden: Array, within: Allowed) -> Difference:
    """Element by element."""
    if result.shape != golden.shape or result.dtype != golden.dtype:
        what = f"{result.dtype.name} {list(result.shape)} instead of {golden.dtype.name} {list(golden.shape)}"
        return Difference(golden.size, golden.size, float("inf"), float("inf"), (), 0.0, 0.0, what)
    if not golden.size:
        return Difference(0, 0, 0.0, 0.0, (), 0.0, 0.0)
    here, there = wide(result), wide(golden)
    off, finite = _apart(here, there)
    same = (here == there) | (np.isnan(here) & np.isnan(there))
    limit = within.atol + within.rtol * np.abs(np.where(finite, there, 0.0))
    bad = ~np.where(finite, off <= limit, same)
    beyond = np.where(finite, off - limit, np.where(same, -np.inf, np.inf))
    worst = np.unravel_index(int(np.argmax(beyond)), there.shape)
    telling = finite & (np.abs(there) > _NEGLIGIBLE * scale(golden))
    relative = np.zeros(there.shape)
    np.divide(off, np.abs(there), out=relative, where=telling & (there != 0))
    return Difference(
        there.size,
        int(bad.sum()),
        float(off.max()),
        float(relative.max()),
        tuple(int(i) for i in worst),
        float(here[worst]),
        float(there[worst]),
    )


def recommended(results: Sequence[tuple[Array, Array]]) -> RecommendedTolerance | None:
    """From (result, the same in float64), over all outputs and trials. None without any.

    atol is from elements up to the root mean square, rtol from those that are not negligible, less the worst thousandth.
    """
    pairs = [(own, wide(exact)) for own, exact in results if own.size]
    if not pairs:
        return None
    absolute = relative = 0.0
    for own, exact in pairs:
        off, finite = _apart(own, exact)
        size = np.abs(exact, where=finite, out=np.zeros(off.shape))
        absolute = max(absolute, own_rounding(own, exact))
        telling = finite & (size > _NEGLIGIBLE * scale(exact))
        if telling.any():
            relative = max(relative, float(np.percentile(off[telling] / size[telling], 99.9)))
    atol, rtol = (
        float(f"{min(max(RECOMMENDED_FACTOR * s, RECOMMENDED_LEAST), RECOMMENDED_MOST):.3g}")
        for s in (absolute, relative)
    )
    return RecommendedTolerance(
        atol=atol,
        rtol=rtol,
        reason=f"The program's results lie up to {absolute:.2g} (those of no more than the usual size) and {relative:.2g} "
        f"of themselves (the others, at 99.9 %) from what float64 gives; {RECOMMENDED_FACTOR:g} times that, "
        f"at least {RECOMMENDED_LEAST:g} and at most {RECOMMENDED_MOST:g}.",
    )

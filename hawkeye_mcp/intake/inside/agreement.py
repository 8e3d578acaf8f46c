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
OWN_ROUNDINGS = 3  # a program whose results lie within so many times their own distance from float64 agrees
_NEGLIGIBLE = 1e-3  # of the root mean square
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


def spread(golden: Array, golden64: Array | None) -> float:
    """Largest distance of a result from what float64 gives; 0 if that is not known."""
    if golden64 is None or not is_float(golden.dtype):
        return 0.0
    off, _ = _apart(golden, golden64)
    return float(off.max(initial=0.0))


def _apart(one: Array, other: Array) -> tuple[Array, Array]:
    """(|difference| where both are finite and 0 elsewhere, where both are)."""
    one, other = wide(one), wide(other)
    finite = np.isfinite(one) & np.isfinite(other)
    return np.abs(np.subtract(one, other, out=np.zeros(one.shape), where=finite)), finite


def allowed(golden: Array, golden64: Array | None) -> Allowed:
    """How far another program's result may lie from this one: 1e-4 of it, or what is its own rounding if that is more.

    The absolute part is relative to the size of the whole result, so that small results are not let off.
    """
    if not is_float(golden.dtype):
        return Allowed(0, 0, "integers agree exactly")
    size, own = scale(golden), spread(golden, golden64)
    rtol = max(FLOAT32_TOLERANCE, epsilon(golden.dtype))
    atol = max(FLOAT32_TOLERANCE * size, OWN_ROUNDINGS * own)
    reason = f"{atol:.2g} + {rtol:.2g} |result|"
    if golden64 is None and rtol > FLOAT32_TOLERANCE:
        atol = OWN_ROUNDINGS * rtol * size
        reason = (
            f"{atol:.2g} + {rtol:.2g} |result|, from the spacing of {golden.dtype.name} as float64 could not be tried"
        )
    elif OWN_ROUNDINGS * own > FLOAT32_TOLERANCE * size:
        reason += f", as its own rounding is up to {own:.2g} (against float64)"
    return Allowed(atol, rtol, reason)


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

    rtol looks at elements above 1e-6 of the result's size and leaves out the worst thousandth, which cancellation makes.
    """
    pairs = [(own, wide(exact)) for own, exact in results if own.size]
    if not pairs:
        return None
    absolute = relative = 0.0
    for own, exact in pairs:
        off, finite = _apart(own, exact)
        size = np.abs(exact)
        absolute = max(absolute, float(off.max(initial=0.0)))
        telling = finite & (size > 1e-6 * scale(exact)) & (size > 0)
        if telling.any():
            relative = max(relative, float(np.percentile(off[telling] / size[telling], 99.9)))
    atol, rtol = (
        float(f"{min(max(RECOMMENDED_FACTOR * s, RECOMMENDED_LEAST), RECOMMENDED_MOST):.3g}")
        for s in (absolute, relative)
    )
    return RecommendedTolerance(
        atol=atol,
        rtol=rtol,
        reason=f"The program's results lie up to {absolute:.2g} (relative: {relative:.2g} at 99.9 %) from the same in "
        f"float64; ten times that, and between {RECOMMENDED_LEAST:g} and {RECOMMENDED_MOST:g}.",
    )

"""The gate of an imported workload, from what right programs score. Imports no jax."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hawkeye_mcp.workloads import Tolerance

MARGIN = 3.0  # an honest kernel adds up in another order than XLA does
COARSE = 0.01  # the least limit where values are of 16 bits, or a matrix unit rounds the operands of products to that
FINE = 1e-4  # the least limit for float32 without products: what a TPU's exp or rsqrt may be off by is well below it
WIDEST = 0.2
ORACLE_SHARE = 0.1  # of the gate: how far the oracle may be from float64


def candidates(figures: Mapping[str, Any], narrow: bool, rtol: float, atol: float) -> list[Tolerance]:
    """Gates that right programs pass with a margin, in the order to be tried; none if rounding alone is too much.

    The wider ones come first, which leave kernels more freedom to round, and of these the more telling metric.
    figures: as `judge.imported.figures` gives them. narrow: an output or input has less than 32 bits.
    """
    least = COARSE if narrow or figures["products"] else FINE
    honest = figures["honest"]
    found = [*_of(honest, figures, least, rtol, atol), *_of(honest, figures, FINE, rtol, atol)]
    if not found:  # such as where a choice hangs on products: kernels must keep them in float32
        found = _of({name: honest[name] for name in list(honest)[:1]}, figures, FINE, rtol, atol)
    return [gate for number, gate in enumerate(found) if gate.gate not in [other.gate for other in found[:number]]]


def _of(
    honest: Mapping[str, Any], figures: Mapping[str, Any], least: float, rtol: float, atol: float
) -> list[Tolerance]:
    found = []
    for metric in ("E", "R"):
        scores = {name: errors[metric] for name, errors in honest.items()}
        if any(score is None for score in scores.values()):
            continue
        limit = rounded_up(max(least, MARGIN * max(scores.values())))
        if limit > WIDEST:
            continue
        told = ", ".join(f"{score:.2g} {name}" for name, score in scores.items())
        if len(honest) < len(figures["honest"]):
            told += ", and far more where float32 products are rounded to bfloat16, so a kernel must not round them"
        found.append(
            Tolerance(
                metric=metric,
                limit=limit,
                rtol=rtol,
                atol=atol,
                axis=max(figures["axis"], 0),
                reason=f"The program scores {told}; the limit is {MARGIN:g} times the worst of these, at least {least:g}.",
            )
        )
    return found


def rounded_up(value: float) -> float:
    """To the next of 1, 2, 5, 10, 20, ... times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    factor = next(factor for factor in (1, 2, 5, 10) if factor * power >= value * (1 - 1e-9))
    return float(f"{factor * power:.3g}")


def far(errors: Sequence[Mapping[str, float | None]], tolerance: Tolerance) -> float | None:
    """The worst of some errors in a gate's metric; None without any that is known."""
    known = [value for error in errors if (value := error[tolerance.metric]) is not None]
    return max(known) if known else None

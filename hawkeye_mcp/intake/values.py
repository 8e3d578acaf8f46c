"""Results held against recorded ones, element by element. Only numpy is needed here.

An element agrees if |difference| <= atol + rtol * |recorded|, counted as not (difference <= tolerance), so that no NaN can
pass for agreement. A NaN or an infinity agrees with the same alone. Integers and booleans must be equal. Shape and dtype
are part of the result.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

Array = NDArray[Any]


class OutputAgreement(BaseModel):
    """One output, over all trials. Figures are null where the arrays cannot be compared element by element.

    worst_index: of the element that is furthest beyond its tolerance, or nearest to it, in trial `worst_trial`.
    """

    model_config = ConfigDict(extra="forbid")

    index: int
    ok: bool
    shape: list[int] | None = Field(None, description="null: the output is missing")
    dtype: str | None = None
    expected_shape: list[int]
    expected_dtype: str
    elements: int = Field(0, description="Compared, over all trials.")
    failing: int = Field(0, description="Of these, beyond the tolerance, or NaN or infinite where the other is not.")
    nonfinite: int = Field(0, description="Of the failing, NaN or infinite on one side.")
    max_abs_error: float | None = Field(None, description="Over elements that are finite on both sides.")
    worst_trial: int | None = None
    worst_index: list[int] | None = None
    expected: str | None = Field(None, description="The recorded value there.")
    actual: str | None = None
    constant: bool = Field(False, description="Every element of it is the same, in every trial.")


def agreement(
    actual: Sequence[Sequence[Array]], recorded: Sequence[Sequence[Array]], atol: float, rtol: float
) -> list[OutputAgreement]:
    """Every output, over trials: both are [trial][output]."""
    count = max([len(outputs) for outputs in (*actual, *recorded)], default=0)
    return [
        _output(
            index,
            [_at(outputs, index) for outputs in actual],
            [_at(outputs, index) for outputs in recorded],
            atol,
            rtol,
        )
        for index in range(count)
    ]


def _at(outputs: Sequence[Array], index: int) -> Array | None:
    return outputs[index] if index < len(outputs) else None


def _output(
    index: int, actual: Sequence[Array | None], recorded: Sequence[Array | None], atol: float, rtol: float
) -> OutputAgreement:
    want, got = next((a for a in recorded if a is not None), None), next((a for a in actual if a is not None), None)
    found = OutputAgreement(
        index=index,
        ok=True,
        shape=None if got is None else list(got.shape),
        dtype=None if got is None else got.dtype.name,
        expected_shape=[] if want is None else list(want.shape),
        expected_dtype="none: there is no such output" if want is None else want.dtype.name,
    )
    if want is None or got is None or got.shape != want.shape:
        return found.model_copy(update={"ok": False})
    worst = -math.inf
    firsts: set[bytes | None] = set()
    for trial, (have, should) in enumerate(zip(actual, recorded, strict=True)):
        assert have is not None and should is not None
        excess, failing, nonfinite, largest = _excess(have, should, atol, rtol)
        found.elements += excess.size
        found.failing += failing
        found.nonfinite += nonfinite
        if largest is not None:
            found.max_abs_error = max(found.max_abs_error or 0.0, largest)
        if excess.size and float(excess.max()) > worst:
            worst = float(excess.max())
            at = np.unravel_index(int(excess.argmax()), have.shape)
            found.worst_trial, found.worst_index = trial, [int(i) for i in at]
            found.expected, found.actual = str(should[at]), str(have[at])
        firsts.add(have.reshape(-1)[0].tobytes() if _constant(have) else None)
    found.constant = len(firsts) == 1 and None not in firsts
    found.ok = not found.failing and got.dtype == want.dtype
    return found


def _excess(have: Array, should: Array, atol: float, rtol: float) -> tuple[Array, int, int, float | None]:
    """How far each element is beyond its tolerance (infinite where one side alone is finite), how many are, how many of
    these for not being finite, and the largest difference of finite ones."""
    a, b = have.astype(np.float64), should.astype(np.float64)
    exact = should.dtype.kind in "iub" or have.dtype.kind in "iub"
    tolerance = np.zeros_like(b) if exact else atol + rtol * np.abs(b)
    both = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        difference = np.abs(a - b)
        bad = ~np.where(both, difference <= tolerance, same)
        excess = np.where(both, difference - tolerance, np.where(same, -np.inf, np.inf))
    largest = float(difference[both].max()) if both.any() else None
    return excess, int(bad.sum()), int((bad & ~both).sum()), largest


def _constant(array: Array) -> bool:
    flat = array.reshape(-1)
    return flat.size > 1 and bool((flat == flat[0]).all())


def problem(output: OutputAgreement, atol: float, rtol: float) -> str:
    """What is wrong with an output in words; empty if nothing is."""
    if output.ok:
        return ""
    name = f"Output {output.index}"
    if output.shape is None:
        return f"{name} is missing: it must be {output.expected_dtype}{output.expected_shape}."
    if output.expected_dtype.startswith("none"):
        return f"{name} ({output.dtype}{output.shape}) is one too many: the program returns fewer."
    if output.shape != output.expected_shape:
        return f"{name} has shape {output.shape} and must have {output.expected_shape}."
    said = []
    if output.dtype != output.expected_dtype:
        said.append(
            f"{name} has dtype {output.dtype} and must have {output.expected_dtype}: cast it before returning it."
        )
    if output.failing:
        nonfinite = f", {output.nonfinite} of them NaN or infinite on one side alone" if output.nonfinite else ""
        limit = (
            "integers and booleans must be equal"
            if output.expected_dtype.startswith(("int", "uint", "bool"))
            else f"|difference| may be {atol:g} + {rtol:g} * |recorded|"
        )
        said.append(
            f"{name}: {output.failing} of {output.elements} elements are wrong{nonfinite} ({limit}). Worst, trial"
            f" {output.worst_trial}, index {output.worst_index}: recorded {output.expected}, got {output.actual}."
        )
        if output.constant:
            said.append("Every element of it is the same: it does not depend on the arguments.")
    return " ".join(said)

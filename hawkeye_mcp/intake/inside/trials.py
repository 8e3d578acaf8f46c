"""Results of several seeds: whether they are any good, and what they say of a program and of tolerances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hawkeye_mcp.intake.capture import CaptureFailed, EagerCheck, RecommendedTolerance
from hawkeye_mcp.intake.inside import agreement
from hawkeye_mcp.intake.inside.program import Traced
from hawkeye_mcp.intake.inside.record import Array, Record, is_float, wide


@dataclass(frozen=True)
class Trial:
    """Arguments and results of one seed. out64: None where forward does not run in float64."""

    values: dict[str, Array]
    out: list[Array]
    out64: list[Array] | None


def deterministic(one: Sequence[Array], other: Sequence[Array], guess: str) -> None:
    """Raises CaptureFailed: non_deterministic, unless two runs gave the same bits."""
    for place, (first, second) in enumerate(zip(one, other, strict=True)):
        if not agreement.same_bits(first, second):
            apart = agreement.compare(second, first, agreement.Allowed(0, 0, ""))
            raise CaptureFailed(
                "non_deterministic",
                f"Two runs on the same arguments differ: output {place} in {apart.wrong} of {apart.elements} elements, "
                f"by up to {apart.worst_abs:.3g}.",
                f"Make it a function of its arguments alone. {guess}",
            )


def worthless(trials: Sequence[Trial], notes: list[str]) -> None:
    """Raises CaptureFailed: source_fails, for an output that nothing can be told from; notes NaN elsewhere."""
    for place in range(len(trials[0].out)):
        if not is_float(trials[0].out[place].dtype) or not trials[0].out[place].size:
            continue
        finite = [float(np.isfinite(wide(trial.out[place])).mean()) for trial in trials]
        if min(finite) == 0:
            raise CaptureFailed(
                "source_fails",
                f"Output {place} is NaN or infinite in every element: nothing can be held against it.",
                "Give inputs on which the program has finite results.",
            )
        if min(finite) < 1:
            notes.append(f"Output {place} is NaN or infinite in {1 - min(finite):.2%} of its elements.")


def compared(traced: Traced, trials: Sequence[Trial], names: Sequence[str]) -> EagerCheck:
    """The program on the arguments of every trial, held against what eager PyTorch gave."""
    checked, worst_abs, worst_rel, reasons = 0, 0.0, 0.0, list[str]()
    for number, trial in enumerate(trials):
        results = traced.run([trial.values[name] for name in names])
        if len(results) != len(trial.out):
            return EagerCheck(checked=0, ok=False, worst_abs=0, worst_rel=0, tolerance="it returns other outputs.")
        exact: Sequence[Array | None] = trial.out64 or [None] * len(trial.out)
        for place, (result, golden, golden64) in enumerate(zip(results, trial.out, exact, strict=True)):
            within = agreement.allowed(golden, golden64)
            found = agreement.compare(result, golden, within)
            checked += found.elements
            worst_abs, worst_rel = max(worst_abs, found.worst_abs), max(worst_rel, found.worst_rel)
            if not found.ok:
                told = found.what or (
                    f"{found.wrong} of {found.elements} elements differ from eager PyTorch by more than "
                    f"{within.reason}; worst at {list(found.worst)}: {found.here:.6g} instead of {found.there:.6g}"
                )
                return EagerCheck(
                    checked=checked, ok=False, worst_abs=worst_abs, worst_rel=worst_rel,
                    tolerance=f"output {place} of trial {number}: {told}.",
                )  # fmt: skip
            reasons.append(f"output {place}: {within.reason}")
    kept = list(dict.fromkeys(reasons[-len(trials[0].out) :]))
    return EagerCheck(checked=checked, ok=True, worst_abs=worst_abs, worst_rel=worst_rel, tolerance="; ".join(kept))


def recorded(trials: Sequence[Trial], names: Sequence[str], record: Record) -> None:
    """Raises CaptureFailed: too_big."""
    for number, trial in enumerate(trials):
        for name in names:
            record.add(f"check/{number}/in/{name}", trial.values[name])
        for place, out in enumerate(trial.out):
            record.add(f"check/{number}/out/{place}", out)
            if trial.out64 and is_float(out.dtype):
                record.add(f"check/{number}/out64/{place}", trial.out64[place])


def tolerance(trials: Sequence[Trial]) -> RecommendedTolerance | None:
    """Advice from the float64 results; None without any."""
    return agreement.recommended(
        [
            (own, exact)
            for trial in trials
            for own, exact in zip(trial.out, trial.out64 or (), strict=False)
            if is_float(own.dtype)
        ]
    )

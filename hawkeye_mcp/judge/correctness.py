"""Outputs against the oracle, with errors that do not depend on the outputs' scale.

An elementwise tolerance lets an all-zeros or constant output pass where the true values are small or nearly
equal, and fails a candidate that is more accurate than a rounded reference; E and R do neither.
Only numpy is needed here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.evaluation import OutputError
from hawkeye_mcp.workloads import Tolerance

# Float64 copies are made of this many elements at a time: outputs at full size reach gigabytes.
_BLOCK_ELEMENTS = 1 << 22

# E is of a whole output, in which one wrong row or column of thousands would drown: none may be worse than this many
# times the limit. `hawkeye workloads check` runs every workload's own XLA program against it.
_LINE_FACTOR = 5

# The figures of an output that cannot be compared.
_UNKNOWN: dict[str, Any] = {
    "error_e": None,
    "error_r": None,
    "max_abs_error": None,
    "max_rel_error": None,
    "failing_fraction": None,
    "nonfinite": 0,
}

_MISSING_WORK = (
    "This is more than rounding: check the accumulation over the contraction's blocks, the index maps, "
    "the masks of partial blocks and that every output block is written."
)
_ROUNDING = "This looks like rounding: accumulate in float32 and cast once, when the output is stored."


def compare(
    actual: Sequence[NDArray[np.generic]],
    expected: Sequence[NDArray[np.generic]],
    declared: Sequence[tuple[tuple[int, ...], str]],
    tolerance: Tolerance,
) -> tuple[list[OutputError], str | None]:
    """Errors of each output, and what is wrong in words (None: it passes).

    Args:
        actual: the candidate's outputs as they came, any dtype.
        expected: the oracle's outputs, float32 or float64, of the declared shapes.
        declared: (shape, dtype) of each output.
        tolerance: the gate (E or R and its limit), and the rtol and atol reported beside it.
    """
    if len(actual) != len(declared):
        return [], (
            f"The workload returned {len(actual)} output(s) and must return {len(declared)}: "
            f"{', '.join(f'{dtype}{list(shape)}' for shape, dtype in declared)}."
        )
    errors: list[OutputError] = []
    problems: list[str] = []
    for index, (out, ref, (shape, dtype)) in enumerate(zip(actual, expected, declared, strict=True)):
        out, ref = np.asarray(out), np.asarray(ref)
        if out.shape != shape:
            errors.append(OutputError(index=index, shape=list(out.shape), dtype=str(out.dtype), **_UNKNOWN))
            problems.append(f"Output {index} has shape {list(out.shape)} and must have {list(shape)}.")
            continue
        error, problem = _compare_one(index, out, ref, tolerance)
        if str(out.dtype) != dtype:
            problem = f"Output {index} has dtype {out.dtype} and must have {dtype}: cast it before returning it."
        errors.append(error)
        if problem:
            problems.append(problem)
    return errors, " ".join(problems) or None


def merge(runs: Sequence[Sequence[OutputError]]) -> list[OutputError]:
    """The worst of several seeds, output by output: the largest of every figure.

    The element named is that of the seed with the most non-finite elements, then the largest absolute error.
    """
    return [_worst(same_output) for same_output in zip(*runs, strict=True)]


def _worst(errors: Sequence[OutputError]) -> OutputError:
    def largest(values: Sequence[float | None]) -> float | None:
        return None if None in values else max(v for v in values if v is not None)

    def badness(error: OutputError) -> tuple[int, float]:
        return error.nonfinite, math.inf if error.max_abs_error is None else error.max_abs_error

    return max(errors, key=badness).model_copy(
        update={name: largest([getattr(error, name) for error in errors]) for name in _UNKNOWN}
    )


@dataclass
class _Scan:
    """What one pass over the rows of an output finds. Positions are (row, column)."""

    squared_error: float = 0.0
    error_r: float = 0.0
    max_abs: float = 0.0
    max_rel: float | None = None
    failing: int = 0
    nonfinite: int = 0
    mismatched: int = 0
    first_mismatch: tuple[int, int] = (0, 0)
    largest: tuple[int, int] = (0, 0)
    largest_in_worst_row: tuple[int, int] = (0, 0)

    def add(self, a: NDArray[np.float64], b: NDArray[np.float64], first_row: int, tolerance: Tolerance) -> None:
        """Takes in the rows a of the output and b of the oracle, starting at first_row."""
        a_finite, b_finite = np.isfinite(a), np.isfinite(b)
        both = a_finite & b_finite
        # The same NaN or the same infinity as the oracle's is right, and counts as no error.
        wrong = ~both & ~((a == b) | (np.isnan(a) & np.isnan(b)))
        if wrong.any() and not self.mismatched:
            self.first_mismatch = _position(int(wrong.argmax()), first_row, a.shape[1])
        self.mismatched += int(wrong.sum())
        self.nonfinite += int((~a_finite & b_finite).sum())
        a, b = np.where(both, a, 0.0), np.where(both, b, 0.0)

        error, magnitude = np.abs(a - b), np.abs(b)
        self.failing += int(((error > tolerance.rtol * magnitude + tolerance.atol) | wrong).sum())
        if (magnitude > 0).any():
            relative = float((error[magnitude > 0] / magnitude[magnitude > 0]).max())
            self.max_rel = relative if self.max_rel is None else max(self.max_rel, relative)
        if error.max() > self.max_abs:
            self.max_abs = float(error.max())
            self.largest = _position(int(error.argmax()), first_row, a.shape[1])
        row_error = np.linalg.norm(error, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # infinite where the oracle's row is zero
            by_row = np.where(row_error == 0, 0.0, row_error / np.linalg.norm(magnitude, axis=1))
        row = int(by_row.argmax())
        if by_row[row] > self.error_r:
            self.error_r = float(by_row[row])
            self.largest_in_worst_row = (first_row + row, int(error[row].argmax()))
        self.squared_error += float((error**2).sum())


def _compare_one(
    index: int, out: NDArray[np.generic], ref: NDArray[np.generic], tolerance: Tolerance
) -> tuple[OutputError, str | None]:
    """Errors of one output of the right shape, and what is wrong; a scalar is one row of one element."""
    width = out.shape[-1] if out.ndim else 1
    out_rows, ref_rows = out.reshape(-1, width), ref.reshape(-1, width)
    scan = _Scan()
    for rows in _blocks(*out_rows.shape):
        scan.add(out_rows[rows].astype(np.float64), ref_rows[rows].astype(np.float64), rows.start, tolerance)
    if scan.mismatched:
        at = scan.first_mismatch
    else:
        at = scan.largest_in_worst_row if tolerance.metric == "R" else scan.largest
    finite = not scan.mismatched
    error = OutputError(
        index=index,
        shape=list(out.shape),
        dtype=str(out.dtype),
        error_e=_finite(_ratio(math.sqrt(scan.squared_error), _spread(ref, tolerance.axis))) if finite else None,
        error_r=_finite(scan.error_r) if finite else None,
        max_abs_error=scan.max_abs if finite else None,
        max_rel_error=scan.max_rel if finite else None,
        failing_fraction=scan.failing / out.size,
        nonfinite=scan.nonfinite,
        worst_index=[int(i) for i in np.unravel_index(at[0] * width + at[1], out.shape)],
        expected=_finite(float(ref_rows[at])),
        actual=_finite(float(out_rows[at])),
    )
    problem = _problem(error, out, float(ref_rows[at]), float(out_rows[at]), scan.mismatched, tolerance)
    if not problem and tolerance.metric == "E":
        problem = _line_problem(error, worst_lines(out, ref, tolerance.axis), tolerance)
    return error, problem


def _problem(
    error: OutputError,
    out: NDArray[np.generic],
    want: float,
    got: float,
    mismatched: int,
    tolerance: Tolerance,
) -> str | None:
    """What is wrong with one output and what to do about it; want and got are its worst element."""
    if mismatched:
        return (
            f"Output {error.index} is {_number(got)} at {error.worst_index} where {_number(want)} is "
            f"expected ({mismatched} such elements of {out.size}): look for uninitialised scratch, a block "
            "that is never written, exp of a large number, or a division by zero."
        )
    decisive = error.error_e if tolerance.metric == "E" else error.error_r
    if decisive is not None and decisive <= tolerance.limit:
        return None
    shown = "not finite" if decisive is None else _number(decisive)
    measured = f"{tolerance.metric} is {shown}, limit {_number(tolerance.limit)}"
    element = f"Worst element {error.worst_index}: expected {_number(want)}, got {_number(got)}."
    first = out.reshape(-1)[0]
    if out.size > 1 and bool((out == first).all()):
        what = "all zeros" if first == 0 else f"constant, every element is {_number(float(first))}"
        return f"Output {error.index} is {what}: it does not depend on the inputs. {measured}. {element}"
    near = decisive is not None and decisive <= 5 * tolerance.limit
    return f"Output {error.index}: {measured}. {element} {_ROUNDING if near else _MISSING_WORK}"


def worst_lines(out: NDArray[np.generic], ref: NDArray[np.generic], axis: int) -> list[tuple[int, int, float]]:
    """(axis, index, error) of the worst line across the first axis and across the last, of those longer than 1.

    A line is all that shares one index: a row or a column of a matrix. Its error is the norm of its differences over
    that of its own ref - mean of ref over `axis`, or of an average line's if that is more: lines that are small anyway
    hang on roundings of what they cancel from.
    """
    longer = [number for number, length in enumerate(out.shape) if length > 1]
    if len(longer) < 2:  # each line is one element
        return []
    values: NDArray[Any] = ref
    mean = np.mean(values, axis=axis, keepdims=True, dtype=np.float64, where=np.isfinite(values))
    outs, refs, means = out.squeeze(), ref.squeeze(), np.broadcast_to(mean, ref.shape).squeeze()
    first, last = outs.shape[0], outs.shape[-1]
    wrong, right = (np.zeros(first), np.zeros(last)), (np.zeros(first), np.zeros(last))
    for rows in _blocks(first, out.size // first):
        expected = _finite_part(refs[rows])
        for totals, squares in ((wrong, _finite_part(outs[rows]) - expected), (right, expected - means[rows])):
            squares **= 2
            totals[0][rows] = squares.reshape(len(squares), -1).sum(axis=1)
            totals[1][:] += squares.reshape(-1, last).sum(axis=0)
    found = []
    for number, errors, spreads in zip((longer[0], longer[-1]), wrong, right, strict=True):
        scale = np.maximum(spreads, spreads.mean())
        ratio = np.sqrt(np.divide(errors, scale, out=np.zeros_like(errors), where=scale > 0))
        found.append((number, int(ratio.argmax()), float(ratio.max())))
    return found


def _line_problem(error: OutputError, lines: list[tuple[int, int, float]], tolerance: Tolerance) -> str | None:
    for axis, index, value in lines:
        if value > _LINE_FACTOR * tolerance.limit:
            return (
                f"Output {error.index}: index {index} along axis {axis} differs by {_number(value)} of its spread, "
                f"limit {_number(_LINE_FACTOR * tolerance.limit)}. {_MISSING_WORK}"
            )
    return None


def _blocks(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _BLOCK_ELEMENTS // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _position(flat: int, first_row: int, width: int) -> tuple[int, int]:
    return first_row + flat // width, flat % width


def _spread(ref: NDArray[np.generic], axis: int) -> float:
    """norm(ref - mean of ref over axis), over the elements where ref is finite; 0 for a scalar."""
    columns = np.moveaxis(ref, axis, 0).reshape(ref.shape[axis], -1) if ref.ndim else ref.reshape(1, 1)
    total = np.zeros(columns.shape[1])
    for rows in _blocks(*columns.shape):
        total += _finite_part(columns[rows]).sum(axis=0)
    mean = total / max(1, len(columns))
    squared = 0.0
    for rows in _blocks(*columns.shape):
        squared += float(((_finite_part(columns[rows]) - mean) ** 2).sum())
    return math.sqrt(squared)


def _finite_part(block: NDArray[np.generic]) -> NDArray[np.float64]:
    wide = block.astype(np.float64)
    return np.where(np.isfinite(wide), wide, 0.0)


def _ratio(numerator: float, denominator: float) -> float:
    if denominator == 0:
        return 0.0 if numerator == 0 else math.inf
    return float(numerator / denominator)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float) -> str:
    return f"{value:.6g}"

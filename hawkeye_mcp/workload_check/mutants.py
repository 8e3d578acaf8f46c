"""Wrong programs, generated from a workload's own: from its outputs, its inputs and its operations.

Faults are put into the workload's program in float32. A kernel with the same fault in bfloat16 has its rounding on top,
so that a gate that catches the one catches the other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.workload_check.power import trivial_axis
from hawkeye_mcp.workload_check.program import Program, Step, Values, bind
from hawkeye_mcp.workloads import Tolerance

Outputs = list[NDArray[Any]]

# Operations that take each element by itself: leaving one out keeps an operand in its place.
_ELEMENTWISE = set(
    "abs add and atan2 ceil clamp cos div erf exp exp2 expm1 floor integer_pow log log1p logistic max min mul neg not or "
    "pow rem round rsqrt select_n sign sin sqrt square sub tan tanh xor".split()
)
_OTHER_COMPARISON = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
# What a reduction must be given where nothing is to be counted.
_NEUTRAL: dict[str, float] = {"reduce_sum": 0, "reduce_max": -np.inf, "reduce_min": np.inf, "reduce_prod": 1}
_ALONG_AN_AXIS = {"cumsum", "cummax", "cummin", "cumprod", "cumlogsumexp"}
SPLIT = ("dot_general", "ragged_dot_general")
_SHARE = 16  # a sixteenth is left out


@dataclass(frozen=True)
class Mutant:
    """A wrong program. run() gives its outputs, which may still be in float32; None: it changes nothing here.

    line: of the operation in workload.py, 0 if there is none.
    """

    name: str
    run: Callable[[], Outputs | None]
    line: int = 0


def of_outputs(
    inputs: Mapping[str, NDArray[Any]], honest: Outputs, oracle: Outputs, another: Outputs, tolerance: Tolerance
) -> Iterator[Mutant]:
    """What needs no program: `honest` and `oracle` are right for these inputs, `another` for those of another seed."""
    scalar = all(out.ndim == 0 for out in honest)
    yield Mutant("zeros", lambda: [np.zeros_like(out) for out in honest])
    if not scalar:  # the mean of a scalar is right
        yield Mutant(
            "constant", lambda: [np.full_like(out, ref.mean()) for out, ref in zip(honest, oracle, strict=True)]
        )
        axes = [trivial_axis(ref.shape, tolerance) for ref in oracle]
        yield Mutant(
            f"mean over axis {axes[0]}",
            lambda: [
                np.broadcast_to(ref.mean(axis=axis, keepdims=True), ref.shape).astype(out.dtype)
                for out, ref, axis in zip(honest, oracle, axes, strict=True)
            ],
        )
    yield Mutant("another draw's answer", lambda: another)
    for position, out in enumerate(honest):
        where = f" of output {position}" if len(honest) > 1 else ""
        for name, array in inputs.items():
            if not np.issubdtype(array.dtype, np.integer) and (copied := _fitted(array, out.shape)) is not None:
                yield Mutant(f"copy of {name}{where}", _replacing(honest, position, copied.astype(out.dtype)))
        if out.ndim:
            yield Mutant(f"one block left out{where}", _replacing(honest, position, _block_left_out(out)))
            for name, along in (("row", 0), ("column", out.ndim - 1)):
                lines = np.moveaxis(out.copy(), along, 0)
                if len(lines) > 1:
                    lines[-1] = np.moveaxis(another[position], along, 0)[-1]
                    stale = np.moveaxis(lines, 0, along)
                    yield Mutant(f"last {name} stale{where}", _replacing(honest, position, stale))


def _replacing(outputs: Outputs, position: int, value: NDArray[Any]) -> Callable[[], Outputs]:
    return lambda: [*outputs[:position], value, *outputs[position + 1 :]]


def _fitted(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """The array cut to a shape of the same rank, in its order of axes or transposed; None if it is too small."""
    for candidate in (array, array.T):
        if candidate.ndim == len(shape) and all(
            have >= want for have, want in zip(candidate.shape, shape, strict=True)
        ):
            return candidate[tuple(slice(want) for want in shape)]
    return None


def _block_left_out(out: NDArray[Any]) -> NDArray[Any]:
    """The last block zero: at most 128 along each of the last two axes, of the last index of the others."""
    cut = out.copy()
    blocks = [slice(-1, None)] * max(0, out.ndim - 2) + [slice(-min(128, n), None) for n in out.shape[-2:]]
    cut[tuple(blocks)] = 0
    return cut


def of_inputs(
    program: Program, values: Values, names: Sequence[str], inputs: Sequence[Any], others: Sequence[Any]
) -> Iterator[Mutant]:
    """Integer inputs taken from another draw, or off by one where that is a legal value."""
    for number, name, array, other in zip(program.inputs, names, inputs, others, strict=True):
        given = np.asarray(array)
        if not np.issubdtype(given.dtype, np.integer):
            continue
        changes = {
            f"{name} of another draw": np.asarray(other),
            f"{name} one less": np.maximum(given - 1, 0),
            f"{name} one more": np.minimum(given + 1, given.max()),
        }
        for what, changed in changes.items():
            if not (changed == given).all():
                yield Mutant(what, _again(program, values, {number: partial(_itself, changed)}))


def of_program(program: Program, values: Values) -> Iterator[Mutant]:
    """Each operation wrong in every way that is known here; ways that change none of its values here come too."""
    seen: dict[str, int] = {}
    for step in program.steps:
        seen[step.primitive] = seen.get(step.primitive, 0) + 1
        for what, change in _changes(step, values):
            name = f"{step.primitive} {seen[step.primitive]}: {what}"
            yield Mutant(name, _again(program, values, {step.outputs[0]: change}), step.line)


def _again(program: Program, values: Values, changes: dict[int, Callable[[], Any]]) -> Callable[[], Outputs | None]:
    def run() -> Outputs | None:
        replaced = {number: change() for number, change in changes.items()}
        if all(_same(values[number], value) for number, value in replaced.items()):
            return None
        return [np.asarray(out) for out in program.again(values, replaced)]

    return run


def _same(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=jnp.issubdtype(a.dtype, jnp.inexact))


Change = tuple[str, Callable[[], Any]]


def _changes(step: Step, values: Values) -> Iterator[Change]:
    if len(step.outputs) != 1:
        return
    operands = [values[i] for i in step.inputs]
    out = values[step.outputs[0]]
    name = step.primitive
    if name in _ELEMENTWISE:
        yield from _kept_operands(name, operands, out)
    if name in _OTHER_COMPARISON:
        other = getattr(jax.lax, f"{_OTHER_COMPARISON[name]}_p")
        yield f"{_OTHER_COMPARISON[name]} instead", lambda: other.bind(*operands)
    if name.startswith(("reduce_", "arg")) and "axes" in step.equation.params:
        yield from _reductions(step, operands[0], out)
    if name in _ALONG_AN_AXIS:
        for axis in range(operands[0].ndim):
            if axis != step.equation.params["axis"]:
                yield f"along axis {axis}", _changed(step, operands, axis=axis)
    if name in ("dot_general", "ragged_dot_general", "conv_general_dilated"):
        yield from _contractions(step, operands, out)


def _kept_operands(name: str, operands: Sequence[Any], out: Any) -> Iterator[Change]:
    for index, operand in enumerate(operands):
        if (name, index) in (("select_n", 0), ("clamp", 0), ("clamp", 2)):  # which case, and the bounds
            continue
        if operand.shape == out.shape and operand.dtype == out.dtype:
            what = "left out" if len(operands) == 1 or name == "clamp" else f"operand {index} alone"
            yield what, partial(_itself, operand)


def _reductions(step: Step, operand: Any, out: Any) -> Iterator[Change]:
    axes = step.equation.params["axes"]
    for axis in axes:
        for other in range(operand.ndim):
            if other not in axes and operand.shape[other] == operand.shape[axis] > 1:
                instead = tuple(sorted(other if a == axis else a for a in axes))
                if np.delete(operand.shape, instead).tolist() == list(out.shape):
                    yield f"over axis {other} for {axis}", _changed(step, [operand], axes=instead)
        if step.primitive in _NEUTRAL and operand.shape[axis] > 1 and jnp.issubdtype(operand.dtype, jnp.inexact):
            dropped = partial(_without_end, step, [operand], 0, axis, _NEUTRAL[step.primitive])
            yield f"last sixteenth of axis {axis} dropped", dropped


def _itself(value: Any) -> Any:
    return value


def _changed(step: Step, operands: Sequence[Any], **params: Any) -> Callable[[], Any]:
    return lambda: bind(step.equation, operands, **params)[0]


def _without_end(step: Step, operands: Sequence[Any], operand: int, axis: int, neutral: float) -> Any:
    """What the step gives if the last sixteenth of an operand along an axis counts for nothing."""
    cut = np.array(operands[operand])
    lines = np.moveaxis(cut, axis, 0)
    lines[len(lines) - max(1, len(lines) // _SHARE) :] = neutral
    return step.run([*operands[:operand], cut, *operands[operand + 1 :]])[0]


def contracted(step: Step) -> list[tuple[int, int]]:
    """(operand, axis) of each axis that a product sums over, named on one of its two operands."""
    params = step.equation.params
    if step.primitive == "dot_general":
        return [(0, axis) for axis in params["dimension_numbers"][0][0]]
    if step.primitive == "ragged_dot_general":
        return [(0, axis) for axis in params["ragged_dot_dimension_numbers"].dot_dimension_numbers[0][0]]
    numbers = params["dimension_numbers"]
    return [(0, numbers.lhs_spec[1]), *((1, axis) for axis in numbers.rhs_spec[2:])]


def _contractions(step: Step, operands: Sequence[Any], out: Any) -> Iterator[Change]:
    for operand, axis in contracted(step):
        if operands[operand].shape[axis] > 1:
            dropped = partial(_without_end, step, operands, operand, axis, 0)
            yield f"last sixteenth of axis {axis} of operand {operand} dropped", dropped
    if all(jnp.issubdtype(array.dtype, jnp.floating) for array in operands[:2]):

        def coarse() -> Any:
            return step.run([*(to_float8(array) for array in operands[:2]), *operands[2:]])[0]

        yield "operands in float8", coarse


def to_float8(array: Any) -> Any:
    """Rounded to float8_e4m3fn with a power of two as the whole array's scale, as a careful float8 kernel does."""
    wide = np.asarray(array, np.float32)
    largest = np.abs(wide).max()
    scale = np.float32(np.exp2(np.floor(np.log2(256 / largest)))) if 0 < largest < np.inf else np.float32(1)
    return ((wide * scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) / scale).astype(array.dtype)


def split(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """The program with every contraction done in two halves that are summed in float32: an honest variant."""
    values: Values = dict(program.constants) | dict(zip(program.inputs, inputs, strict=True))
    for step in program.steps:
        operands = [values[i] for i in step.inputs]
        halves = step.primitive in SPLIT and _halves(step, operands)
        values |= zip(step.outputs, halves or step.run(operands), strict=True)
    return [values[number] for number in program.outputs]


def _halves(step: Step, operands: Sequence[Any]) -> list[Any] | None:
    operand, axis = contracted(step)[0] if contracted(step) else (0, -1)
    if axis < 0 or operands[operand].shape[axis] < 2:
        return None
    middle = operands[operand].shape[axis] // 2
    first = (np.arange(operands[operand].shape[axis]) < middle).reshape(
        [-1 if i == axis else 1 for i in range(operands[operand].ndim)]
    )
    total = 0
    for kept in (first, ~first):
        given = [
            array.astype(jnp.float32) if jnp.issubdtype(array.dtype, jnp.floating) else array for array in operands
        ]
        given[operand] = jnp.where(kept, given[operand], 0)  # products of wider operands are the same, and exact
        total = total + bind(step.equation, given, preferred_element_type=jnp.float32)[0]
    return [jnp.asarray(total).astype(step.equation.outvars[0].aval.dtype)]

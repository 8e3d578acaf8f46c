"""Operations on whole vectors: matmuls, reductions, and what moves elements about."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from hawkeye_mcp.mosaic_eval.elementwise import FUNCTIONS, signed
from hawkeye_mcp.mosaic_eval.errors import Unsupported
from hawkeye_mcp.mosaic_eval.memory import as_unsigned, from_unsigned
from hawkeye_mcp.mosaic_eval.types import Array, Dtype, bits, is_float, wrapped


@dataclass(frozen=True)
class Dimensions:
    """Of a tpu.matmul, each a tuple of axes."""

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]
    output: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]


def dimensions(attribute: object) -> Dimensions:
    """From #tpu.dot_dimension_numbers, which has no Python class: its seven lists are read as JSON.

    Raises:
        Unsupported: not that attribute, or an order of the result other than batch, lhs, rhs.
    """
    text = str(attribute)
    head, _, rest = text.partition("<")
    try:
        lists = json.loads(f"[{rest.removesuffix('>')}]")
        found = Dimensions(*(tuple(int(n) for n in axes) for axes in lists))
    except (TypeError, ValueError):
        raise Unsupported(f"tpu.matmul with {text[:200]}") from None
    order = [*((0, n) for n in found.lhs_batch), *((0, n) for n in found.lhs_free), *((1, n) for n in found.rhs_free)]
    if head != "#tpu.dot_dimension_numbers" or found.output != tuple(n for pair in order for n in pair):
        raise Unsupported(f"tpu.matmul with {text[:200]}")
    return found


def matmul(lhs: Array, rhs: Array, acc: Array, how: Dimensions, *, exact: bool) -> Array:
    """acc + lhs @ rhs in the accumulator's type.

    Floats are accumulated in float32. exact: float32 operands are multiplied as they are; else they are rounded to
    bfloat16 first, as the MXU takes them.
    """
    lhs = np.transpose(lhs, (*how.lhs_batch, *how.lhs_free, *how.lhs_contracting))
    rhs = np.transpose(rhs, (*how.rhs_batch, *how.rhs_contracting, *how.rhs_free))
    batch, n_lhs, n_rhs = len(how.lhs_batch), len(how.lhs_free), len(how.rhs_free)
    outer, rows, inner = lhs.shape[:batch], lhs.shape[batch : batch + n_lhs], lhs.shape[batch + n_lhs :]
    columns = rhs.shape[rhs.ndim - n_rhs :]
    k = int(np.prod(inner, dtype=np.int64))
    a = lhs.reshape(*outer, -1, k) if k else lhs.reshape(*outer, int(np.prod(rows, dtype=np.int64)), 0)
    b = rhs.reshape(*outer, k, int(np.prod(columns, dtype=np.int64)))
    if is_float(acc.dtype):
        product = _wide(a, exact) @ _wide(b, exact)
        total = product.reshape(*outer, *rows, *columns) + acc.astype(np.float32)
        return np.asarray(total).astype(acc.dtype)
    if is_float(a.dtype) or is_float(b.dtype):
        raise Unsupported(f"tpu.matmul of {lhs.dtype} and {rhs.dtype} into {acc.dtype}")
    # exact: products of 8-bit integers stay far below 2**53
    if bits(a.dtype) > 8 or bits(b.dtype) > 8:
        raise Unsupported(f"tpu.matmul of {lhs.dtype} and {rhs.dtype}")
    whole = (signed(a).astype(np.float64) @ signed(b).astype(np.float64)).astype(np.int64)
    return wrapped(whole.reshape(*outer, *rows, *columns) + signed(acc), acc.dtype)


def _wide(values: Array, exact: bool) -> Array:
    if not is_float(values.dtype):
        values = signed(values).astype(np.float32)
    if values.dtype == np.float32 and not exact:
        values = values.astype(ml_dtypes.bfloat16)
    return values.astype(np.float32, copy=False)


_REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduction(kind: str, values: Array, acc: Array, axes: Sequence[int]) -> Array:
    """vector.multi_reduction; narrow floats are accumulated in float32 and rounded once.

    Raises:
        Unsupported.
    """
    if kind not in _REDUCTIONS:
        raise Unsupported(f"vector.multi_reduction <{kind}>")
    function = _REDUCTIONS[kind]
    if is_float(values.dtype):
        wide = np.float32 if bits(values.dtype) < 32 else values.dtype
        found = function.reduce(values.astype(wide, copy=False), axis=tuple(axes))
        return np.asarray(function(found, acc.astype(wide))).astype(values.dtype)
    found = function(function.reduce(signed(values), axis=tuple(axes)), signed(acc))
    return wrapped(np.asarray(found), values.dtype)


def index_of_extreme(kind: str, values: Array, axis: int) -> Array:
    """tpu.reduce_index: the first place of the largest or smallest; NaN counts as either.

    Raises:
        Unsupported.
    """
    if kind == "arg_max":
        return np.asarray(np.argmax(values, axis=axis))
    if kind == "arg_min":
        return np.asarray(np.argmin(values, axis=axis))
    raise Unsupported(f"tpu.reduce_index <{kind}>")


def rotate(values: Array, amount: int, axis: int, stride: int | None, stride_axis: int | None) -> Array:
    """tpu.dynamic_rotate: towards higher indices; with a stride each index of another axis goes `stride` further."""
    if stride is None or stride_axis is None:
        return np.roll(values, amount, axis)
    out = np.empty_like(values)
    for i in range(values.shape[stride_axis]):
        at = [slice(None)] * values.ndim
        at[stride_axis] = slice(i, i + 1)
        out[tuple(at)] = np.roll(values[tuple(at)], amount + i * stride, axis)
    return out


def iota(shape: tuple[int, ...], dtype: Dtype, axes: Sequence[int]) -> Array:
    """tpu.iota: row-major numbers of the given axes, the last of them fastest."""
    out = np.zeros(shape, np.int64)
    for axis in axes:
        along = np.arange(shape[axis], dtype=np.int64).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        out = out * shape[axis] + along
    return wrapped(out, dtype) if not is_float(dtype) else out.astype(dtype)


def gather(values: Array, indices: Array, axes: Sequence[int]) -> Array:
    """tpu.dynamic_gather along one axis; indices wrap.

    Raises:
        Unsupported: several axes.
    """
    if len(axes) != 1:
        raise Unsupported(f"tpu.dynamic_gather along axes {list(axes)}")
    (axis,) = axes
    return np.take_along_axis(values, signed(indices) % values.shape[axis], axis)


def reciprocal(values: Array, *, approximate: bool) -> Array:
    """tpu.reciprocal. The approximate one is computed in bfloat16, as jax's interpreter does: a TPU's is no worse."""
    if approximate:
        return (
            (1 / values.astype(ml_dtypes.bfloat16).astype(np.float32)).astype(ml_dtypes.bfloat16).astype(values.dtype)
        )
    return FUNCTIONS["arith.divf"](np.ones_like(values), values)


def pack(sources: Sequence[Array], narrow: Dtype, out: Dtype) -> Array:
    """tpu.pack_elementwise: one narrow element of each source in a word, the first lowest."""
    width = bits(narrow)
    words = np.zeros(sources[0].shape, np.uint64)
    for i, source in enumerate(sources):
        part = source.astype(narrow) if is_float(narrow) else wrapped(signed(source), narrow)
        words |= as_unsigned(part) << np.uint64(width * i)
    return from_unsigned(words, out)


def unpack(words: Array, narrow: Dtype, index: int, out: Dtype) -> Array:
    """tpu.unpack_elementwise: the index-th narrow element of each word, widened."""
    width = bits(narrow)
    low = (as_unsigned(words) >> np.uint64(width * index)) & np.uint64((1 << width) - 1)
    part = from_unsigned(low, narrow)
    return part.astype(out) if is_float(narrow) else wrapped(signed(part), out)

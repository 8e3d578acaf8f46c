"""Operations on one element at a time: arith and math, with the operand's own dtype and rounding.

Floating-point types narrower than float32 are computed in float32 and rounded once per operation, as Mosaic does on
chips without such arithmetic.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from hawkeye_mcp.mosaic_eval.errors import Unsupported
from hawkeye_mcp.mosaic_eval.types import Array, Dtype, bits, is_float, wrapped

Function = Callable[..., Array]


def _in_float32(function: Callable[..., Any]) -> Function:
    def run(*operands: Array) -> Array:
        dtype = operands[0].dtype
        wide = dtype if bits(dtype) >= 32 else np.dtype(np.float32)
        return np.asarray(function(*(x.astype(wide, copy=False) for x in operands))).astype(dtype, copy=False)

    return run


def _in_int64(function: Callable[..., Any]) -> Function:
    """Signed; bool counts as 0 and -1, as MLIR's i1 does."""

    def run(*operands: Array) -> Array:
        dtype = operands[0].dtype
        return wrapped(np.asarray(function(*map(signed, operands))), dtype)

    return run


def _in_uint64(function: Callable[..., Any]) -> Function:
    def run(*operands: Array) -> Array:
        dtype = operands[0].dtype
        return wrapped(np.asarray(function(*map(unsigned, operands))).astype(np.int64), dtype)

    return run


def signed(x: Array) -> Array:
    if x.dtype == np.bool_:
        return -x.astype(np.int64)
    return x.astype(np.int64) if bits(x.dtype) >= 8 else x.astype(np.int8).astype(np.int64)


def unsigned(x: Array) -> Array:
    width = bits(x.dtype) if x.dtype != np.bool_ else 1
    if width == 64:
        return x.astype(np.int64).view(np.uint64)
    return (signed(x) & ((1 << width) - 1)).astype(np.uint64)


def _native(function: Callable[..., Any]) -> Function:
    """Straight in int32, which wraps as it must, and through int64 for the rest."""
    wide = _in_int64(function)

    def run(*operands: Array) -> Array:
        if operands[0].dtype == np.int32:
            return np.asarray(function(*operands))
        return wide(*operands)

    return run


def _quotient(a: Array, b: Array) -> Array:
    """Towards zero; -1 for a divisor of 0, as XLA defines it."""
    safe = np.where(b == 0, 1, b)
    whole = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, -1, whole)


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a - _quotient(a, b) * b)


def _shifted(operation: str) -> Function:
    def run(value: Array, amount: Array) -> Array:
        width = bits(value.dtype)
        by = unsigned(amount).astype(np.int64)
        if operation == "shrsi":
            return wrapped(signed(value) >> np.minimum(by, width - 1), value.dtype)
        out_of_range = by >= width
        by = np.where(out_of_range, 0, by)
        if operation == "shli":
            moved = signed(value) << by
        else:
            moved = (unsigned(value) >> by.astype(np.uint64)).astype(np.int64)
        return wrapped(np.where(out_of_range, 0, moved), value.dtype)

    return run


def _bitwise(function: Callable[..., Any]) -> Function:
    def run(a: Array, b: Array) -> Array:
        if bits(a.dtype) < 8:
            return wrapped(np.asarray(function(signed(a), signed(b))), a.dtype)
        return np.asarray(function(a, b))

    return run


def _erf(x: Array) -> Array:
    return np.asarray(scipy.special.erf(x))


def _count_leading_zeros(x: Array) -> Array:
    width, left = bits(x.dtype), unsigned(x)
    length = np.zeros(left.shape, np.int64)
    for i in range(width):
        length = np.where((left >> np.uint64(i)) & np.uint64(1), i + 1, length)
    return wrapped(width - length, x.dtype)


def _count_ones(x: Array) -> Array:
    return wrapped(np.bitwise_count(unsigned(x)).astype(np.int64), x.dtype)


FUNCTIONS: dict[str, Function] = {
    "arith.addf": _in_float32(np.add),
    "arith.subf": _in_float32(np.subtract),
    "arith.mulf": _in_float32(np.multiply),
    "arith.divf": _in_float32(np.divide),
    "arith.remf": _in_float32(np.fmod),
    "arith.negf": _in_float32(np.negative),
    "arith.maximumf": _in_float32(np.maximum),
    "arith.minimumf": _in_float32(np.minimum),
    "arith.maxnumf": _in_float32(np.fmax),
    "arith.minnumf": _in_float32(np.fmin),
    "arith.addi": _native(np.add),
    "arith.subi": _native(np.subtract),
    "arith.muli": _native(np.multiply),
    "arith.divsi": _in_int64(_quotient),
    "arith.remsi": _in_int64(_remainder),
    "arith.divui": _in_uint64(lambda a, b: np.where(b == 0, np.uint64(2**64 - 1), a // np.where(b == 0, 1, b))),
    "arith.remui": _in_uint64(lambda a, b: np.where(b == 0, a, a % np.where(b == 0, 1, b))),
    "arith.floordivsi": _in_int64(lambda a, b: np.where(b == 0, -1, a // np.where(b == 0, 1, b))),
    "arith.ceildivsi": _in_int64(lambda a, b: np.where(b == 0, -1, -(-a // np.where(b == 0, 1, b)))),
    "arith.maxsi": _native(np.maximum),
    "arith.minsi": _native(np.minimum),
    "arith.maxui": _in_uint64(np.maximum),
    "arith.minui": _in_uint64(np.minimum),
    "arith.andi": _bitwise(np.bitwise_and),
    "arith.ori": _bitwise(np.bitwise_or),
    "arith.xori": _bitwise(np.bitwise_xor),
    "arith.shli": _shifted("shli"),
    "arith.shrsi": _shifted("shrsi"),
    "arith.shrui": _shifted("shrui"),
    "math.exp": _in_float32(np.exp),
    "math.exp2": _in_float32(np.exp2),
    "math.expm1": _in_float32(np.expm1),
    "math.log": _in_float32(np.log),
    "math.log2": _in_float32(np.log2),
    "math.log1p": _in_float32(np.log1p),
    "math.tanh": _in_float32(np.tanh),
    "math.sin": _in_float32(np.sin),
    "math.cos": _in_float32(np.cos),
    "math.tan": _in_float32(np.tan),
    "math.atan2": _in_float32(np.arctan2),
    "math.sqrt": _in_float32(np.sqrt),
    "math.rsqrt": _in_float32(lambda x: 1 / np.sqrt(x)),
    "math.erf": _in_float32(_erf),
    "math.absf": _in_float32(np.abs),
    "math.absi": _in_int64(np.abs),
    "math.floor": _in_float32(np.floor),
    "math.ceil": _in_float32(np.ceil),
    "math.trunc": _in_float32(np.trunc),
    "math.roundeven": _in_float32(np.rint),
    "math.round": _in_float32(lambda x: np.trunc(x) + np.where(np.abs(x - np.trunc(x)) >= 0.5, np.sign(x), 0)),
    "math.powf": _in_float32(np.power),
    "math.ctlz": _count_leading_zeros,
    "math.ctpop": _count_ones,
    "tpu.weird": lambda x: ~np.isfinite(x.astype(np.float32)),
}


def compare_integers(predicate: int) -> Function:
    """Of arith.cmpi: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge."""
    as_type = unsigned if predicate >= 6 else signed
    function = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)[
        predicate - 4 if predicate >= 6 else predicate
    ]

    def run(a: Array, b: Array) -> Array:
        if a.dtype == np.int32 and predicate < 6:
            return np.asarray(function(a, b))
        return np.asarray(function(as_type(a), as_type(b)))

    return run


_ORDERED: dict[int, Callable[..., Any]] = {
    1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal, 6: np.not_equal,
    7: lambda a, b: np.ones(np.broadcast(a, b).shape, np.bool_),
}  # fmt: skip


def compare_floats(predicate: int) -> Function:
    """Of arith.cmpf: false, the ordered ones (false where one is NaN), the unordered ones (true there), true."""

    def run(a: Array, b: Array) -> Array:
        shape = np.broadcast(a, b).shape
        if predicate in (0, 15):
            return np.full(shape, predicate == 15)
        a, b = (x.astype(np.float32) if bits(x.dtype) < 32 else x for x in (a, b))
        unordered = np.isnan(a) | np.isnan(b)
        if predicate == 14:
            return np.asarray(unordered)
        if predicate <= 7:
            return np.asarray(_ORDERED[predicate](a, b) & ~unordered)
        return np.asarray(_ORDERED[predicate - 7](a, b) | unordered)

    return run


def converted(operation: str, values: Array, dtype: Dtype) -> Array:
    """arith's and tpu's casts. Floats go to integers towards zero, to the nearest that there is; NaN to 0.

    Raises:
        Unsupported.
    """
    name = operation.split(".", 1)[1]
    if name in ("extf", "truncf"):
        if not (is_float(values.dtype) and is_float(dtype)):
            raise Unsupported(f"{operation} of {values.dtype} to {dtype}")
        return values.astype(dtype)
    if name in ("extsi", "trunci", "index_cast"):
        return wrapped(signed(values), dtype)
    if name in ("extui", "index_castui"):
        return wrapped(unsigned(values).astype(np.int64), dtype)
    if name in ("sitofp", "uitofp"):
        whole = signed(values) if name == "sitofp" else unsigned(values)
        return whole.astype(np.float64).astype(dtype) if bits(dtype) >= 32 else whole.astype(np.float32).astype(dtype)
    if name in ("fptosi", "fptoui"):
        width = bits(dtype)
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if name == "fptosi" else (0, (1 << width) - 1)
        if dtype == np.bool_ or width > 32:
            raise Unsupported(f"{operation} to {dtype}")
        whole = np.clip(np.nan_to_num(np.trunc(values.astype(np.float64)), nan=0.0), low, high)
        return wrapped(whole.astype(np.int64), dtype)
    raise Unsupported(operation)

"""MLIR types and constants as numpy dtypes and arrays. Signless integers are signed, as Mosaic has them."""

from typing import Any

import ml_dtypes
import numpy as np
from jax._src.lib.mlir import ir
from numpy.typing import NDArray

from hawkeye_mcp.mosaic_eval.errors import Exhausted, Unsupported

Array = NDArray[Any]

# One value of a kernel; VMEM of every chip is smaller.
LARGEST_BYTES = 512 << 20

Dtype = np.dtype[Any]

_FLOATS: list[tuple[Any, Dtype]] = [
    (ir.F32Type, np.dtype(np.float32)),
    (ir.BF16Type, np.dtype(ml_dtypes.bfloat16)),
    (ir.F16Type, np.dtype(np.float16)),
    (ir.F64Type, np.dtype(np.float64)),
    (ir.Float8E4M3FNType, np.dtype(ml_dtypes.float8_e4m3fn)),
    (ir.Float8E5M2Type, np.dtype(ml_dtypes.float8_e5m2)),
    (ir.Float8E4M3B11FNUZType, np.dtype(ml_dtypes.float8_e4m3b11fnuz)),
]
_SIGNED: dict[int, Dtype] = {
    1: np.dtype(np.bool_),
    2: np.dtype(ml_dtypes.int2),
    4: np.dtype(ml_dtypes.int4),
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}
_UNSIGNED: dict[int, Dtype] = {
    2: np.dtype(ml_dtypes.uint2),
    4: np.dtype(ml_dtypes.uint4),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
_NARROW = {table[width]: width for table in (_SIGNED, _UNSIGNED) for width in (2, 4)}
_ML_FLOATS = {dtype for _, dtype in _FLOATS}


def dtype_of(kind: ir.Type) -> Dtype:
    """Of an element type.

    Raises:
        Unsupported: no numpy dtype stands for it.
    """
    if isinstance(kind, ir.IndexType):
        return np.dtype(np.int64)
    if isinstance(kind, ir.IntegerType):
        table = _UNSIGNED if kind.is_unsigned else _SIGNED
        if kind.width in table:
            return table[kind.width]
    for float_type, dtype in _FLOATS:
        if isinstance(kind, float_type):
            return dtype
    raise Unsupported(f"type {kind}")


def vector(kind: ir.Type) -> tuple[tuple[int, ...], Dtype]:
    """Shape and dtype of a vector type, or of a scalar's, whose shape is ().

    Raises:
        Unsupported, Exhausted.
    """
    if not isinstance(kind, ir.VectorType):
        return (), dtype_of(kind)
    shape, dtype = tuple(kind.shape), dtype_of(kind.element_type)
    check_size(shape, dtype)
    return shape, dtype


def memref(kind: ir.Type) -> tuple[tuple[int, ...], Dtype]:
    """Shape and dtype of a memref of numbers. A dimension that is not known before run time is negative.

    Raises:
        Unsupported.
    """
    known = ir.MemRefType(kind)
    return tuple(known.shape), dtype_of(known.element_type)


def check_size(shape: tuple[int, ...], dtype: Dtype) -> None:
    """Raises Exhausted where one array takes too much memory."""
    nbytes = dtype.itemsize
    for n in shape:
        nbytes *= n
    if nbytes > LARGEST_BYTES:
        raise Exhausted(f"an array of {nbytes} bytes, more than {LARGEST_BYTES}")


def bits(dtype: Dtype) -> int:
    """Of one element in a TPU's memory."""
    return _NARROW.get(dtype, 8 * dtype.itemsize)


def undefined(shape: tuple[int, ...], dtype: Dtype) -> Array:
    """What memory that nothing wrote holds here: NaN, or the least integer."""
    check_size(shape, dtype)
    if is_float(dtype):
        return np.full(shape, np.nan, dtype)
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    return np.full(shape, -(1 << (bits(dtype) - 1)) if is_signed(dtype) else 0, dtype)


def is_float(dtype: Dtype) -> bool:
    return dtype.kind == "f" or dtype in _ML_FLOATS


def is_signed(dtype: Dtype) -> bool:
    return dtype.kind == "i" or dtype in _SIGNED.values()


def wrapped(values: Array, dtype: Dtype) -> Array:
    """Integers (int64) as another integer type, high bits dropped."""
    width = bits(dtype)
    if dtype == np.bool_:
        return (values & 1).astype(dtype)
    if width in (2, 4):
        low = values & ((1 << width) - 1)
        if is_signed(dtype):
            low = (low ^ (1 << (width - 1))) - (1 << (width - 1))
        return np.asarray(low, np.int8).astype(dtype)
    return values.astype(dtype)


def constant(attribute: ir.Attribute, kind: ir.Type) -> Array:
    """The value of an arith.constant.

    Raises:
        Unsupported, Exhausted.
    """
    shape, dtype = vector(kind)
    if isinstance(attribute, ir.IntegerAttr | ir.FloatAttr | ir.BoolAttr):
        value = np.full((), attribute.value, np.int64 if dtype.kind in "iub" else np.float64)
        return wrapped(value, dtype) if dtype.kind in "iub" or bits(dtype) < 8 else value.astype(dtype)
    if isinstance(attribute, ir.DenseElementsAttr):
        if attribute.is_splat:
            return np.broadcast_to(constant(attribute.get_splat_value(), ir.VectorType(kind).element_type), shape)
        if isinstance(attribute, ir.DenseIntElementsAttr | ir.DenseFPElementsAttr):
            values = np.array([attribute[i] for i in range(len(attribute))])
            return values.reshape(shape).astype(dtype)
    raise Unsupported(f"arith.constant of {type(attribute).__name__}")

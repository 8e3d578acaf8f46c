"""Translators of operations without effects."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax._src.lib.mlir import ir

from hawkeye_mcp.mosaic_eval import elementwise, vectors
from hawkeye_mcp.mosaic_eval.errors import Unsupported
from hawkeye_mcp.mosaic_eval.machine import PURE, Frame, Instruction, Scope, flag, integer, numbers, pure, translator
from hawkeye_mcp.mosaic_eval.memory import recast
from hawkeye_mcp.mosaic_eval.types import Array, Dtype, constant, dtype_of, vector

Function = Callable[..., Array]

for _name, _function in elementwise.FUNCTIONS.items():
    PURE[_name] = lambda op, function=_function: function  # type: ignore[misc]


def _result(op: Any) -> tuple[tuple[int, ...], Dtype]:
    return vector(op.operation.results[0].type)


@pure("arith.constant")
def _constant(op: Any) -> Function:
    value = constant(op.operation.attributes["value"], op.operation.results[0].type)
    return lambda: value


@pure("arith.cmpi")
def _compare_integers(op: Any) -> Function:
    return elementwise.compare_integers(integer(op.operation.attributes["predicate"]))


@pure("arith.cmpf")
def _compare_floats(op: Any) -> Function:
    return elementwise.compare_floats(integer(op.operation.attributes["predicate"]))


@pure("arith.select")
def _select(op: Any) -> Function:
    return lambda condition, a, b: np.asarray(np.where(condition, a, b))


@pure(
    "arith.extf", "arith.truncf", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui",
    "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui",
)  # fmt: skip
def _cast(op: Any) -> Function:
    name, (_, dtype) = op.operation.name, _result(op)
    return lambda values: elementwise.converted(name, values, dtype)


@pure("tpu.extf", "tpu.truncf")
def _cast_with_mode(op: Any) -> Function:
    mode = op.operation.attributes["rounding_mode"] if "rounding_mode" in op.operation.attributes else None
    if mode is not None and "to_nearest_even" not in str(mode):
        raise Unsupported(f"{op.operation.name} {mode}")
    return _cast(op)


@pure("arith.bitcast", "tpu.bitcast")
def _bitcast(op: Any) -> Function:
    _, dtype = _result(op)
    return lambda values: recast(values, dtype)


@pure("tpu.assume_multiple", "tpu.relayout", "tpu.mask_cast", "tpu.assume_layout")
def _same(op: Any) -> Function:
    shape, dtype = _result(op)
    if op.operation.name == "tpu.mask_cast" and shape != vector(op.operation.operands[0].type)[0]:
        raise Unsupported("tpu.mask_cast to another shape")
    return lambda values: values


@pure("tpu.matmul")
def _matmul(op: Any) -> Function:
    attributes = op.operation.attributes
    if flag(op, "transpose_lhs") or flag(op, "transpose_rhs") or "dimension_numbers" not in attributes:
        raise Unsupported("tpu.matmul without dimension numbers")
    how = vectors.dimensions(attributes["dimension_numbers"])
    precision = str(attributes["precision"]) if "precision" in attributes else ""
    if precision not in ("", "#tpu.contract_precision<fp32>", "#tpu.contract_precision<bf16>"):
        raise Unsupported(f"tpu.matmul {precision}")
    highest = precision == "#tpu.contract_precision<fp32>"
    return lambda lhs, rhs, acc, exact=False: vectors.matmul(lhs, rhs, acc, how, exact=exact or highest)


@pure("vector.multi_reduction")
def _multi_reduction(op: Any) -> Function:
    kind = _inside(op.operation.attributes["kind"], "#vector.kind")
    axes = numbers(op.operation.attributes["reduction_dims"])
    return lambda values, acc: vectors.reduction(kind, values, acc, axes)


@pure("tpu.reduce_index")
def _reduce_index(op: Any) -> Function:
    kind = _inside(op.operation.attributes["kind"], "#tpu.reduction_kind")
    axis = integer(op.operation.attributes["axis"])
    _, dtype = _result(op)
    return lambda values: vectors.index_of_extreme(kind, values, axis).astype(dtype)


def _inside(attribute: object, name: str) -> str:
    """The word of an enumeration's attribute, which has no Python class: name<word>."""
    head, _, word = str(attribute).partition("<")
    if head != name:
        raise Unsupported(f"{attribute} where {name} is expected")
    return word.removesuffix(">")


@pure("vector.broadcast")
def _broadcast(op: Any) -> Function:
    shape, _ = _result(op)
    return lambda values: np.broadcast_to(values, shape)


@pure("vector.shape_cast", "tpu.reshape")
def _shape_cast(op: Any) -> Function:
    shape, _ = _result(op)
    return lambda values: values.reshape(shape)


@pure("vector.transpose", "tpu.transpose")
def _transpose(op: Any) -> Function:
    order = numbers(op.operation.attributes["permutation"])
    return lambda values: np.transpose(values, order)


@pure("tpu.iota")
def _iota(op: Any) -> Function:
    shape, dtype = _result(op)
    value = vectors.iota(shape, dtype, numbers(op.operation.attributes["dimensions"]))
    return lambda: value


@pure("vector.step")
def _step(op: Any) -> Function:
    shape, dtype = _result(op)
    value = vectors.iota(shape, dtype, [0])
    return lambda: value


@pure("tpu.concatenate")
def _concatenate(op: Any) -> Function:
    axis = integer(op.operation.attributes["dimension"])
    return lambda *parts: np.concatenate(parts, axis)


@pure("tpu.repeat")
def _repeat(op: Any) -> Function:
    axis, times = (integer(op.operation.attributes[name]) for name in ("dimension", "times"))
    return lambda values: np.concatenate([values] * times, axis)


@pure("tpu.dynamic_rotate")
def _dynamic_rotate(op: Any) -> Function:
    attributes = op.operation.attributes
    axis = integer(attributes["dimension"])
    stride, stride_axis = (
        integer(attributes[name]) if name in attributes else None for name in ("stride", "stride_dimension")
    )
    return lambda values, amount: vectors.rotate(values, int(amount), axis, stride, stride_axis)


@pure("tpu.dynamic_gather")
def _dynamic_gather(op: Any) -> Function:
    axes = numbers(op.operation.attributes["dimensions"])
    return lambda values, indices: vectors.gather(values, indices, axes)


@pure("tpu.reciprocal")
def _reciprocal(op: Any) -> Function:
    approximate = flag(op, "approx")
    return lambda values: vectors.reciprocal(values, approximate=approximate)


@pure("tpu.pack_elementwise")
def _pack(op: Any) -> Function:
    _, out = _result(op)
    narrow = dtype_of(ir.TypeAttr(op.operation.attributes["target_type"]).value)
    return lambda *sources: vectors.pack(sources, narrow, out)


@pure("tpu.unpack_elementwise")
def _unpack(op: Any) -> Function:
    _, out = _result(op)
    narrow = dtype_of(ir.TypeAttr(op.operation.attributes["source_type"]).value)
    index = integer(op.operation.attributes["index"])
    return lambda words: vectors.unpack(words, narrow, index, out)


@pure("vector.extract_strided_slice")
def _extract_strided_slice(op: Any) -> Function:
    starts, sizes, strides = (numbers(op.operation.attributes[name]) for name in ("offsets", "sizes", "strides"))
    index = tuple(
        slice(start, start + size * stride, stride) for start, size, stride in zip(starts, sizes, strides, strict=True)
    )
    shape, _ = _result(op)
    return lambda values: values[index].reshape(shape)


@pure("vector.insert_strided_slice")
def _insert_strided_slice(op: Any) -> Function:
    starts, strides = (numbers(op.operation.attributes[name]) for name in ("offsets", "strides"))
    part, _ = vector(op.operation.operands[0].type)
    if any(stride != 1 for stride in strides) or len(part) != len(starts):
        raise Unsupported("vector.insert_strided_slice with strides or of another rank")
    index = tuple(slice(start, start + size) for start, size in zip(starts, part, strict=True))

    def run(values: Array, into: Array) -> Array:
        out = np.array(into)
        out[index] = values
        return out

    return run


_DYNAMIC = -(2**63)  # MLIR's ShapedType::kDynamic


@pure("vector.extract")
def _extract(op: Any) -> Function:
    fixed = numbers(op.operation.attributes["static_position"])

    def run(values: Array, *positions: Array) -> Array:
        left = iter(positions)
        index = tuple(int(next(left)) if n == _DYNAMIC else n for n in fixed)
        return np.asarray(values[index])

    return run


@translator("tpu.matmul")
def _matmul_here(op: Any, scope: Scope) -> Instruction:
    """As pure, with the machine's choice of precision."""
    function, exact = _matmul(op), scope.machine.exact
    lhs, rhs, acc = scope.slots(op.operation.operands)
    result = scope.define(op.operation.results[0])

    def run(frame: Frame) -> None:
        frame[result] = function(frame[lhs], frame[rhs], frame[acc], exact=exact)

    return run

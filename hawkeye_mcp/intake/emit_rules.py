"""How each primitive of jax is written as a public call: one table, by the primitive's name.

A rule takes the operands as they are written and gives an expression. Loops and branches are in emit.py.
"""

from collections.abc import Sequence
from typing import Any

from hawkeye_mcp.intake.emit_calls import Operand, Rule, call, described_axes, texts
from hawkeye_mcp.intake.emit_values import NotEmittable, dtype, ints, number
from hawkeye_mcp.intake.emit_windows import (
    convolution,
    dot,
    generic_reduce,
    generic_window,
    ragged_dot,
    reduce_window,
)

_NAMED_ALIKE = (  # lax.NAME(operands)
    "abs acos acosh asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz cos cosh digamma erf erf_inv "
    "erfc exp exp2 expm1 floor igamma igammac is_finite lgamma log log1p logistic mulhi nextafter polygamma population_count pow "
    "rem rsqrt shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square tan tanh zeta"
).split()
_NAMED_OTHERWISE = {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not", "neg": "neg",
    "max": "max", "min": "min",
}  # fmt: skip
_INFIX = {
    "add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_SPELLED = {"add_any": "add"}
_REDUCTIONS = "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor".split()
_CUMULATIVE = "cumsum cumprod cummax cummin cumlogsumexp".split()
_SCATTERS = {
    "scatter": "scatter", "scatter-add": "scatter_add", "scatter-mul": "scatter_mul", "scatter-sub": "scatter_sub",
    "scatter-min": "scatter_min", "scatter-max": "scatter_max",
    "scatter_add": "scatter_add", "scatter_mul": "scatter_mul", "scatter_sub": "scatter_sub",
    "scatter_min": "scatter_min", "scatter_max": "scatter_max",
}  # fmt: skip


def _infix(name: str) -> Rule:
    def rule(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
        left, right = operands
        divides_ints = name == "div" and "float" not in str(left.aval.dtype)
        if divides_ints or str(left.aval.dtype) == "bool" or not (left.is_name or right.is_name):
            return call(_SPELLED.get(name, name), left.text, right.text)
        return f"{left.plain} {_INFIX[name]} {right.plain}"

    return rule


def _alike(name: str) -> Rule:
    def rule(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
        if params.get("accuracy") is not None:
            raise NotEmittable(name, f"with accuracy {params['accuracy']}")
        return call(name, *texts(operands))

    return rule


def _convert(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("convert_element_type", operands[0].text, dtype(params["new_dtype"]))


def _bitcast(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("bitcast_convert_type", operands[0].text, dtype(params["new_dtype"]))


def _reduce_precision(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("reduce_precision", operands[0].text, str(params["exponent_bits"]), str(params["mantissa_bits"]))


def _broadcast(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    if len(operands) != 1:
        raise NotEmittable("broadcast_in_dim", "its shape is not known before it runs")
    shape, operand = ints(params["shape"]), operands[0]
    if not operand.is_name:
        return call("full", shape, operand.plain, dtype(operand.aval.dtype))
    return call("broadcast_in_dim", operand.text, shape, ints(params["broadcast_dimensions"]))


def _reshape(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    if params.get("dimensions") is not None:
        return call("reshape", operands[0].text, ints(params["new_sizes"]), ints(params["dimensions"]))
    return call("reshape", operands[0].text, ints(params["new_sizes"]))


def _one_list(name: str, key: str) -> Rule:
    return lambda params, operands, avals: call(name, operands[0].text, ints(params[key]))


def _select(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    which, *cases = operands
    if len(cases) == 2 and str(which.aval.dtype) == "bool":
        return call("select", which.text, cases[1].text, cases[0].text)
    return call("select_n", *texts(operands))


def _integer_pow(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("integer_pow", operands[0].text, str(params["y"]))


def _round(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("round", operands[0].text, f"lax.RoundingMethod.{params['rounding_method'].name}")


def _iota(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("broadcasted_iota", dtype(params["dtype"]), ints(params["shape"]), str(params["dimension"]))


def _concatenate(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("concatenate", f"[{', '.join(texts(operands))}]", str(params["dimension"]))


def _stack(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("stack", f"[{', '.join(texts(operands))}]", axis=str(params["axis"]))


def _unstack(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("unstack", operands[0].text, axis=str(params["axis"]))


def _split(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("split", operands[0].text, ints(params["sizes"]), axis=str(params["axis"]))


def _pad(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("pad", *texts(operands), ints(params["padding_config"]))


def _slice(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    bounds = [ints(params["start_indices"]), ints(params["limit_indices"])]
    strides = [ints(params["strides"])] if params["strides"] is not None else []
    return call("slice", operands[0].text, *bounds, *strides)


def _indices(operands: Sequence[Operand]) -> str:
    return f"[{', '.join(texts(operands))}]"


def _dynamic_slice(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    sizes = ints(params["slice_sizes"])
    return call("dynamic_slice", operands[0].text, _indices(operands[1:]), sizes, allow_negative_indices="False")


def _dynamic_update(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    array, update, *indices = operands
    return call("dynamic_update_slice", array.text, update.text, _indices(indices), allow_negative_indices="False")


def _mode(mode: Any) -> str:
    return f"lax.GatherScatterMode.{mode.name}"


def _flags(params: dict[str, Any]) -> dict[str, str]:
    return {key: "True" for key in ("indices_are_sorted", "unique_indices") if params[key]}


_GATHER_FIELDS = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims")  # fmt: skip
_SCATTER_FIELDS = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "operand_batching_dims", "scatter_indices_batching_dims")  # fmt: skip


def _gather(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    named = _flags(params) | {"mode": _mode(params["mode"])}
    if params.get("fill_value") is not None:
        named["fill_value"] = number(params["fill_value"], operands[0].aval.dtype)
    dimensions = described_axes("GatherDimensionNumbers", params["dimension_numbers"], _GATHER_FIELDS)
    return call("gather", *texts(operands), dimensions, ints(params["slice_sizes"]), **named)


def _scatter(name: str) -> Rule:
    def rule(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
        named = _flags(params) | {"mode": _mode(params["mode"])}
        dimensions = described_axes("ScatterDimensionNumbers", params["dimension_numbers"], _SCATTER_FIELDS)
        return call(_SCATTERS[name], *texts(operands), dimensions, **named)

    return rule


def _reduction(name: str) -> Rule:
    return lambda params, operands, avals: call(name, operands[0].text, ints(params["axes"]))


def _argument(name: str) -> Rule:
    def rule(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
        (axis,) = params["axes"]
        return call(name, operands[0].text, str(axis), dtype(params["index_dtype"]))

    return rule


def _cumulative(name: str) -> Rule:
    def rule(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
        named = {"reverse": "True"} if params["reverse"] else {}
        return call(name, operands[0].text, axis=str(params["axis"]), **named)

    return rule


def _sort(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call(
        "sort",
        f"[{', '.join(texts(operands))}]",
        dimension=str(params["dimension"]),
        is_stable=str(bool(params["is_stable"])),
        num_keys=str(params["num_keys"]),
    )


def _top_k(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    axis = params.get("axis", -1)
    return call("top_k", operands[0].text, str(params["k"]), axis=str(axis))


def _barrier(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("optimization_barrier", f"[{', '.join(texts(operands))}]")


RULES: dict[str, Rule] = (
    {name: _alike(name) for name in _NAMED_ALIKE}
    | {name: _alike(spelled) for name, spelled in _NAMED_OTHERWISE.items()}
    | {name: _infix(name) for name in _INFIX}
    | {name: _reduction(name) for name in _REDUCTIONS}
    | {name: _cumulative(name) for name in _CUMULATIVE}
    | {name: _scatter(name) for name in _SCATTERS}
    | {name: _argument(name) for name in ("argmax", "argmin")}
    | {f"reduce_window_{how}": reduce_window(call) for how, call in (("sum", "add"), ("max", "max"), ("min", "min"))}
    | {
        "bitcast_convert_type": _bitcast,
        "broadcast_in_dim": _broadcast,
        "concatenate": _concatenate,
        "conv_general_dilated": convolution,
        "convert_element_type": _convert,
        "dot_general": dot,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update,
        "gather": _gather,
        "integer_pow": _integer_pow,
        "iota": _iota,
        "optimization_barrier": _barrier,
        "pad": _pad,
        "ragged_dot_general": ragged_dot,
        "reduce": generic_reduce,
        "reduce_precision": _reduce_precision,
        "reduce_window": generic_window,
        "reshape": _reshape,
        "rev": _one_list("rev", "dimensions"),
        "round": _round,
        "select_n": _select,
        "slice": _slice,
        "sort": _sort,
        "split": _split,
        "squeeze": _one_list("squeeze", "dimensions"),
        "stack": _stack,
        "tile": _one_list("tile", "reps"),
        "top_k": _top_k,
        "transpose": _one_list("transpose", "permutation"),
        "unstack": _unstack,
    }
)


def why_not(primitive: str) -> str:
    """Why there is no rule for a primitive, if that is worth saying."""
    if primitive.startswith(("random_", "threefry", "rng_", "philox")):
        return "it draws random numbers; take them as an input"
    if "callback" in primitive or primitive == "debug_print":
        return "it calls back into Python"
    if primitive == "pallas_call":
        return "a workload is plain JAX that kernels replace"
    if primitive.startswith(("psum", "pmax", "pmin", "ppermute", "all_", "axis_index", "shard_map", "reduce_scatter")):
        return "it is written for several devices"
    return ""

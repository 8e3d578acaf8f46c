"""Floating-point operations of a jaxpr.

2 for each multiplication with its addition in products and convolutions; 1 for each element that an elementwise
operation on floats makes, whatever it is (an addition, an exponential); 1 for each element that a reduction takes in.
Moving and converting data is free. Of a branch, the most that any of its sides does.
"""

import math
from typing import Any

_FREE = {
    "broadcast_in_dim", "reshape", "transpose", "convert_element_type", "slice", "dynamic_slice", "concatenate", "pad",
    "gather", "squeeze", "rev", "iota", "copy", "copy_p", "stop_gradient", "select_n", "dynamic_update_slice", "expand_dims",
    "bitcast_convert_type", "scatter", "split", "reduce_precision", "device_put", "sharding_constraint",
    "optimization_barrier", "argmax", "argmin", "sort", "reduce_and", "reduce_or", "name",
}  # fmt: skip
_TAKES_IN = {
    "reduce_sum",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "cumlogsumexp",
}


def flops(jaxpr: Any) -> float | None:
    """Of a jaxpr; None where a loop's trips are not known, or for an operation that is not counted here."""
    total = 0.0
    for equation in jaxpr.eqns:
        if (own := _of(equation)) is None:
            return None
        total += own
    return total


def _of(equation: Any) -> float | None:
    name, params = equation.primitive.name, equation.params
    if name == "scan":
        inner = flops(params["jaxpr"].jaxpr)
        return None if inner is None else inner * params["length"]
    if name == "cond":
        sides = [flops(branch.jaxpr) for branch in params["branches"]]
        known = [side for side in sides if side is not None]
        return max(known) if len(known) == len(sides) else None
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if key in params and name not in ("while", "pallas_call"):
            return flops(getattr(params[key], "jaxpr", params[key]))
    out = equation.outvars[0].aval
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return float(2 * out.size * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted))
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        features = kernel.shape[params["dimension_numbers"].rhs_spec[0]]
        return float(2 * out.size * kernel.size / features)
    if name in ("while", "pallas_call", "custom_call", "reduce", "pure_callback", "io_callback"):
        return None
    if name in _FREE or not hasattr(out, "dtype") or "float" not in out.dtype.name:
        return 0.0
    if name in _TAKES_IN:
        return float(equation.invars[0].aval.size)
    if name.startswith("reduce_window"):
        return float(out.size * math.prod(params["window_dimensions"]))
    return float(out.size)

"""How products, convolutions and reductions over windows are written."""

from collections.abc import Sequence
from typing import Any

from hawkeye_mcp.intake.emit_calls import Operand, Rule, call, described_axes, texts
from hawkeye_mcp.intake.emit_values import NotEmittable, dtype, ints, number

_MONOIDS = ("add", "mul", "max", "min")


def _precision(name: str, params: dict[str, Any]) -> dict[str, str]:
    """The named arguments that say how a product is computed."""
    named = {}
    precision = params.get("precision")
    if precision is not None:
        pair = precision if isinstance(precision, tuple) else (precision, precision)
        if len(pair) != 2 or not all(getattr(side, "name", None) in ("DEFAULT", "HIGH", "HIGHEST") for side in pair):
            raise NotEmittable(name, f"with the precision {precision}")
        sides = [f"lax.Precision.{side.name}" for side in pair]
        named["precision"] = sides[0] if sides[0] == sides[1] else f"({', '.join(sides)})"
    if params.get("preferred_element_type") is not None:
        named["preferred_element_type"] = dtype(params["preferred_element_type"])
    return named


def dot(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    return call("dot_general", *texts(operands), ints(params["dimension_numbers"]), **_precision("dot_general", params))


def ragged_dot(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    given = params["ragged_dot_dimension_numbers"]
    dimensions = described_axes(
        "RaggedDotDimensionNumbers", given, ("dot_dimension_numbers", "lhs_ragged_dimensions", "rhs_group_dimensions")
    )
    if params.get("group_offset") is not None or len(operands) != 3:
        raise NotEmittable("ragged_dot_general", "with a group offset")
    return call("ragged_dot_general", *texts(operands), dimensions, **_precision("ragged_dot_general", params))


def _layouts(numbers: Any) -> str:
    """The axes of a convolution's operands and result, as letters where their spatial axes are in order."""
    rank = len(numbers.rhs_spec)
    if list(numbers.rhs_spec[2:]) != sorted(numbers.rhs_spec[2:]) or rank > 6:
        return described_axes("ConvDimensionNumbers", numbers, ("lhs_spec", "rhs_spec", "out_spec"))
    found = []
    for spec, ends in ((numbers.lhs_spec, "NC"), (numbers.rhs_spec, "OI"), (numbers.out_spec, "NC")):
        letters = dict(zip(spec, ends + "TDHW"[6 - rank :], strict=True))
        found.append('"' + "".join(letters[axis] for axis in range(rank)) + '"')
    return f"({', '.join(found)})"


def convolution(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    named = {
        "window_strides": ints(params["window_strides"]),
        "padding": ints(params["padding"]),
        "dimension_numbers": _layouts(params["dimension_numbers"]),
    }
    for key in ("lhs_dilation", "rhs_dilation"):
        if any(step != 1 for step in params[key]):
            named[key] = ints(params[key])
    for key in ("feature_group_count", "batch_group_count"):
        if params[key] != 1:
            named[key] = str(params[key])
    return call("conv_general_dilated", *texts(operands), **named, **_precision("conv_general_dilated", params))


def _window(params: dict[str, Any]) -> list[str]:
    keys = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
    return [ints(params[key]) for key in keys]


def reduce_window(how: str) -> Rule:
    def rule(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
        import jax.numpy as jnp

        of = operands[0].aval.dtype
        if how == "add":
            neutral = number(0, of)
        elif jnp.issubdtype(of, jnp.floating):
            neutral = "-jnp.inf" if how == "max" else "jnp.inf"
        else:
            bounds = jnp.iinfo(of)
            neutral = str(int(bounds.min if how == "max" else bounds.max))
        return call("reduce_window", operands[0].text, neutral, f"lax.{how}", *_window(params))

    return rule


def _computation(name: str, jaxpr: Any) -> str:
    """The public function of a body that is a single operation of its two arguments."""
    body = getattr(jaxpr, "jaxpr", jaxpr)
    if len(body.eqns) == 1:
        equation = body.eqns[0]
        if equation.primitive.name in _MONOIDS and list(equation.invars) == list(body.invars):
            return f"lax.{equation.primitive.name}"
    raise NotEmittable(name, "with a computation that is not one of " + ", ".join(_MONOIDS))


def generic_window(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    if len(operands) != 2 or params["consts"]:
        raise NotEmittable("reduce_window", "of several arrays")
    how = _computation("reduce_window", params["jaxpr"])
    return call("reduce_window", operands[0].text, operands[1].text, how, *_window(params))


def generic_reduce(params: dict[str, Any], operands: Sequence[Operand], avals: Sequence[Any]) -> str:
    if len(operands) != 2:
        raise NotEmittable("reduce", "of several arrays")
    how = _computation("reduce", params["jaxpr"])
    return call("reduce", operands[0].text, operands[1].text, how, ints(params["dimensions"]))

"""Beside a file that stands for a program, in its sandbox: what its lengths are, what inputs it gives, what it computes.

Whatever it sends back is data that the file may have forged; `stand_in` reads it so. Of this package it sees only `emit` and
`seeded` with what they need.
"""

import base64
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hawkeye_mcp.intake import seeded


def answer(function: Any, request: dict[str, Any], tracer: Any) -> dict[str, Any]:
    """The reply to a request, by what is asked for in it; tracer: the module that runs this.

    lengths: names whose values are asked for. inputs: {"function", "seed", "dtypes", "places"}: arrays that the function
    gives, floats in these dtypes; of places alone, so that at full size nothing else is made. trace: {"arguments":
    [[shape, dtype], ...], "names"}.

    Raises:
        tracer.Failed: the file is at fault.
    """
    module = sys.modules["kernel"]
    reply: dict[str, Any] = {}
    try:
        stage = "lengths"
        if "lengths" in request:
            reply["lengths"] = {name: operator.index(getattr(module, name)) for name in request["lengths"]}
        stage = "inputs"
        if "inputs" in request:
            asked = request["inputs"]
            give = getattr(module, asked["function"])
            made = _given if asked["places"] is None else _made_alone
            arrays = [_array(each) for each in made(give, asked["seed"], asked["places"])]
            dtypes = [*asked["dtypes"], *(array.dtype for array in arrays)]  # where there are too many
            reply["inputs"] = [_told("given", array, dtype) for array, dtype in zip(arrays, dtypes, strict=False)]
        stage = "trace"
        if "trace" in request:
            reply["program"] = _program(function, request["trace"]["arguments"], request["trace"]["names"])
    except BaseException as error:  # the file may raise anything, SystemExit included
        raise tracer.Failed(stage, error) from error
    return reply


def _given(give: Callable[..., Any], seed: int, places: Sequence[int] | None = None) -> list[Any]:
    given = seeded.given(give, seed)
    if not isinstance(given, list | tuple):
        raise TypeError(f"it returns {type(given).__name__} instead of a list")
    return list(given) if places is None else [given[place] for place in places]


def _made_alone(give: Callable[..., Any], seed: int, places: Sequence[int]) -> list[Any]:
    """Those at some places; the others are not made where jax can do without."""
    import jax

    try:
        return list(jax.jit(lambda: _given(give, seed, places))())
    except Exception:  # it takes to numpy what jax gave it, say
        return _given(give, seed, places)


def _array(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"it gives {type(value).__name__} where an array is declared")
    return array


def _told(name: str, array: Any, dtype: Any) -> dict[str, Any]:
    """dtype: what floats are cast to."""
    import jax.numpy as jnp

    to = jnp.dtype(dtype)
    if to != array.dtype and all(jnp.issubdtype(each, jnp.floating) for each in (to, array.dtype)):
        array = array.astype(to)
    data = base64.b64encode(array.tobytes()).decode()
    return {"name": name, "shape": list(array.shape), "dtype": array.dtype.name, "data": data}


def _program(function: Any, arguments: list[Any], names: list[str]) -> dict[str, Any]:
    """As it is written down: {"source", "constants"}, or {"not_emittable": why}."""
    import jax

    from hawkeye_mcp.intake.emit import NotEmittable, emit

    shapes = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in arguments]
    closed = jax.make_jaxpr(lambda *given: function(*given))(*shapes)
    try:
        emitted = emit(closed, names)
    except NotEmittable as error:
        return {"not_emittable": str(error)}
    constants = [_told(name, array, array.dtype) for name, array in emitted.constants.items()]
    return {"source": emitted.text, "constants": constants}

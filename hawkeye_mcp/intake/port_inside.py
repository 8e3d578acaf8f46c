"""Beside a port, in its sandbox: trace it at each size, export it for the CPU, take down its structure, write its source.

Whatever it sends back is data that the port may have forged; `trace_port` reads it so. Of this package it sees only
`structure` and `emit` with what they need.
"""

import base64
import json
from typing import Any


def answer(function: Any, request: dict[str, Any], tracer: Any) -> dict[str, Any]:
    """The reply to a request: {"sizes": {size: [[shape, dtype], ...]}, "names"}; tracer: the module that runs this."""
    reply: dict[str, Any] = {"sizes": {}, "failures": {}}
    for size, arguments in request["sizes"].items():
        try:
            reply["sizes"][size] = _one(function, arguments, request["names"], tracer)
        except tracer.Failed as failed:
            reply["failures"][size] = {"stage": failed.stage, **tracer.describe(failed.cause)}
    return reply


def _one(function: Any, arguments: list[Any], names: list[str], tracer: Any) -> dict[str, Any]:
    import jax

    from hawkeye_mcp.intake.emit import NotEmittable, emit
    from hawkeye_mcp.intake.structure import structure

    shapes = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in arguments]
    stage = "trace"
    try:
        closed = jax.make_jaxpr(lambda *given: function(*given))(*shapes)
        tracer.refuse_platform_dependence(closed.jaxpr)
        stage = "export"
        exported = tracer.export_for(closed, "cpu", shapes)
        stage = "write"
        found = {"cpu": _text(exported), "structure": _text(json.dumps(structure(closed)).encode())}
        try:
            emitted = emit(closed, names)
        except NotEmittable as error:
            return {**found, "not_emittable": str(error)}
    except BaseException as error:  # a port may raise anything, SystemExit included
        raise tracer.Failed(stage, error) from error
    constants = [
        {"name": name, "shape": list(array.shape), "dtype": array.dtype.name, "data": _text(array.tobytes())}
        for name, array in emitted.constants.items()
    ]
    return {**found, "source": _text(emitted.text.encode()), "constants": constants}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()

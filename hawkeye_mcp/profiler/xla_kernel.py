"""Mosaic kernels that XLA puts into a program of its own accord, such as a fused online softmax.

Their body stands as text in the optimised program. Put alone into a program, with a shorter grid, such a kernel can be
profiled like a candidate's.
"""

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import export

from hawkeye_mcp import artifact

_DTYPES = {"pred": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32"}
_BOUNDS = re.compile(rb"iteration_bounds = array<i64: [^>]*>")


def alone(call: dict[str, Any], grid: Sequence[int] | None = None) -> export.Exported:
    """A program that is one kernel. call: as `hlo.Op.call` has it. grid: in place of its own.

    Raises:
        ValueError: its body is not text, so that its grid cannot be replaced, or a dtype is not known.
    """
    config = call["config"]
    if grid is not None:
        body = base64.b64decode(config["body"])
        bounds = f"iteration_bounds = array<i64: {', '.join(map(str, grid))}>".encode()
        body, replaced = _BOUNDS.subn(bounds, body)
        if replaced != 1:
            raise ValueError(f"the kernel's text has {replaced} grids")
        config = config | {"body": base64.b64encode(body).decode()}
    operands, results = ([_shape(*array) for array in call[which]] for which in ("operands", "results"))
    kernel = jax.ffi.ffi_call(
        "tpu_custom_call",
        results,
        custom_call_api_version=1,
        legacy_backend_config=json.dumps({"custom_call_config": config}),
    )
    allowed = [export.DisabledSafetyCheck.custom_call("tpu_custom_call")]
    return export.export(jax.jit(kernel), platforms=["tpu"], disabled_checks=allowed)(*operands)


def program(call: dict[str, Any]) -> artifact.Program:
    """The same as an artifact, to plan its profile."""
    return artifact.read(alone(call).serialize())


def _shape(dtype: str, dims: Sequence[int]) -> jax.ShapeDtypeStruct:
    name = _DTYPES.get(dtype) or re.sub(
        r"^([su])(\d+)$", lambda found: {"s": "int", "u": "uint"}[found[1]] + found[2], dtype
    )
    try:
        return jax.ShapeDtypeStruct(tuple(dims), jnp.dtype(name))
    except TypeError as error:
        raise ValueError(f"an operand has dtype {dtype}") from error

"""Whether a kernel's call is written as jax writes it.

What the evaluator passes over must mean nothing: an attribute, a layout or a function that it ignores and libtpu does
not would let a kernel compute one thing here and another on a TPU. So whatever is not known to mean nothing is refused.
"""

import base64
import json
from typing import Any

from jax._src.lib.mlir import ir

from hawkeye_mcp.artifact import operations
from hawkeye_mcp.mosaic_eval.errors import Unsupported

_CALL = {
    "call_target_name", "backend_config", "api_version", "has_side_effect", "kernel_name", "called_computations",
    "operand_layouts", "result_layouts", "output_operand_aliases", "mhlo.frontend_attributes",
}  # fmt: skip
_CONFIG = {"custom_call_config", "scoped_memory_configs"}
_CUSTOM_CALL_CONFIG = {
    "body", "cost_estimate", "needs_hlo_passes", "serialization_format", "needs_layout_passes", "allow_input_fusion",
    "shape_invariant_numerics", "internal_scratch_in_bytes", "output_memory_space_colors", "input_memory_space_colors",
    "disable_bounds_checks", "disable_semaphore_checks", "skip_device_barrier",
}  # fmt: skip
_MAIN = {
    "sym_name", "function_type", "iteration_bounds", "scalar_prefetch", "scratch_operands", "window_params",
    "dimension_semantics", "tpu.core_type",
}  # fmt: skip
_FUNCTION = {"sym_name", "function_type", "sym_visibility"}
_WINDOW = {"transform_indices", "window_bounds", "window_kind", "pipeline_mode", "revisit_mode"}


def check_call(op: ir.Operation) -> None:
    """The custom call itself.

    Raises:
        Unsupported.
    """
    _known("attribute of the call", _names(op.attributes), _CALL)
    for layouts, values in (("operand_layouts", op.operands), ("result_layouts", op.results)):
        if layouts in op.attributes:
            _row_major(ir.ArrayAttr(op.attributes[layouts]), list(values))
    try:
        config = json.loads(ir.StringAttr(op.attributes["backend_config"]).value, object_pairs_hook=_once)
        inner = config["custom_call_config"]
        plain = base64.b64encode(base64.b64decode(inner["body"])).decode() == inner["body"]
    except (KeyError, TypeError, ValueError) as error:
        raise Unsupported(f"backend_config ({type(error).__name__}: {error})") from None
    _known("key of backend_config", config, _CONFIG)
    _known("key of custom_call_config", inner, _CUSTOM_CALL_CONFIG)
    if not plain or inner.get("serialization_format", 1) != 1:
        raise Unsupported("a body in another encoding")


def check_module(main: ir.Operation, functions: dict[str, Any], module: ir.Module) -> None:
    """The functions of a kernel's module, once read.

    Raises:
        Unsupported.
    """
    first, *others = list(module.body.operations)
    if first.operation != main or len(functions) != 1 + len(others):
        raise Unsupported("a module whose kernel does not come first, or that has more than functions")
    _known("attribute of the kernel", _names(main.attributes), _MAIN)
    used = {str(ir.StringAttr(main.attributes["sym_name"]).value)}
    if "window_params" in main.attributes:
        for each in ir.ArrayAttr(main.attributes["window_params"]):
            window = ir.DictAttr(each)
            _known("attribute of a window", [named.name for named in window], _WINDOW)
            if "transform_indices" in window and isinstance(window["transform_indices"], ir.FlatSymbolRefAttr):
                used.add(str(window["transform_indices"].value))
    for op in operations(module.operation):
        if op.name == "func.call":
            used.add(str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value))
    if unused := sorted(set(functions) - used):
        raise Unsupported(f"function {unused[0]}, which nothing names")
    for function in functions.values():
        if function != main:
            _known("attribute of a function", _names(function.attributes), _FUNCTION)


def check_layout(kind: Any) -> None:
    """Raises Unsupported for a memref whose elements do not stand row after row."""
    if not isinstance(kind, ir.MemRefType):
        return
    unknown = ir.Location.unknown(kind.context)
    plain = ir.MemRefType.get(list(kind.shape), kind.element_type, None, kind.memory_space, loc=unknown)
    if plain != kind:
        raise Unsupported(f"memory with a layout, {kind}")


def _names(attributes: Any) -> list[str]:
    return [str(getattr(each, "name", each)) for each in attributes]


def _known(what: str, found: Any, known: set[str]) -> None:
    if unknown := sorted(set(found) - known):
        raise Unsupported(f"{what} {unknown[0]}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _row_major(layouts: Any, values: list[Any]) -> None:
    if len(layouts) != len(values):
        raise Unsupported("layouts of other arrays")
    for layout, value in zip(layouts, values, strict=True):
        order = [int(n) for n in ir.DenseIntElementsAttr(layout)]
        if order != list(reversed(range(ir.RankedTensorType(value.type).rank))):
            raise Unsupported(f"an array laid out as {order}")

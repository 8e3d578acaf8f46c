"""A Mosaic kernel taken out of its artifact and put alone into a program, several grids side by side.

libtpu's profiler walks every operation of a program and aborts the process on some that XLA puts around kernels;
alone, a kernel is all it walks, and one compilation serves all points of a sampling plan.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import export
from jax._src.export import _export
from jax._src.lib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hawkeye_mcp.profiler.mosaic import MosaicCall
from hawkeye_mcp.profiler.shortening import with_grid

POINT = "hawkeye_point"  # the attribute that tells the copies apart in the compiled program

_DTYPES = {
    "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "i4": "int4", "i2": "int2",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64", "ui4": "uint4", "ui2": "uint2",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f4E2M1FN": "float4_e2m1fn",
}  # fmt: skip


def cut_out(call: MosaicCall, grids: Sequence[Sequence[int]]) -> export.Exported:
    """A program whose inputs are the kernel's operands and whose outputs are its results, once for each grid."""
    shapes = [aval(value.type) for value in call.op.operands]
    results = [aval(value.type) for value in call.op.results]

    def carrier(*operands: jax.Array) -> list[jax.Array]:
        return [jnp.zeros(r.shape, r.dtype) for _ in grids for r in results]

    exported = export.export(jax.jit(carrier, keep_unused=True), platforms=["tpu"])(*shapes)
    with call.op.context as context, ir.Location.unknown(context):
        module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
        block = module.body.operations[0].regions[0].blocks[0]
        end = list(block)[-1].operation
        outputs = []
        for i, grid in enumerate(grids):
            copy = call.op.clone(ir.InsertionPoint(end))
            for at, argument in enumerate(block.arguments):
                copy.operands[at] = argument
            copy.attributes["backend_config"] = ir.StringAttr.get(with_grid(call, grid))
            copy.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({POINT: ir.StringAttr.get(str(i))})
            outputs += list(copy.results)
        for at, value in enumerate(outputs):
            end.operands[at] = value
        return dataclasses.replace(exported, mlir_module_serialized=_export._module_to_bytecode(module))


def aval(kind: ir.Type) -> jax.ShapeDtypeStruct:
    tensor = ir.RankedTensorType(kind)
    return jax.ShapeDtypeStruct(tuple(tensor.shape), jnp.dtype(_DTYPES[str(tensor.element_type)]))

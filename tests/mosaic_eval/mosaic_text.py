"""Kernels written as MLIR text, so that a test says exactly which operation runs."""

import base64
import json

import numpy as np
from jax._src.lib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from hawkeye_mcp import artifact
from hawkeye_mcp.mosaic_eval.kernel import Kernel
from hawkeye_mcp.profiler.mosaic import MosaicCall

_NAMES = {"float32": "f32", "bfloat16": "bf16", "int32": "i32", "int8": "i8", "int16": "i16", "int4": "i4"}
_NAMES |= {"float8_e5m2": "f8E5M2", "float8_e4m3fn": "f8E4M3FN", "int64": "i64", "uint32": "ui32", "uint8": "ui8"}


def tensor(shape, dtype) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{_NAMES[str(np.dtype(dtype))]}>"


def run(text: str, operands, results, *, exact=True, attributes="", before=""):
    """The results of a module's kernel for operands; results: (shape, dtype) of each.

    attributes: of the call, in MLIR. before: what stands before its configuration, in JSON.
    """
    context = artifact.mlir_context()
    with context, ir.Location.unknown(context):
        module = ir.Module.parse(text)
        PassManager.parse("builtin.module(mosaic-serde{serialize=true})").run(module.operation)
        body = base64.b64encode(str(module).encode()).decode()
        config = f'{{{before}"custom_call_config": {{"body": "{body}"}}}}'
        kinds = ", ".join(tensor(x.shape, x.dtype) for x in operands)
        values = ", ".join(f"%a{i}" for i in range(len(operands)))
        arguments = ", ".join(f"%a{i}: {tensor(x.shape, x.dtype)}" for i, x in enumerate(operands))
        out = ", ".join(tensor(*result) for result in results)
        program = ir.Module.parse(
            f"func.func @main({arguments}) -> ({out}) {{\n"
            f"  %r:{len(results)} = stablehlo.custom_call @tpu_custom_call({values})"
            f' {{backend_config = {json.dumps(config)}, kernel_name = "kernel"{", " if attributes else ""}{attributes}}}'
            f" : ({kinds}) -> ({out})\n"
            f"  return {', '.join(f'%r#{i}' for i in range(len(results)))} : {out}\n}}"
        )
        op = program.body.operations[0].regions[0].blocks[0].operations[0].operation
        call = MosaicCall(op, 1, {}, ir.Module.parse(str(module)))
        kernel = Kernel(call, context, exact=exact)
    return kernel(*operands)


def elementwise(operation: str, *operands, out=None, attributes=""):
    """One operation on whole vectors, as MLIR prints it: `operation %x0, %x1 : TYPE` or, with another result, `to`."""
    shape = operands[0].shape
    out = np.dtype(out or operands[0].dtype)

    def vector(dtype):
        return f"vector<{'x'.join(map(str, shape))}x{'i1' if np.dtype(dtype) == np.bool_ else _NAMES[str(np.dtype(dtype))]}>"

    names = ", ".join(f"%x{i}" for i in range(len(operands)))
    kinds = ", ".join(vector(x.dtype) for x in operands)
    line = f'%r = "{operation}"({names}) {attributes} : ({kinds}) -> {vector(out)}'
    if out == np.bool_:  # memory holds no booleans
        out = np.dtype(np.int32)
        line = line.replace("%r =", "%b =") + f"\n  %r = arith.extui %b : {vector(np.bool_)} to {vector(out)}"
    return whole(line, operands, out, shape)


def whole(lines: str, operands, out, shape):
    """Lines that make a vector %r of a shape and dtype from vectors %x0, %x1, ..."""

    def of(n, dtype, kind, suffix=""):
        return f"{kind}<{'x'.join(map(str, n))}x{_NAMES[str(np.dtype(dtype))]}{suffix}>"

    space = ", #tpu.memory_space<vmem>"
    arguments = ", ".join(f"%m{i}: {of(x.shape, x.dtype, 'memref', space)}" for i, x in enumerate(operands))
    body = ["  %c = arith.constant 0 : index"]
    for i, x in enumerate(operands):
        zeros = ", ".join(["%c"] * x.ndim)
        body.append(
            f"  %x{i} = vector.load %m{i}[{zeros}] : {of(x.shape, x.dtype, 'memref', space)}, {of(x.shape, x.dtype, 'vector')}"
        )
    zeros = ", ".join(["%c"] * len(shape))
    body += [
        f"  {lines}",
        f"  vector.store %r, %o[{zeros}] : {of(shape, out, 'memref', space)}, {of(shape, out, 'vector')}",
        "  return",
    ]
    text = f"func.func @kernel({arguments}, %o: {of(shape, out, 'memref', space)}) {{\n" + "\n".join(body) + "\n}"
    (result,) = run(text, operands, [(shape, out)])
    return result

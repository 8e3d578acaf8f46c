"""A whole artifact for the TPU run on the CPU: XLA runs what is around the kernels and calls back for each kernel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src import compiler, xla_bridge
from jax._src.lib import _jax
from jax._src.lib.mlir import ir

from hawkeye_mcp.artifact import Program, operations
from hawkeye_mcp.mosaic_eval.errors import Ended, Unsupported
from hawkeye_mcp.mosaic_eval.kernel import Kernel
from hawkeye_mcp.mosaic_eval.types import Array
from hawkeye_mcp.profiler.mosaic import mosaic_calls, target

_CALLBACK = "xla_ffi_python_cpu_callback"


@dataclass(frozen=True)
class Runnable:
    """A program compiled for the CPU. program: keeps what the kernels stand in."""

    program: Program
    executable: Any
    failed: list[Ended]

    def __call__(self, inputs: Sequence[Any]) -> list[Array]:
        """Its outputs.

        Raises:
            Ended: a kernel ended other than with values, or these are not the program's inputs.
        """
        self.failed.clear()
        given = [(tuple(x.shape), str(x.dtype)) for x in inputs]
        if given != self.program.inputs:
            raise Unsupported(f"a program that takes {self.program.inputs}")
        kept = [inputs[i] for i in self.program.exported.module_kept_var_idx]
        try:
            results = self.executable.execute_sharded([jax.device_put(x) for x in kept])
            return [np.asarray(one) for (one,) in results.disassemble_into_single_device_arrays()]
        except _jax.JaxRuntimeError as error:
            raise (self.failed[0] if self.failed else Unsupported(_outside(error))) from None


def runnable(program: Program, *, exact: bool) -> Runnable:
    """Translate the kernels of an artifact for the TPU and compile what is around them. Uses the program's module up.

    exact: float32 operands of matmuls at the default precision are not rounded to bfloat16 as on a TPU.

    Raises:
        Ended: something in it is not supported.
    """
    kernels = []
    failed: list[Ended] = []
    if program.exported.ordered_effects or program.exported.nr_devices != 1:
        raise Unsupported("a program with side effects or for several devices")
    with program.context, ir.Location.unknown(program.context):
        for op in operations(program.module.operation):
            if op.name.endswith("custom_call") and target(op) not in ("tpu_custom_call", "Sharding"):
                raise Unsupported(f"custom call {target(op)}")
    for call in mosaic_calls(program):
        kernels.append(_reported(Kernel(call, program.context, exact=exact), failed))
        with program.context, ir.Location.unknown(program.context):
            _replace(call.op, len(kernels) - 1)
    backend = xla_bridge.get_backend("cpu")
    with program.context:
        try:
            executable = compiler.backend_compile_and_load(
                backend,
                program.module,
                _jax.DeviceList(tuple(backend.local_devices()[:1])),
                compiler.get_compile_options(1, 1, backend=backend),
                kernels,
            )
        except _jax.JaxRuntimeError as error:
            raise Unsupported(_outside(error)) from error
    return Runnable(program, executable, failed)


def _outside(error: Exception) -> str:
    return f"the program around the kernels: {str(error)[:500]}"


def _replace(op: ir.Operation, number: int) -> None:
    """A kernel's call by one that calls back."""
    unsigned, plain = ir.IntegerType.get_unsigned(64), ir.IntegerType.get_signless(32)
    attributes = {
        "call_target_name": ir.StringAttr.get(_CALLBACK),
        "api_version": ir.IntegerAttr.get(plain, 4),
        "has_side_effect": ir.BoolAttr.get(False),
        "backend_config": ir.DictAttr.get({"index": ir.IntegerAttr.get(unsigned, number)}),
    }
    new = ir.Operation.create(
        "stablehlo.custom_call",
        results=[result.type for result in op.results],
        operands=list(op.operands),
        attributes=attributes,
        ip=ir.InsertionPoint(op),
    )
    for before, after in zip(op.results, new.results, strict=True):
        before.replace_all_uses_with(after)
    op.erase()


def _reported(kernel: Kernel, failed: list[Ended]) -> Callable[..., tuple[Array, ...]]:
    """XLA passes an exception on as text: the exception itself is kept beside."""

    def run(*operands: Array) -> tuple[Array, ...]:
        try:
            return kernel(*operands)
        except Ended as ended:
            failed.append(ended)
            raise
        except Exception as error:  # of a program that no translator foresaw
            failed.append(Unsupported(f"{type(error).__name__}: {error}"[:500]))
            raise

    return run

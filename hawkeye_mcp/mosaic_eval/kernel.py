"""One Mosaic kernel run on numpy arrays: its grid in order, its windows moved as the pipeline moves them.

What a TPU leaves undefined is NaN, or the least integer, here: scratch and output blocks that nothing wrote, what lies
past the edge of an array in a partial block, an output block that is visited again after another one.
"""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax._src.lib import tpu  # noqa: F401  (its operations' classes)
from jax._src.lib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from hawkeye_mcp.mosaic_eval import access, control, form, pure  # noqa: F401  (their translators)
from hawkeye_mcp.mosaic_eval.errors import Ended, Exhausted, Fault, Unsupported
from hawkeye_mcp.mosaic_eval.machine import Function, Machine, numbers
from hawkeye_mcp.mosaic_eval.memory import Ref, recast
from hawkeye_mcp.mosaic_eval.types import Array, Dtype, dtype_of, memref, undefined
from hawkeye_mcp.profiler.mosaic import MosaicCall

_DYNAMIC = -(2**63)  # MLIR's ShapedType::kDynamic
MOST_GRID_STEPS = 100_000


@dataclass
class _Window:
    """One operand or result as the body sees it.

    transform: its index map, None where the whole array is there. padding: elements before the array, of element
    windows. buffer: the block that is on the chip, with the start of what it holds.
    """

    array: Array
    is_output: bool
    transform: Function | None = None
    block: tuple[int, ...] = ()
    by_element: bool = False
    padding: tuple[int, ...] = ()
    start: tuple[int, ...] | None = None
    buffer: Array = field(default_factory=lambda: np.zeros(0))

    def move(self, point: Sequence[Any], prefetched: Sequence[Ref]) -> Array:
        """The block at a point of the grid; writes back the one before if that was another."""
        if self.transform is None:
            return self.array
        indices = [int(i) for i in self.transform(*point, *prefetched)]
        if self.by_element:
            start = tuple(i - low for i, low in zip(indices, self.padding, strict=True))
        else:
            start = tuple(i * n for i, n in zip(indices, self.block, strict=True))
            if any(
                s <= -n or s >= max(size, 1) for s, n, size in zip(start, self.block, self.array.shape, strict=True)
            ):
                raise Fault(f"block {indices} of {list(self.block)}, outside of a {list(self.array.shape)} array")
        if start != self.start:
            self.write_back()
            self.start, self.buffer = start, undefined(self.block, self.array.dtype)
            if not self.is_output:
                inside, part = self._overlap(start)
                self.buffer[part] = self.array[inside]
        return self.buffer

    def write_back(self) -> None:
        if self.is_output and self.transform is not None and self.start is not None:
            inside, part = self._overlap(self.start)
            self.array[inside] = self.buffer[part]

    def _overlap(self, start: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """What of the array a block covers, in the array and in the block."""
        low = [max(0, s) for s in start]
        high = [min(n, s + b) for s, b, n in zip(start, self.block, self.array.shape, strict=True)]
        high = [max(a, b) for a, b in zip(low, high, strict=True)]
        inside = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        return inside, tuple(slice(a - s, b - s) for a, b, s in zip(low, high, start, strict=True))


class Kernel:
    """A kernel made ready to run on arrays of its operands' shapes. The call's program must outlive it, its call not."""

    def __init__(self, call: MosaicCall, context: ir.Context, *, exact: bool) -> None:
        """Raises Ended."""
        self._context, self._exact = context, exact
        with context:
            form.check_call(call.op)
            self._functions = _functions(call)  # first: it replaces the operations of the module
            self._main, self._grid, self._prefetched, self._name = call.main, call.grid, call.prefetched, call.name
            form.check_module(self._main, self._functions, call.body)
            attributes = self._main.attributes
            if "tpu.core_type" in attributes and str(attributes["tpu.core_type"]) != "#tpu.core_type<tc>":
                raise Unsupported(f"tpu.core_type {attributes['tpu.core_type']}", f"kernel {self._name}")
            self._aliases = {output: operand for operand, output in _aliases(call.op)}
            self._results = [_tensor(value.type) for value in call.op.results]
            self._body_of = call.body  # owns the functions

    def __call__(self, *operands: Array) -> tuple[Array, ...]:
        """Raises Ended."""
        where = f"kernel {self._name}"
        try:
            with self._context, np.errstate(all="ignore"):
                return self._run([np.asarray(operand) for operand in operands])
        except Ended as ended:
            raise ended.at(where) from None
        except RecursionError as error:
            raise Exhausted("functions within functions", where) from error
        except MemoryError as error:
            raise Exhausted("out of memory", where) from error

    def _run(self, operands: list[Array]) -> tuple[Array, ...]:
        machine = Machine(self._name, self._functions, self._exact)
        bounds = sum(n == _DYNAMIC for n in self._grid)
        machine.grid = _bounds(self._grid, operands[:bounds])
        if math.prod(machine.grid) > MOST_GRID_STEPS:
            raise Exhausted(f"a grid of {math.prod(machine.grid)} steps")
        kinds = [argument.type for argument in self._main.regions[0].blocks[0].arguments][len(self._grid) :]
        held = [_as_memref(x, kind) for x, kind in zip(operands[bounds:], kinds, strict=False)]
        # a kernel may write to what is in SMEM or VMEM: that is its own copy
        held = [x if _stays_in_hbm(kind) else np.array(x) for x, kind in zip(held, kinds, strict=False)]
        outputs = self._outputs(held, bounds, kinds)
        prefetched = [Ref(array) for array in held[: self._prefetched]]
        windows = self._windows([*held[self._prefetched :], *outputs], len(held) - self._prefetched, machine)
        scratch = [access.new_buffer(kind) for kind in kinds[len(prefetched) + len(windows) :]]
        body = Function.of(self._main, machine)
        for point in itertools.product(*map(range, machine.grid)):
            indices = [np.int32(i) for i in point]
            blocks = [Ref(window.move(indices, prefetched)) for window in windows]
            body(*indices, *prefetched, *blocks, *scratch)
        for window in windows:
            window.write_back()
        machine.semaphores.finish()
        return tuple(recast(array, dtype) for array, (_, dtype) in zip(outputs, self._results, strict=True))

    def _outputs(self, held: list[Array], bounds: int, kinds: list[Any]) -> list[Array]:
        """Arrays for the results: an operand's own where the two share memory, which the caller's then do not."""
        outputs: list[Array] = []
        for at, (shape, result) in enumerate(self._results):
            if at in self._aliases:
                operand = self._aliases[at] - bounds
                held[operand] = np.array(held[operand])
                outputs.append(held[operand])
            else:
                _, dtype = memref(kinds[len(held) + at])
                outputs.append(undefined(shape, dtype))
            if outputs[at].shape != shape or outputs[at].dtype.itemsize != result.itemsize:
                raise Unsupported(
                    f"a result {result}{list(shape)} of an array {outputs[at].dtype}{list(outputs[at].shape)}"
                )
        return outputs

    def _windows(self, arrays: list[Array], n_inputs: int, machine: Machine) -> list[_Window]:
        params: list[Any] = [None] * len(arrays)
        if "window_params" in self._main.attributes:
            params = [ir.DictAttr(each) for each in ir.ArrayAttr(self._main.attributes["window_params"])]
        if len(params) != len(arrays):
            raise Unsupported(f"{len(params)} windows of {len(arrays)} arrays")
        return [
            _window(array, param, at >= n_inputs, machine)
            for at, (array, param) in enumerate(zip(arrays, params, strict=True))
        ]


def _window(array: Array, fields: Any, is_output: bool, machine: Machine) -> _Window:
    if fields is None or "transform_indices" not in fields or "window_bounds" not in fields:
        return _Window(array, is_output)
    if "revisit_mode" in fields and "any" in str(fields["revisit_mode"]):
        raise Unsupported(f"window with {fields['revisit_mode']}")
    name = str(ir.FlatSymbolRefAttr(fields["transform_indices"]).value)
    block = tuple(numbers(fields["window_bounds"]))
    if name not in machine.functions or len(block) != array.ndim:
        raise Unsupported(f"window {list(block)} of a {list(array.shape)} array")
    kind = str(fields["window_kind"]) if "window_kind" in fields else ""
    padding = _element_padding(kind, array.ndim) if kind else ()
    transform = Function.of(machine.functions[name], machine)
    return _Window(array, is_output, transform, block, bool(kind), padding)


def _element_padding(text: str, rank: int) -> tuple[int, ...]:
    """Elements before the array, of #tpu.element_window<[before, ...],[after, ...]>, which has no Python class."""
    head, _, rest = text.partition("<")
    try:
        before, _after = json.loads(f"[{rest.removesuffix('>')}]")
        found = tuple(int(n) for n in before)
    except (TypeError, ValueError):
        raise Unsupported(f"window kind {text[:200]}") from None
    if head != "#tpu.element_window" or len(found) != rank:
        raise Unsupported(f"window kind {text[:200]}")
    return found


def _functions(call: MosaicCall) -> dict[str, Any]:
    """The functions of the module, in the dialects that jaxlib has, by name.

    Raises:
        Unsupported: the module is not one that this jaxlib reads.
    """
    try:
        PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(call.body.operation)
        call.body.operation.verify()
    except ir.MLIRError as error:
        raise Unsupported(f"the module cannot be read: {str(error)[:500]}") from error
    return {
        str(ir.StringAttr(op.operation.attributes["sym_name"]).value): op.operation
        for op in call.body.body.operations
        if op.operation.name == "func.func"
    }


def _aliases(op: ir.Operation) -> list[tuple[int, int]]:
    """(operand, result) pairs that share memory."""
    if "output_operand_aliases" not in op.attributes:
        return []
    found = []
    for each in ir.ArrayAttr(op.attributes["output_operand_aliases"]):
        alias = stablehlo.OutputOperandAlias(each)
        at = list(alias.output_tuple_indices)
        found.append((int(alias.operand_index), int(at[0]) if at else 0))
    return found


def _tensor(kind: Any) -> tuple[tuple[int, ...], Dtype]:
    tensor = ir.RankedTensorType(kind)
    return tuple(tensor.shape), dtype_of(tensor.element_type)


def _bounds(declared: Sequence[int], bounds: Sequence[Array]) -> tuple[int, ...]:
    computed = iter(bounds)
    return tuple(int(next(computed).item()) if n == _DYNAMIC else n for n in declared)


def _stays_in_hbm(kind: Any) -> bool:
    return str(ir.MemRefType(kind).memory_space) in ("#tpu.memory_space<any>", "#tpu.memory_space<hbm>")


def _as_memref(array: Array, kind: Any) -> Array:
    """An operand with the element type that the kernel sees; unsigned integers are signed ones there.

    Raises:
        Unsupported.
    """
    shape, dtype = memref(kind)
    if array.dtype.itemsize != dtype.itemsize or (len(shape) != array.ndim):
        raise Unsupported(f"an operand {array.dtype}{list(array.shape)} for {kind}")
    return recast(array, dtype)

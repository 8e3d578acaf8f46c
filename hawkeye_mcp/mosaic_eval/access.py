"""Translators of what reads and writes memory: loads, stores, views, transfers, semaphores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax._src.lib.mlir import ir

from hawkeye_mcp.mosaic_eval.errors import Fault, Unsupported
from hawkeye_mcp.mosaic_eval.machine import Frame, Instruction, Scope, flag, numbers, translator
from hawkeye_mcp.mosaic_eval.memory import Index, Ref, span
from hawkeye_mcp.mosaic_eval.types import memref, undefined, vector

_DYNAMIC = -(2**63)  # MLIR's ShapedType::kDynamic
_SEMAPHORES = ("!tpu.semaphore", "!tpu.dma_semaphore")


def new_buffer(kind: Any) -> Ref:
    """What a memref type describes, with nothing written to it.

    Raises:
        Unsupported, Exhausted.
    """
    known = ir.MemRefType(kind)
    if not known.has_static_shape:
        raise Unsupported(f"memory of unknown size, {kind}")
    if str(known.element_type) in _SEMAPHORES:
        return Ref(np.zeros(tuple(known.shape), np.int64))
    return Ref(undefined(*memref(kind)))


@translator("memref.alloca", "memref.alloc", "tpu.sem_alloc")
def _allocate(op: Any, scope: Scope) -> Instruction:
    if list(op.operation.operands):
        raise Unsupported(f"{op.operation.name} of a size that is computed")
    result, kind = scope.define(op.operation.results[0]), op.operation.results[0].type
    new_buffer(kind)

    def run(frame: Frame) -> None:
        frame[result] = new_buffer(kind)

    return run


def _integers(frame: Frame, slots: Sequence[int]) -> list[int]:
    return [int(frame[slot]) for slot in slots]


@translator("memref.load")
def _scalar_load(op: Any, scope: Scope) -> Instruction:
    base, *indices = scope.slots(op.operation.operands)
    result = scope.define(op.operation.results[0])

    def run(frame: Frame) -> None:
        ref: Ref = frame[base]
        at = _inside(ref, _integers(frame, indices))
        frame[result] = ref.read(at)

    return run


@translator("memref.store")
def _scalar_store(op: Any, scope: Scope) -> Instruction:
    value, base, *indices = scope.slots(op.operation.operands)

    def run(frame: Frame) -> None:
        ref: Ref = frame[base]
        ref.write(_inside(ref, _integers(frame, indices)), frame[value])

    return run


def _inside(ref: Ref, indices: list[int]) -> tuple[int, ...]:
    if any(not 0 <= i < n for i, n in zip(indices, ref.shape, strict=True)):
        raise Fault(f"element {indices} of a {list(ref.shape)} array")
    return tuple(indices)


@translator("vector.load", "tpu.vector_load", "tpu.strided_load")
def _load(op: Any, scope: Scope) -> Instruction:
    base, indices = scope.slot(op.base), scope.slots(op.indices)
    masked = op.operation.name == "tpu.vector_load" and op.mask is not None
    if masked:
        raise Unsupported("tpu.vector_load with a mask")  # what the others hold is not defined
    strides = _strides(op)
    result = scope.define(op.operation.results[0])
    shape, _ = vector(op.operation.results[0].type)

    def run(frame: Frame) -> None:
        ref: Ref = frame[base]
        part = _part(ref, _integers(frame, indices), shape, strides)
        frame[result] = ref.read(part).reshape(shape)

    return run


@translator("vector.store", "tpu.vector_store", "tpu.strided_store")
def _store(op: Any, scope: Scope) -> Instruction:
    value = op.operation.operands[0]
    source, base, indices = scope.slot(value), scope.slot(op.base), scope.slots(op.indices)
    given = op.mask if op.operation.name == "tpu.vector_store" else None
    mask = scope.slot(given) if given is not None else None
    strides = _strides(op)
    shape, dtype = vector(value.type)
    if flag(op, "add"):
        raise Unsupported(f"{op.operation.name} that adds")

    def run(frame: Frame) -> None:
        ref: Ref = frame[base]
        if ref.dtype != dtype:
            raise Unsupported(f"a store of {dtype} into {ref.dtype}")
        part = _part(ref, _integers(frame, indices), shape, strides)
        padded = (1,) * (len(ref.shape) - len(shape)) + shape
        ref.write(part, frame[source].reshape(padded), None if mask is None else frame[mask].reshape(padded))

    return run


def _strides(op: Any) -> list[int] | None:
    attributes = op.operation.attributes
    found = numbers(attributes["strides"]) if "strides" in attributes else []
    return found or None


def _part(ref: Ref, starts: list[int], shape: tuple[int, ...], strides: list[int] | None) -> Index:
    """A vector of less rank covers the last dimensions."""
    rank = len(ref.shape)
    sizes = (1,) * (rank - len(shape)) + shape
    steps = [1] * (rank - len(strides)) + strides if strides else None
    return span(ref.shape, starts, sizes, steps)


@translator("tpu.memref_slice")
def _slice(op: Any, scope: Scope) -> Instruction:
    base, starts, sizes = scope.slot(op.mem_ref), scope.slots(op.base_idx), scope.slots(op.dynamic_sizes)
    result = scope.define(op.operation.results[0])
    declared = tuple(ir.MemRefType(op.operation.results[0].type).shape)

    def run(frame: Frame) -> None:
        computed = iter(_integers(frame, sizes))
        shape = [next(computed) if n == _DYNAMIC else n for n in declared]
        ref: Ref = frame[base]
        frame[result] = ref.cut(span(ref.shape, _integers(frame, starts), shape), shape)

    return run


@translator("tpu.memref_squeeze", "tpu.memref_reshape")
def _reshape(op: Any, scope: Scope) -> Instruction:
    (base,) = scope.slots(op.operation.operands)
    result = scope.define(op.operation.results[0])
    declared = tuple(ir.MemRefType(op.operation.results[0].type).shape)
    squeezes = op.operation.name == "tpu.memref_squeeze"

    def run(frame: Frame) -> None:
        ref: Ref = frame[base]
        shape = declared
        if any(n == _DYNAMIC for n in declared):
            if not squeezes:
                raise Unsupported("tpu.memref_reshape to a size that is computed")
            shape = _squeezed(ref.shape, declared)
        frame[result] = ref.cut((slice(None),) * len(ref.shape), shape)

    return run


def _squeezed(shape: tuple[int, ...], declared: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without ones, where that has the rank that is declared."""
    longer = tuple(n for n in shape if n != 1)
    if len(longer) != len(declared):
        raise Unsupported("tpu.memref_squeeze of a computed size of 1")
    return longer


@translator("tpu.memref_bitcast")
def _bitcast(op: Any, scope: Scope) -> Instruction:
    (base,) = scope.slots(op.operation.operands)
    result = scope.define(op.operation.results[0])
    shape, dtype = memref(op.operation.results[0].type)

    def run(frame: Frame) -> None:
        changed = frame[base].recast(dtype)
        frame[result] = changed if changed.shape == shape else changed.cut((slice(None),) * len(changed.shape), shape)

    return run


@translator("tpu.reinterpret_cast", "memref.cast", "tpu.erase_memref_layout")
def _other_type(op: Any, scope: Scope) -> Instruction:
    """The same memory under another layout."""
    (base,) = scope.slots(op.operation.operands)
    result = scope.define(op.operation.results[0])
    declared = tuple(ir.MemRefType(op.operation.results[0].type).shape)

    def run(frame: Frame) -> None:
        ref: Ref = frame[base]
        if len(ref.shape) != len(declared) or any(
            n not in (m, _DYNAMIC) for n, m in zip(declared, ref.shape, strict=True)
        ):
            raise Unsupported(f"{op.operation.name} of {list(ref.shape)} to {list(declared)}")
        frame[result] = ref

    return run


@translator("tpu.enqueue_dma")
def _start_transfer(op: Any, scope: Scope) -> Instruction:
    if op.device_id is not None or op.source_semaphore is not None:
        raise Unsupported("tpu.enqueue_dma to another device")
    if op.core_id is not None or op.target_semaphore is None:
        raise Unsupported("tpu.enqueue_dma to another core")
    source, target, arrived = (scope.slot(value) for value in (op.source, op.target, op.target_semaphore))
    semaphores = scope.machine.semaphores

    def run(frame: Frame) -> None:
        semaphores.start(frame[source], frame[target], frame[arrived])

    return run


@translator("tpu.wait_dma2")
def _wait_for_transfer(op: Any, scope: Scope) -> Instruction:
    semaphore, target = scope.slot(op.semaphore), scope.slot(op.dst)
    semaphores = scope.machine.semaphores

    def run(frame: Frame) -> None:
        semaphores.wait(frame[semaphore], frame[target].nbytes)

    return run


@translator("tpu.sem_signal")
def _signal(op: Any, scope: Scope) -> Instruction:
    if op.device_id is not None or op.core_id is not None:
        raise Unsupported("tpu.sem_signal to another device or core")
    semaphore, amount = scope.slot(op.semaphore), scope.slot(op.amount)
    semaphores = scope.machine.semaphores

    def run(frame: Frame) -> None:
        semaphores.signal(frame[semaphore], int(frame[amount]))

    return run


@translator("tpu.sem_wait")
def _wait(op: Any, scope: Scope) -> Instruction:
    semaphore, amount = scope.slot(op.semaphore), scope.slot(op.amount)
    semaphores = scope.machine.semaphores

    def run(frame: Frame) -> None:
        semaphores.wait(frame[semaphore], int(frame[amount]))

    return run


@translator("tpu.sem_read")
def _read_semaphore(op: Any, scope: Scope) -> Instruction:
    semaphore, result = scope.slot(op.semaphore), scope.define(op.operation.results[0])
    semaphores = scope.machine.semaphores

    def run(frame: Frame) -> None:
        frame[result] = np.int32(semaphores.read(frame[semaphore]))

    return run

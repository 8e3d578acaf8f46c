"""Copies and semaphores: what runs beside the kernel, and what it waits for."""

import threading
from typing import Any

from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.pallas.mosaic.interpret import shared_memory as memory

from .record import active
from .shadow import IN_FLIGHT, clipped, key_of, named, range_of, shown

_DMA = interpreter.DMA


def begin_dma(*args: Any, **fields: Any) -> Any:
    """A DMA has been started: until it is waited for, nobody may rely on what it will write."""
    dma = _DMA(*args, **fields)
    watch = active()
    watch.beside = True
    ends = (
        (
            "reads",
            dma.src_device_id,
            dma.src_local_core_id,
            dma.src_memory_space,
            dma.src_buffer_id,
            dma.src_transforms,
        ),
        (
            "writes",
            dma.dst_device_id,
            dma.dst_local_core_id,
            dma.dst_memory_space,
            dma.dst_buffer_id,
            dma.dst_transforms,
        ),
    )
    for does, device_id, core, space, buffer, transforms in ends:
        key = key_of(device_id, core, space, buffer)
        shadow = watch.shadows.get(key)
        if shadow is None:
            continue
        where = range_of(transforms, shadow.state.shape)
        itemsize = interpreter._get_shared_memory().mem[key].dtype.itemsize
        if shadow.reaches_padding(key, where, itemsize):
            where = clipped(where, shadow.state.shape)
        if not shadow.within(where):
            watch.find("out_of_bounds", watch.line(dma.source_info), f"a copy {does} {shown(where)} of {named(shadow)}")
        elif does == "writes":
            shadow.state[where] = IN_FLIGHT
    return dma


def validate(token: Any, device_id: Any) -> Any:
    """A kernel ends: no copy may be in flight, no semaphore may hold a count."""
    watch, shared = active(), interpreter._get_shared_memory()
    for semaphore in [*shared.sem.values(), *shared.fixed_id_sem.values()]:
        pending = False
        for tasks in semaphore.tasks:
            for task in tasks:
                dma = getattr(task, "__self__", None)
                if isinstance(dma, _DMA) and dma.state is not interpreter.DmaState.COMPLETED:
                    pending = True
                    watch.find("dma_never_waited", watch.line(dma.source_info), "starts a copy that nothing waits for")
        if not pending and semaphore.count_by_core.any():
            line = getattr(semaphore, "signalled_at", 0)
            left = int(semaphore.count_by_core[semaphore.count_by_core.nonzero()][0])
            watch.find("semaphore_not_zero", line, f"a semaphore still holds {left} when the kernel ends")
    return token


class WouldWaitForever(RuntimeError):
    """The only core waits for a signal that nobody is left to send."""


class _Patience(threading.Condition):
    """A condition variable that a single core never waits on: no other could change what it waits for."""

    def wait(self, timeout: float | None = None) -> bool:
        active().find("wait_never_ends", _waiting.get("line", 0), "waits for a signal or a copy that was never started")
        raise WouldWaitForever


_waiting: dict[str, int] = {}
_semaphore_init, _signal, _wait = memory.Semaphore.__init__, memory.Semaphore.signal, memory.Semaphore.wait


def semaphore_init(self: Any, shared_memory: Any, *args: Any, **how: Any) -> None:
    _semaphore_init(self, shared_memory, *args, **how)
    if shared_memory.num_cores == 1:
        self.cv = _Patience()


def signal(self: Any, inc: Any, core: Any, clock: Any, logging_info: Any = None) -> None:
    self.signalled_at = active().line(getattr(logging_info, "source_info", None))
    _signal(self, inc, core, clock, logging_info)


def wait(self: Any, value: Any, core: Any, *, has_tasks: bool = False, logging_info: Any = None) -> None:
    _waiting["line"] = active().line(getattr(logging_info, "source_info", None))
    _wait(self, value, core, has_tasks=has_tasks, logging_info=logging_info)

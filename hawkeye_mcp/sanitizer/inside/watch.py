"""Watches kernels run under jax's TPU interpreter: every element knows whether, and how, it came to hold a value.

The interpreter fills memory that nothing has written with NaN; this goes further. Each buffer has a shadow that says for
every element why it should not be relied on (`FRESH`, `PADDING`, `CARRIED`, `IN_FLIGHT`), and that travels with copies.
What a kernel reads of such elements is filled in at the read, one place in the code at a time, so that a read that is
masked away afterwards is silent, and one that reaches the result is known by its line.

Accesses out of bounds, waits that never end, revisited blocks and races are noted instead of raised, so that one run
tells of all of them. Replaces functions of `jax._src.pallas.mosaic.interpret`; one `Watch` is active in a process.
"""

from typing import Any

import numpy as np
from jax._src import callback as jax_callback
from jax._src import source_info_util
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.pallas.mosaic.interpret import shared_memory as memory

from . import accesses, copies, grid
from .races import Races

_io_callback = jax_callback.io_callback


class _Callbacks:
    """Stands for jax's callback module inside the interpreter: gives every wait the line that it lacks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jax_callback, name)

    def io_callback(self, function: Any, *args: Any, **how: Any) -> Any:
        if function is interpreter.semaphore_wait:
            function = _at_line(function, source_info_util.current())
        return _io_callback(function, *args, **how)


def io_callback_impl(*args: Any, callback: Any, **how: Any) -> Any:
    """As jax's, without a device array for every argument, which takes longer than the interpreter's own work."""
    del how
    return [np.asarray(value) for value in callback(*args)]


def _at_line(function: Any, source_info: Any) -> Any:
    def call(*args: Any) -> Any:
        return function(*args, source_info=source_info)

    return call


def install(*, cores: int) -> None:
    """Put the watched functions in the interpreter's place; with several cores only races are watched."""
    jax_callback.io_callback_impl = io_callback_impl
    interpreter.RaceDetectionState = Races
    memory.Semaphore.__init__ = copies.semaphore_init
    memory.Semaphore.signal = copies.signal
    memory.Semaphore.wait = copies.wait
    interpreter._validate = copies.validate
    interpreter.callback = _Callbacks()
    interpreter._check_for_revisiting = grid.check_for_revisiting
    interpreter.interpret_pallas_call = grid.interpret_pallas_call
    interpreter._allocate_buffer, interpreter._deallocate_buffer = accesses.allocate_buffer, accesses.deallocate_buffer
    if cores > 1:
        return
    interpreter.get, interpreter.store, interpreter.swap = accesses.get, accesses.store, accesses.swap
    interpreter.DMA = copies.begin_dma
    interpreter._get_randomized_grid_coordinates = grid.randomized_grid_coordinates
    interpreter._get_parallel_dim_semantics = grid.parallel_dim_semantics

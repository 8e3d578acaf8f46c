"""The interpreter's functions that make, read and write memory, each with what is watched around it."""

from typing import Any

import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter

from .record import active
from .shadow import FRESH, NO_LINE, PADDING, Role, Shadow, Site, clipped, extent, key_of, named, range_of, shown

_get, _store, _swap = interpreter.get, interpreter.store, interpreter.swap
_allocate_buffer, _deallocate_buffer = interpreter._allocate_buffer, interpreter._deallocate_buffer


def allocate_buffer(token: Any, device_id: Any, core: Any, space: Any, value: Any, source_info: Any = None) -> Any:
    watch = active()
    token, buffer = _allocate_buffer(token, device_id, core, space, value, source_info)
    with watch.lock:
        role = Role("scratch", "")
        if core is None and watch.kernel and watch.allocated < len(watch.kernel.roles):
            role = watch.kernel.roles[watch.allocated]
            watch.allocated += 1
        shape = np.shape(value)
        cores = range(interpreter._get_shared_memory().num_cores_per_device) if core is None else [core]
        for each in cores:
            state = np.zeros(shape, np.uint8)
            if role.kind in ("scratch", "output window", "output"):
                state[...] = FRESH
            elif role.kind == "input" and role.shape is not None and role.shape != shape:
                state[...] = PADDING
                state[tuple(slice(0, size) for size in role.shape)] = 0
            watch.shadows[key_of(device_id, each, space, buffer)] = Shadow(role, state)
    return token, buffer


def deallocate_buffer(token: Any, device_id: Any, core: Any, space: Any, buffer: Any, source_info: Any = None) -> Any:
    active().shadows.pop(key_of(device_id, core, space, buffer), None)
    return _deallocate_buffer(token, device_id, core, space, buffer, source_info)


def get(
    token: Any, device_id: Any, core: Any, space: Any, buffer: Any, transforms: Any,
    block_indices: Any = None, point: Any = None, *, unwrapped: bool = False, **how: Any,
) -> Any:  # fmt: skip
    watch = active()
    key, original = key_of(device_id, core, space, buffer), _get.__wrapped__ if unwrapped else _get
    source_info, of_input, of_dma = how.get("source_info"), how.get("input_name"), how.get("src_device_id")
    shadow = watch.shadows[key]
    where = range_of(transforms, shadow.state.shape)
    line = watch.line(source_info)
    content = interpreter._get_shared_memory().mem[key]
    if of_dma is not None and shadow.reaches_padding(key, where, content.dtype.itemsize):
        inside = clipped(where, shadow.state.shape)
        values, state = np.zeros(extent(where), content.dtype), np.full(extent(where), PADDING, np.uint8)
        held = tuple(slice(0, size) for size in extent(inside))
        values[held], state[held] = content.content[inside], shadow.state[inside]
        _keep(core, of_dma, state)
        return token, values
    if not shadow.within(where):
        if of_input is not None:
            blocks = tuple(int(i) for i in block_indices)
            watch.find(
                "block_out_of_bounds",
                NO_LINE,
                f"the index map of input {of_input} gives block {blocks} at grid point {tuple(int(i) for i in point)},"
                f" which begins outside the array of shape {list(shadow.role.shape or shadow.state.shape)}",
            )
        else:
            watch.find("out_of_bounds", line, f"reads {shown(where)} of {named(shadow)}, outside its shape")
        values = np.zeros(extent(where), content.dtype)
        _keep(core, of_dma, np.zeros(values.shape, np.uint8))
        return token, values
    token, values = original(token, device_id, core, space, buffer, transforms, block_indices, point, **how)
    state = shadow.state[where]
    if of_dma is not None:
        _keep(core, of_dma, state.copy())
    elif of_input is not None or (source_info is None and shadow.role.kind.endswith("window")):
        _keep(core, None, state.copy())
        if shadow.role.kind == "output window":  # written back: what the window holds next is not this block
            shadow.state[...] = FRESH
    elif state.any():
        kernel = watch.kernel.name if watch.kernel else ""
        values = watch.filled(
            values, state, lambda code: Site(kernel, line, shadow.role.kind, shadow.role.name, code)
        )  # fmt: skip
    return token, values


def _keep(core: Any, dma: Any, state: Any) -> None:
    """What is known of values on their way, until `store` puts them down."""
    active().copied[int(dma) if dma is not None else -1 - int(core)] = state


def store(
    token: Any, device_id: Any, core: Any, space: Any, buffer: Any, transforms: Any, value: Any,
    block_indices: Any = None, point: Any = None, *, unwrapped: bool = False, **how: Any,
) -> Any:  # fmt: skip
    watch = active()
    key, original = key_of(device_id, core, space, buffer), _store.__wrapped__ if unwrapped else _store
    source_info, of_output, of_dma = how.get("source_info"), how.get("output_name"), how.get("src_device_id")
    shadow = watch.shadows[key]
    where = range_of(transforms, shadow.state.shape)
    copied = watch.copied.pop(int(of_dma) if of_dma is not None else -1 - int(core), None)
    content = interpreter._get_shared_memory().mem[key]
    if of_dma is not None and shadow.reaches_padding(key, where, content.dtype.itemsize):
        inside = clipped(where, shadow.state.shape)
        held = tuple(slice(0, size) for size in extent(inside))
        content.content[inside] = np.asarray(value)[held]
        shadow.state[inside] = copied[held] if copied is not None else 0
        return token
    if not shadow.within(where):
        if of_output is not None:
            blocks = tuple(int(i) for i in block_indices)
            watch.find(
                "block_out_of_bounds",
                NO_LINE,
                f"the index map of output {of_output} gives block {blocks} at grid point {tuple(int(i) for i in point)},"
                f" which begins outside the array of shape {list(shadow.role.shape or shadow.state.shape)}",
            )
        else:
            watch.find(
                "out_of_bounds",
                watch.line(source_info),
                f"writes {shown(where)} of {named(shadow)}, outside its shape",
            )
        return token
    token = original(token, device_id, core, space, buffer, transforms, value, block_indices, point, **how)
    if of_dma is not None and shadow.role.kind == "input" and not shadow.role.aliased:
        watch.find(
            "input_written",
            watch.line(source_info),
            f"copies into input {shadow.role.name}, which is not aliased to an output",
        )
    shadow.state[where] = copied if copied is not None and copied.shape == shadow.state[where].shape else 0
    return token


def swap(
    token: Any, device_id: Any, core: Any, space: Any, buffer: Any, transforms: Any, value: Any, mask: Any,
    *, source_info: Any = None,
) -> Any:  # fmt: skip
    watch = active()
    shadow = watch.shadows[key_of(device_id, core, space, buffer)]
    where = range_of(transforms, shadow.state.shape)
    line = watch.line(source_info)
    if mask is None and not shadow.within(where):
        watch.find("out_of_bounds", line, f"writes {shown(where)} of {named(shadow)}, outside its shape")
        return token, np.zeros(np.shape(value), np.asarray(value).dtype)
    if shadow.role.kind == "input window":
        watch.find("input_written", line, f"writes to input {shadow.role.name}")
    token, before = _swap(token, device_id, core, space, buffer, transforms, value, mask, source_info=source_info)
    if mask is None:
        shadow.state[where] = 0
    elif shadow.within(where):
        shadow.state[where] = np.where(np.asarray(mask), 0, shadow.state[where])
    return token, before


get.__wrapped__ = lambda *args, **how: get(*args, unwrapped=True, **how)  # type: ignore[attr-defined]
store.__wrapped__ = lambda *args, **how: store(*args, unwrapped=True, **how)  # type: ignore[attr-defined]

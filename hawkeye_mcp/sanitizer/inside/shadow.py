"""What is known of a kernel's memory: for every element of a buffer, why it should not be relied on."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.pallas.mosaic.interpret import utils

FRESH, PADDING, CARRIED, IN_FLIGHT = 1, 2, 3, 4
NO_LINE = 0

Key = tuple[str, int, int, int]
Range = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Site:
    """A place that reads what it should not rely on. line: 0 for what the pipeline itself copies out."""

    kernel: str
    line: int
    role: str
    name: str
    code: int


@dataclasses.dataclass(frozen=True)
class Role:
    """What a buffer is to the kernel: "input", "output" (whole, in HBM), "input window", "output window", "scratch", ..."""

    kind: str
    name: str
    shape: tuple[int, ...] | None = None
    aliased: bool = False
    unused: bool = False  # an output that nothing takes


@dataclasses.dataclass
class Kernel:
    """One pallas_call: the roles of the buffers in the order in which the interpreter allocates them."""

    name: str
    line: int
    roles: list[Role]
    parallel: tuple[int, ...]
    outputs: list[str]


@dataclasses.dataclass
class Shadow:
    role: Role
    state: Any  # uint8, the buffer's shape

    def within(self, where: Range) -> bool:
        for index, size in zip(where, self.state.shape, strict=True):
            first, last = (index, index) if isinstance(index, int) else _ends(index)
            if first < 0 or last >= size:
                return False
        return True

    def reaches_padding(self, key: Key, where: Range, itemsize: int) -> bool:
        """Whether a copy from or to HBM ends past the array, but in the tiles that hold it, which are there as a whole.

        What lies there has no defined value, and nothing else is in it.
        """
        if self.within(where) or key[0] not in ("any", "hbm"):
            return False
        return Shadow(self.role, np.broadcast_to(np.uint8(0), in_tiles(self.state.shape, itemsize))).within(where)


def _ends(index: slice) -> tuple[int, int]:
    """First and last element of a slice; an empty one lies inside everything."""
    step = index.step or 1
    count = max(0, -(-(index.stop - index.start) // step))
    return (index.start, index.start + (count - 1) * step) if count else (0, 0)


def range_of(transforms: Any, shape: tuple[int, ...]) -> Range:
    """Raises ValueError for indices that are no integers and slices."""
    try:
        given = utils.to_range(jax.tree.map(int, transforms))
    except Exception as error:
        raise ValueError("indices other than integers and slices") from error
    return (*given, *(slice(0, size, 1) for size in shape[len(given) :]))


def extent(where: Range) -> tuple[int, ...]:
    return tuple(max(0, -(-(i.stop - i.start) // (i.step or 1))) for i in where if not isinstance(i, int))


def shown(where: Range) -> str:
    return "[" + ", ".join(str(i) if isinstance(i, int) else f"{i.start}:{i.stop}" for i in where) + "]"


def key_of(device_id: Any, core: Any, space: Any, buffer: Any) -> Key:
    name = interpreter.TPU_MEMORY_SPACE_NAMES[int(space)]
    return name, int(buffer), int(device_id), 0 if name in ("any", "hbm") else int(core)


def is_parallel(how: Any) -> bool:
    return str(getattr(how, "value", how)).lower() == "parallel"


def named(shadow: Shadow) -> str:
    role = shadow.role
    return f"{role.kind} {role.name}".strip() + f" of shape {list(role.shape or shadow.state.shape)}"


def in_tiles(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """A shape in whole tiles of 128 lanes and 8 rows of 32 bits."""
    tile = (8 * max(1, 4 // itemsize), 128)[-len(shape) :] if shape else ()
    return (*shape[: -len(tile) or None], *(-(-n // of) * of for n, of in zip(shape[-len(tile) :], tile, strict=True)))


def clipped(where: Range, shape: tuple[int, ...]) -> Range:
    return tuple(
        i if isinstance(i, int) else slice(i.start, min(i.stop, n), i.step) for i, n in zip(where, shape, strict=True)
    )

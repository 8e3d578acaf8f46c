"""Memory of a kernel: buffers, views of them, semaphores and transfers.

A transfer is carried out when something waits for it, as late as a TPU may: what reads its target too early, or writes
its source too early, gets it wrong here as it may there.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hawkeye_mcp.mosaic_eval.errors import Fault, Unsupported
from hawkeye_mcp.mosaic_eval.types import Array, Dtype, bits

Index = tuple[slice | int, ...]


@dataclass(frozen=True)
class _Cut:
    """A part of an array, with unit dimensions dropped or the shape changed: a view."""

    index: Index
    shape: tuple[int, ...]

    def of(self, parent: Array) -> Array:
        return _view(parent[self.index], self.shape)

    def into(self, parent: Array, child: Array) -> None:
        parent[self.index] = child.reshape(parent[self.index].shape)


@dataclass(frozen=True)
class _Recast:
    """The same bits as elements of another width: rows of narrow elements lie side by side in a wide one."""

    dtype: Dtype

    def of(self, parent: Array) -> Array:
        return recast(parent, self.dtype)

    def into(self, parent: Array, child: Array) -> None:
        parent[...] = recast(child, parent.dtype)


@dataclass(frozen=True)
class Ref:
    """A view of a buffer.

    array: numpy's view of it, up to the first change of element width. steps: what comes after.
    """

    array: Array
    steps: tuple[_Cut | _Recast, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._last().shape

    @property
    def dtype(self) -> Dtype:
        return self._last().dtype

    @property
    def nbytes(self) -> int:
        last = self._last()
        return last.size * bits(last.dtype) // 8

    @property
    def address(self) -> int:
        """Of its first element; tells semaphores apart."""
        return int(self.array.__array_interface__["data"][0])

    def _last(self) -> Array:
        array = self.array
        for step in self.steps:
            array = step.of(array)
        return array

    def read(self, index: Index) -> Array:
        """A copy: what is stored later does not change what was loaded."""
        return np.array(self._last()[index])

    def write(self, index: Index, values: Array, mask: Array | None = None) -> None:
        """Raises Fault where it is an operand's own memory, which no result shares."""
        if not self.array.flags.writeable:
            raise Fault("a write to an operand in HBM that no result shares its memory with")
        chain = [self.array]
        for step in self.steps:
            chain.append(step.of(chain[-1]))
        if mask is None:
            chain[-1][index] = values
        else:
            chain[-1][index] = np.where(mask, values, chain[-1][index])
        for step, parent, child in zip(reversed(self.steps), reversed(chain[:-1]), reversed(chain[1:]), strict=True):
            step.into(parent, child)

    def cut(self, index: Index, shape: Sequence[int]) -> "Ref":
        """Raises Unsupported where numpy has no view of that shape."""
        step = _Cut(index, tuple(shape))
        if self.steps:
            return replace(self, steps=(*self.steps, step))
        return Ref(step.of(self.array))

    def recast(self, dtype: Dtype) -> "Ref":
        if dtype == self.dtype:
            return self
        return replace(self, steps=(*self.steps, _Recast(dtype)))


def _view(array: Array, shape: tuple[int, ...]) -> Array:
    if array.shape == shape:
        return array
    changed = array.reshape(shape)
    if not np.may_share_memory(changed, array):
        raise Unsupported("tpu.memref_reshape of a part that is not in one piece")
    return changed


def recast(values: Array, dtype: Dtype) -> Array:
    """Bits as elements of another type. Where widths differ, `n` rows of narrow elements are one of wide ones.

    Raises:
        Unsupported.
    """
    have, want = bits(values.dtype), bits(dtype)
    if have == want:
        return _same_width(values, dtype)
    if values.ndim < 2:
        raise Unsupported("tpu.bitcast of one dimension to another width")
    *outer, rows, lanes = values.shape
    if have > want:
        parts = have // want
        words = as_unsigned(values)
        split = np.stack([(words >> (want * i)) & ((1 << want) - 1) for i in range(parts)], axis=-2)
        return from_unsigned(split.reshape(*outer, rows * parts, lanes), dtype)
    parts = want // have
    if rows % parts:
        raise Unsupported("tpu.bitcast of rows that do not fill words")
    narrow = as_unsigned(values).reshape(*outer, rows // parts, parts, lanes)
    words = np.zeros((*outer, rows // parts, lanes), np.uint64)
    for i in range(parts):
        words |= narrow[..., i, :] << np.uint64(have * i)
    return from_unsigned(words, dtype)


def _same_width(values: Array, dtype: Dtype) -> Array:
    return np.ascontiguousarray(values).view(dtype).reshape(values.shape)


def as_unsigned(values: Array) -> Array:
    """The bits of each element, in 64."""
    width = bits(values.dtype)
    if width < 8:  # numpy keeps one in a byte, sign and all
        return (values.astype(np.int8).astype(np.int64) & ((1 << width) - 1)).astype(np.uint64)
    plain = np.dtype(f"u{width // 8}")
    return _same_width(values, plain).astype(np.uint64)


def from_unsigned(words: Array, dtype: Dtype) -> Array:
    width = bits(dtype)
    if width < 8:
        low = (words & np.uint64((1 << width) - 1)).astype(np.int8)
        if "u" not in dtype.name:
            low = np.asarray((low ^ (1 << (width - 1))) - (1 << (width - 1)), np.int8)
        return low.astype(dtype)
    return _same_width(words.astype(np.dtype(f"u{width // 8}")), dtype)


def span(
    shape: Sequence[int], starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None
) -> Index:
    """The slices of a load or store.

    Raises:
        Fault: some of it is outside.
    """
    strides = steps or [1] * len(sizes)
    for start, size, stride, limit in zip(starts, sizes, strides, shape, strict=True):
        if start < 0 or size < 0 or (size and start + (size - 1) * stride >= limit):
            raise Fault(
                f"{list(sizes)} elements from {list(starts)} with strides {list(strides)} of a {list(shape)} array"
            )
    return tuple(
        slice(start, start + max(0, size - 1) * stride + (1 if size else 0), stride)
        for start, size, stride in zip(starts, sizes, strides, strict=True)
    )


@dataclass
class Semaphores:
    """Counts stand in the semaphores' own buffers; here is what is under way, by the semaphore that it will raise."""

    under_way: dict[int, deque[tuple[int, Callable[[], None]]]] = field(default_factory=lambda: defaultdict(deque))

    def start(self, source: Ref, target: Ref, arrived: Ref) -> None:
        """Raises Fault where the two ends differ in size."""
        if source.shape != target.shape or source.dtype != target.dtype:
            raise Fault(f"a transfer of {source.dtype}{list(source.shape)} to {target.dtype}{list(target.shape)}")

        def carry_out() -> None:
            everything = (slice(None),) * len(target.shape)
            target.write(everything, source.read(everything))

        self.under_way[arrived.address].append((target.nbytes, carry_out))

    def wait(self, semaphore: Ref, amount: int) -> None:
        """Raises Fault where nothing is under way that would end the wait."""
        count = _count(semaphore)
        waiting = self.under_way[semaphore.address]
        while count.item() < amount and waiting:
            nbytes, carry_out = waiting.popleft()
            carry_out()
            count += nbytes
        if count.item() < amount:
            raise Fault(f"a wait for {amount} at a semaphore that reaches {count.item()}: it never ends")
        count -= amount

    def signal(self, semaphore: Ref, amount: int) -> None:
        count = _count(semaphore)
        count += amount

    def read(self, semaphore: Ref) -> int:
        """After all transfers that raise it arrived, so that a loop that polls it ends."""
        count = _count(semaphore)
        waiting = self.under_way[semaphore.address]
        while waiting:
            nbytes, carry_out = waiting.popleft()
            carry_out()
            count += nbytes
        return int(count.item())

    def finish(self) -> None:
        """Raises Fault where a transfer was never waited for."""
        left = sum(len(waiting) for waiting in self.under_way.values())
        if left:
            raise Fault(f"{left} transfer(s) started and never waited for")


def _count(semaphore: Ref) -> Array:
    if math.prod(semaphore.shape) != 1:
        raise Unsupported(f"several semaphores at once, {list(semaphore.shape)}")
    return semaphore.array.reshape(())

"""Which operand or result of a kernel an executed transfer moves, from the dump of every bundle that was executed.

The dump is in the order of execution and names each value once, so an address is followed from the operand that it begins
with through scalar instructions and spill slots. Its layout is undocumented; `llo` reads the rest of it.
"""

import re

_SCALAR = re.compile(
    rb"\n +%(?:(s\d+)_s\d+ = ([^\n]*)|\d+ = sst \[smem:\[(#allocation\d+_spill)\]\] %(s\d+)_)"
)  # a scalar and what it is computed from, or a spill slot and what is put there
_NAMED = re.compile(rb"%(s\d+)_|smem:\[(#allocation\d+_spill)\]")
_OPERAND = re.compile(rb"inlined_call_operand\.\w+ \[shape: [^;]*?, index: (\d{1,9}), kind: (\w+)")
_ADDRESS = re.compile(rb"/\*(?:hbm|src|dst)=\*/%(s\d+)_")
_NOTED_DIRECTION = re.compile(rb"/\* (\w+)-to-(\w+) \*/")  # of a "dma.general"


class Addresses:
    """Follows addresses through a dump that is read piece by piece."""

    def __init__(self) -> None:
        self._arrays: dict[bytes, frozenset[str]] = {}  # of a scalar or spill slot; those without any are left out
        self._inputs = 0

    def read(self, piece: bytes) -> None:
        for name, value, slot, stored in _SCALAR.findall(piece):
            if slot:
                self._set(slot, self._arrays.get(stored, frozenset()))
            elif operand := _OPERAND.match(value):
                number, is_input = int(operand[1]), operand[2] == b"input"
                self._inputs += is_input
                self._set(name, frozenset({f"operand {number}" if is_input else f"result {number - self._inputs}"}))
            else:
                sources = [self._arrays.get(scalar or spilled) for scalar, spilled in _NAMED.findall(value)]
                self._set(name, frozenset().union(*filter(None, sources)))

    def _set(self, name: bytes, arrays: frozenset[str]) -> None:
        if arrays:
            self._arrays[name] = arrays
        else:  # a spill slot may be used again
            self._arrays.pop(name, None)

    def name_of(self, transfer: bytes) -> str:
        """ "DMA read of operand 0", from the text of an executed transfer's instruction."""
        arrays = sorted({array for name in _ADDRESS.findall(transfer) for array in self._arrays.get(name, ())})
        return f"DMA {direction(transfer)}" + (f" of {' or '.join(arrays)}" if arrays else "")


def ends(transfer: bytes) -> tuple[bytes, bytes]:
    """Where a transfer reads and where it writes: b"hbm", b"vmem", b"smem"; empty if its text does not say."""
    op = transfer.split(b" ", 1)[0]
    if op == b"dma.general":
        noted = _NOTED_DIRECTION.search(transfer)
        return (noted[1], noted[2]) if noted else (b"", b"")
    source, _, target = op.removeprefix(b"dma.").partition(b"_to_")
    return source, target


def direction(transfer: bytes) -> str:
    """ "read" from HBM, "write" to it, or "copy" between other places or within it."""
    source, target = ends(transfer)
    if (source == b"hbm") == (target == b"hbm"):
        return "copy"
    return "read" if source == b"hbm" else "write"

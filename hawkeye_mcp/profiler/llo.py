"""What an executed schedule did, from libtpu's dump of every bundle that its static profile walked.

The dump is one file for each operation: a line "...: bundle slots:" opens a bundle, each line below it that is
indented is one slot. Its layout is undocumented; this is the only reader of it. Dumps reach hundreds of megabytes: they
are read in pieces, and nothing of them is kept but counts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from hawkeye_mcp.profiler.addresses import Addresses, ends

PIECE_BYTES = 4 << 20
GRANULE_BYTES = 32  # of HBM, in which the dump gives the size of a transfer

# A slot: its instruction's name, and whether it moves a vector register to or from a spill slot of VMEM.
_SLOT = re.compile(rb"\n +(?:%\S+ = )?([a-z_]\S*)((?: \[vmem:\[#allocation\d+_spill\])?)")
_TRANSFER = re.compile(rb"\n +(?:%\S+ = )?(dma\.(?!done)[a-z]\S* [^\n]*)")
_GRANULES = re.compile(rb"size_in_granules=\*/(\d{1,18})\b")
_BRANCH = re.compile(rb"\n +(?:%\S+ = )?sbr\S* [^\n]*target = \$(\w+)")

# The first prefix that fits names the counter; vector instructions beyond these are VALU work, the rest is scalar.
_KINDS = (
    ("vmatmul", "mxu_matmuls"),
    ("vmatpush", "mxu_pushes"),
    ("vmatprep", "mxu_pushes"),
    ("vpop", "result_pops"),
    ("vld", "vector_loads"),
    ("vst", "vector_stores"),
    ("vpush", "vector_to_scalar"),
    ("vrcp", "eup_ops"),
    ("vrsqrt", "eup_ops"),
    ("vpow2", "eup_ops"),
    ("vexp2", "eup_ops"),
    ("vlog2", "eup_ops"),
    ("vtanh", "eup_ops"),
    ("vsigmoid", "eup_ops"),
    ("vsigshft", "eup_ops"),
    ("verf", "eup_ops"),
    ("vsinq", "eup_ops"),
    ("vcosq", "eup_ops"),
    ("vsync", "sync_ops"),
    ("vnop", "nops"),
    ("vdelay", "nops"),
    ("dma.done", "dma_waits"),
    ("dma.", "dma_starts"),
    ("inlined_call_operand", "nops"),
    ("int_to_ptr", "nops"),
)
_ON_XLU = (("vrot", "xlu_rotates"), ("xpose", "xlu_transposes"), (".xlane", "xlu_reduces"))
XLU = ("xlu_rotates", "xlu_transposes", "xlu_permutes", "xlu_reduces")
NAMES = (
    *("mxu_matmuls", "mxu_pushes", "result_pops", "valu_ops", "xlu_ops", *XLU, "eup_ops"),
    *("vector_loads", "vector_stores", "vector_fills", "vector_spills", "vector_to_scalar", "scalar_ops"),
    *("dma_starts", "dma_waits", "sync_ops", "hbm_read_bytes", "hbm_written_bytes"),
)


def kind_of(op: str) -> str:
    """The counter that an instruction adds to, by its name."""
    if ".xlu" in op and not op.startswith("vpop"):  # names its unit: "vadd.xlane.f32.xlu0"
        return next((kind for prefix, kind in _ON_XLU if prefix in op), "xlu_permutes")
    for prefix, kind in _KINDS:
        if op.startswith(prefix):
            return kind
    return "valu_ops" if op.startswith("v") else "scalar_ops"


def count(pieces: Iterable[bytes], addresses: Addresses | None = None) -> Counter[str]:
    """Counters of one dump, each instruction as often as it was executed.

    addresses: reads the same pieces along the way. "unsized_transfers" counts transfers whose size is only known at run time and not in the bytes; "to REGION" counts
    jumps taken to a region.
    """
    ops: Counter[tuple[bytes, bool]] = Counter()
    counts: Counter[str] = Counter()
    for piece in pieces:
        ops.update((op, bool(spill)) for op, spill in _SLOT.findall(piece))
        for transfer in _TRANSFER.findall(piece):
            counts.update(_traffic(transfer))
        if addresses:
            addresses.read(piece)
        counts.update(f"to {region.decode()}" for region in _BRANCH.findall(piece))
    for (op, spill), times in ops.items():
        kind = kind_of(op.decode("utf-8", "replace"))
        counts[kind] += times
        if kind in XLU:
            counts["xlu_ops"] += times
        if spill and kind in ("vector_loads", "vector_stores"):
            counts["vector_fills" if kind == "vector_loads" else "vector_spills"] += times
    return counts


def _traffic(transfer: bytes) -> dict[str, int]:
    """What a transfer adds to the counters: it may read HBM, write it, both, or neither."""
    size = _GRANULES.search(transfer)
    if not size:
        return {"unsized_transfers": 1}
    source, target = ends(transfer)
    moved = GRANULE_BYTES * int(size[1])
    return {"hbm_read_bytes": moved * (source == b"hbm"), "hbm_written_bytes": moved * (target == b"hbm")}


def pieces(path: Path, separator: bytes = b"\n") -> Iterator[bytes]:
    """A file in pieces that each begin with `separator` (the first with a line end) and hold whole records."""
    with path.open("rb") as file:
        held = b"\n"
        while read := file.read(PIECE_BYTES):
            held += read
            end = held.rfind(separator)
            if end > 0:
                yield held[:end]
                held = held[end:]
        yield held


def count_file(path: Path, addresses: Addresses | None = None) -> Counter[str] | None:
    """Counters of one dump, or None if it is not there."""
    return count(pieces(path), addresses) if path.is_file() else None


def clear(folder: Path) -> None:
    """Remove all dumps."""
    for path in folder.iterdir():
        if path.is_file() and path.name != "stderr":
            path.unlink()

"""Counters of an executed schedule, from libtpu's dump of every bundle its static profile walked.

The dump is one file for each operation: a line "...: bundle slots:" opens a bundle, each line below it is one slot.
Its layout is undocumented; this is the only reader of it.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_SLOT = re.compile(r"\s+(?:%\S+ = )?([a-z_]+(?:\.[a-z_0-9]+)*)")
_GRANULES = re.compile(r"size_in_granules=\*/(\d+)")
_NOTED_DIRECTION = re.compile(r"/\* (\w+)-to-(\w+) \*/")
GRANULE_BYTES = 32

# The first prefix that fits names the counter; vector instructions beyond these are VALU work, the rest is scalar.
_KINDS = (
    ("vmatmul", "mxu_matmuls"),
    ("vmatpush", "mxu_pushes"),
    ("vmatprep", "mxu_pushes"),
    ("vpop", "result_pops"),
    ("vld", "vector_loads"),
    ("vst", "vector_stores"),
    ("vrot", "xlu_ops"),
    ("vperm", "xlu_ops"),
    ("vxpose", "xlu_ops"),
    ("vadd.xlane", "xlu_ops"),
    ("vmax.xlane", "xlu_ops"),
    ("vmin.xlane", "xlu_ops"),
    ("vbcast.lane", "xlu_ops"),
    ("vrcp", "eup_ops"),
    ("vrsqrt", "eup_ops"),
    ("vpow2", "eup_ops"),
    ("vlog2", "eup_ops"),
    ("vtanh", "eup_ops"),
    ("vsigmoid", "eup_ops"),
    ("vsync", "sync_ops"),
    ("vnop", "nops"),
    ("dma.done", "dma_waits"),
    ("dma.", "dma_starts"),
    ("inlined_call_operand", "nops"),
)
NAMES = (
    *("executed_bundles", "mxu_matmuls", "mxu_pushes", "result_pops", "valu_ops", "xlu_ops", "eup_ops"),
    *(
        "vector_loads",
        "vector_stores",
        "vector_spills",
        "scalar_ops",
        "sync_ops",
        "nops",
        "dma_starts",
        "dma_waits",
    ),
    *("hbm_read_bytes", "hbm_written_bytes"),
)


def count(lines: Iterable[str]) -> Counter[str]:
    """Counters of one dump, each bundle as often as it was executed."""
    counts: Counter[str] = Counter()
    for line in lines:
        if line.endswith("bundle slots:\n"):
            counts["executed_bundles"] += 1
        elif slot := _SLOT.match(line):
            op = slot[1]
            kind = next((kind for prefix, kind in _KINDS if op.startswith(prefix)), None)
            kind = kind or ("valu_ops" if op.startswith("v") else "scalar_ops")
            counts[kind] += 1
            if kind == "vector_stores" and "_spill]" in line:
                counts["vector_spills"] += 1
            if kind == "dma_starts" and (size := _GRANULES.search(line)):
                for name in _traffic(op, line):
                    counts[name] += GRANULE_BYTES * int(size[1])
    return counts


def _traffic(op: str, line: str) -> list[str]:
    """The counters to which a transfer adds: it may read HBM, write it, both, or neither."""
    if noted := _NOTED_DIRECTION.search(line):  # of a "dma.general"
        source, target = noted[1], noted[2]
    else:
        source, _, target = op.removeprefix("dma.").partition("_to_")
    return ["hbm_read_bytes"] * (source == "hbm") + ["hbm_written_bytes"] * (target == "hbm")


def count_file(folder: Path, op: str) -> Counter[str] | None:
    """Counters of one operation of the last compiled program, or None if there is no dump of it."""
    path = folder / f"{op}_bundles.txt"
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as lines:
        return count(lines)


def clear(folder: Path) -> None:
    """Remove all dumps: they reach hundreds of megabytes."""
    for path in folder.iterdir():
        if path.is_file() and path.name != "stderr":
            path.unlink()

"""What takes a kernel's on-chip memory, buffer by buffer, and what it moves over HBM, operand by operand."""

from collections.abc import Sequence

from hawkeye_mcp.profile import Buffer, Traffic
from hawkeye_mcp.profiler.anatomy import Anatomy

MIB = 1 << 20
# What a kernel may take of VMEM unless it asks for another limit, as libtpu 0.0.52 says where it refuses one ("limit
# 16.00M exceeded scoped vmem limit").
DEFAULT_LIMIT_BYTES = {"v5e": 16 * MIB, "v5p": 16 * MIB, "v6e": 32 * MIB, "7x": 32 * MIB}


def buffers(anatomy: Anatomy, vmem_bytes: int | None, on_chip: Sequence[bool] | None) -> list[Buffer]:
    """Largest first; the windows and scratch that are known, and what the compiler takes beyond them.

    vmem_bytes: libtpu's own total for the kernel. on_chip: of each operand and result, whether XLA placed the whole
    array in VMEM, so that the kernel needs no window for it.
    """
    found = []
    for number, operand in enumerate(anatomy.operands):
        if operand.space not in ("vmem", "smem") or (on_chip and number < len(on_chip) and on_chip[number]):
            continue
        space = "vmem" if operand.space == "vmem" else "smem"
        size = operand.copies * operand.block_bytes
        found.append(Buffer(name=operand.label, kind="window", space=space, bytes=size, copies=operand.copies))
    for scratch in anatomy.scratch:
        space = "vmem" if scratch.space == "vmem" else "smem"
        found.append(Buffer(name=scratch.label, kind="scratch", space=space, bytes=scratch.bytes))
    named = sum(buffer.bytes for buffer in found if buffer.space == "vmem")
    if vmem_bytes is not None and vmem_bytes > named:
        name = "spilled registers and temporaries of the compiler"
        found.append(Buffer(name=name, kind="internal", space="vmem", bytes=vmem_bytes - named))
    return sorted(found, key=lambda buffer: -buffer.bytes)


def traffic(anatomy: Anatomy, on_chip: Sequence[bool] | None) -> list[Traffic]:
    """Of one run; nothing for an array that XLA keeps in VMEM, nor for bytes that depend on data."""
    found = []
    for number, operand in enumerate(anatomy.operands):
        kept = bool(on_chip and number < len(on_chip) and on_chip[number])
        if kept or operand.moved_bytes is None or (operand.prefetched and not operand.moved_bytes):
            continue
        least = operand.array_bytes
        found.append(
            Traffic(
                operand=operand.label,
                direction=operand.direction,
                bytes=operand.moved_bytes,
                least_bytes=least,
                factor=float(f"{operand.moved_bytes / least:.4g}") if least else None,
            )
        )
    return found

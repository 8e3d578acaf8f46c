"""Findings about how a grid cuts the work: blocks over the edge, tiles that are mostly empty, cores or steps without work."""

from collections.abc import Iterator

from hawkeye_mcp.profile import Finding
from hawkeye_mcp.profiler.view import View, finding, size


def overhanging_blocks(view: View) -> Iterator[Finding]:
    for kernel in view.kernels:
        moved = sum(o.moved_bytes or 0 for o in kernel.anatomy.operands)
        relevant = [o for o in kernel.anatomy.operands if (o.moved_bytes or 0) > 0.1 * moved]
        worst = max(relevant, key=lambda o: o.overhang, default=None)
        if worst is None or worst.overhang < 1.08 or kernel.by_hbm:
            continue
        wasted = 1 - 1 / worst.overhang
        yield finding(
            f"The blocks {worst.block} of {worst.label} of kernel {kernel.profile.name} hang over the array's edge: {100 * wasted:.0f} %"
            " of what they compute on is padding. Choose block sizes that divide the array, or make the last one small.",
            f"blocks[{worst.label}].overhang",
            worst.overhang,
            wasted * kernel.total_us,
            "12_ragged_edges_and_masking",
        )


def thin_tiles(view: View) -> Iterator[Finding]:
    for kernel in view.kernels:
        moved = sum(o.moved_bytes or 0 for o in kernel.anatomy.operands)
        relevant = [o for o in kernel.anatomy.operands if (o.moved_bytes or 0) > 0.3 * moved]
        worst = max(relevant, key=lambda o: o.tile_padding, default=None)
        if worst is None or worst.tile_padding < 1.9:
            continue
        wasted = 1 - 1 / worst.tile_padding
        yield finding(
            f"A block {worst.block} of {worst.label} of kernel {kernel.profile.name} fills {100 / worst.tile_padding:.0f} % of the tiles"
            " that it takes in VMEM and in vector registers (8 sublanes by 128 lanes). Put a long dimension last: the"
            " transpose of an array this narrow costs nothing where XLA keeps it with its long dimension last.",
            f"blocks[{worst.label}].tile_padding",
            worst.tile_padding,
            min(wasted * kernel.total_us, max(view.gap_us(kernel), 0.5 * wasted * kernel.total_us)),
            "02_vmem_tile_layout",
        )


def one_core(view: View) -> Iterator[Finding]:
    if view.cores < 2:
        return
    for kernel in view.kernels:
        if kernel.anatomy.parallel_axes or not kernel.schedule_us or kernel.steps < 2:
            continue
        costs_us = (kernel.us - max(kernel.schedule_us / view.cores, kernel.hbm_us)) * kernel.profile.calls
        if costs_us > 0:
            yield finding(
                f"No grid axis of kernel {kernel.profile.name} is declared parallel, so one of the chip's {view.cores} cores does all"
                ' of it. Give dimension_semantics "parallel" for an axis whose steps do not depend on one another.',
                "kernels[].grid",
                kernel.steps,
                costs_us,
                "16_parallel_cores",
            )


def idle_steps(view: View) -> Iterator[Finding]:
    for kernel in view.kernels:
        unused, moved = kernel.anatomy.idle_bytes, sum(o.moved_bytes or 0 for o in kernel.anatomy.operands)
        if unused < 0.05 * moved or not kernel.us:
            continue
        waiting_us = (kernel.waits or 0.0) * kernel.us * unused / moved
        yield finding(
            f"In {kernel.anatomy.idle_steps:,} of the {kernel.steps:,} grid steps of kernel {kernel.profile.name} no branch is taken,"
            f" by the values in SMEM, and yet blocks of {size(unused)} arrive for them. Prefetch these values"
            " (PrefetchScalarGridSpec) and let the index maps choose blocks by them, in a grid of the steps that have work.",
            "kernels[].grid",
            kernel.steps,
            min(max(view.hbm_us(unused), waiting_us), kernel.us) * kernel.profile.calls,
            "07_grouped_matmul",
        )


DETECTORS = (overhanging_blocks, thin_tiles, one_core, idle_steps)

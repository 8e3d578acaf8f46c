"""Findings about what the units of a core do, and about grids that make them do too much of it."""

from collections.abc import Iterator

from hawkeye_mcp.profile import Finding
from hawkeye_mcp.profiler.roofline import ELEMENTS, VALU_SLOTS
from hawkeye_mcp.profiler.view import View, finding, us

BUSY = 0.5
# Slots in a bundle, from the header of libtpu's utilisation dump.
_XLU_SLOTS = {"v5e": 3, "v5p": 3, "v6e": 2, "7x": 2}
_STORE_SLOTS = {"v5e": 1, "v5p": 1, "v6e": 2, "7x": 2}
_LOAD_SLOTS, _SCALAR_SLOTS = 3, 2


def precise_matmuls(view: View) -> Iterator[Finding]:
    for kernel in view.kernels:
        flops = sum(m.flops for m in kernel.anatomy.matmuls)
        executed = sum(m.flops * m.passes for m in kernel.anatomy.matmuls)
        if executed <= 1.5 * flops or kernel.by_hbm:
            continue
        passes = max(m.passes for m in kernel.anatomy.matmuls)
        costs_us = min(kernel.total_us * (1 - flops / executed), view.gap_us(kernel))
        narrow = all(a.dtype == "bfloat16" for a in view.workload.inputs if "float" in a.dtype)
        why = (
            "the workload's inputs are bfloat16, so nothing is gained by it"
            if narrow
            else f"see whether the gate ({view.workload.tolerance.metric} <= {view.workload.tolerance.limit:g}) needs it"
        )
        yield finding(
            f"Kernel {kernel.profile.name} multiplies float32 operands at the highest precision: {passes} passes through the MXU"
            f" where bfloat16 operands (or the default precision) take one; {why}.",
            "matmul passes",
            passes,
            costs_us,
            "01_mxu_feed",
        )


def idle_mxu(view: View) -> Iterator[Finding]:
    """Work that would fill the MXU done on the vector unit: more FLOPs for a byte than that unit could keep up with."""
    if any(kernel.anatomy.matmuls for kernel in view.kernels) or not view.kernels:
        return
    vpu_flops_per_s = VALU_SLOTS * ELEMENTS * view.peaks["clock_hz"] * view.cores
    on_vpu_us = view.workload.flops / vpu_flops_per_s * 1e6
    if on_vpu_us > 2 * view.ideal_us:
        yield finding(
            f"No kernel has a matmul, so the MXU is idle: the workload's {view.workload.flops:.3g} FLOP take {us(on_vpu_us)} at"
            f" best on the vector unit and {us(view.mxu_floor_us)} on the MXU. Write the products and sums as a dot"
            " (jnp.dot or lax.dot_general with preferred_element_type=float32).",
            "counters.mxu_matmuls",
            0,
            max(0.0, view.total_us - view.ideal_us),
            "01_mxu_feed",
        )


def spilled_registers(view: View) -> Iterator[Finding]:
    spills, fills = (view.counters.get(name) for name in ("vector_spills", "vector_fills"))
    if not spills:
        return
    moved = max(spills.total / _STORE_SLOTS[view.tpu], (fills.total if fills else spills.total) / _LOAD_SLOTS)
    cycles = _cycles(view)
    if cycles and moved > 0.05 * cycles:
        yield finding(
            f"{spills.total:.3g} vector registers are spilled to VMEM"
            + (f" and {fills.total:.3g} fetched back" if fills else "")
            + f", at least {100 * moved / cycles:.0f} % of the cycles: too many values are live at once. Work through the block in"
            " smaller pieces (a loop over some rows at a time), and write results to a ref as soon as they are known.",
            "counters.vector_spills",
            spills.total,
            view.kernels_us * moved / cycles,
            "03_vectorized_vmem",
        )


def cross_lane(view: View) -> Iterator[Finding]:
    """Transposes, rotations and reductions across lanes: by how long they keep the unit or the schedule waits for it."""
    waits = _stalled(view, "XLU")
    share = max(view.share("xlu_ops", _XLU_SLOTS[view.tpu]), waits)
    if share < 0.25 or share < view.share("valu_ops", VALU_SLOTS):
        return
    kinds = {
        name: view.counters[name].total
        for name in ("xlu_transposes", "xlu_reduces", "xlu_rotates")
        if name in view.counters
    }
    transposes = sum(kernel.anatomy.transposes for kernel in view.kernels)
    most = max(kinds, key=lambda name: kinds[name]) if kinds else ""
    ops = view.counters["xlu_ops"].total
    advice, row = {
        "xlu_transposes": ("transpose once outside the loop, or let the matmul contract the other dimension",
                           "13_layout_and_transpose"),
        "xlu_reduces": ("add whole registers first and reduce across lanes once at the end", "06_lane_reduction"),
    }.get(most, ("keep the shape that loads have, (8, 128) tiles, instead of slicing, reshaping or shifting within them",
                 "02_vmem_tile_layout"))  # fmt: skip
    if not kinds and transposes:
        advice, row = "transpose once outside the loop, or let the matmul contract the other dimension", "13_layout_and_transpose"  # fmt: skip
    what = most.removeprefix("xlu_") or ("transposes" if transposes else "moves between lanes")
    yield finding(
        f"{ops:.3g} operations across lanes (most are {what}) keep the kernels busy or waiting for at least"
        f" {100 * share:.0f} % of their cycles: {advice}.",
        "counters.xlu_ops",
        ops,
        min(share * view.kernels_us, _gap_us(view)),
        row,
    )


def vector_bound(view: View) -> Iterator[Finding]:
    share = view.share("valu_ops", VALU_SLOTS)
    if share < BUSY or idle_mxu_found(view):
        return
    yield finding(
        f"The vector unit is what is busy: its {view.counters['valu_ops'].total:.3g} operations need {100 * share:.0f} % of the"
        " kernels' cycles. Do less per element: hoist what does not change out of the loop, avoid casts, masks and"
        " divisions inside it, and let the MXU do sums of products.",
        "counters.valu_ops",
        view.counters["valu_ops"].total,
        min(share * view.kernels_us, _gap_us(view)),
        "03_vectorized_vmem",
    )


def transcendental_bound(view: View) -> Iterator[Finding]:
    share = max(view.share("eup_ops", 1), _stalled(view, "EUP"))
    if share < BUSY or share < view.share("valu_ops", VALU_SLOTS):
        return
    yield finding(
        f"Transcendentals (exp, tanh, log, rsqrt, division) bind: {view.counters['eup_ops'].total:.3g} vector operations on a unit"
        f" that takes one a cycle, {100 * share:.0f} % of the kernels' cycles. Evaluate them on fewer elements: after a"
        " reduction rather than before it, once and kept in scratch, or one exp2 in place of several exp.",
        "counters.eup_ops",
        view.counters["eup_ops"].total,
        min(share * view.kernels_us, _gap_us(view)),
    )


def scalar_bound(view: View) -> Iterator[Finding]:
    share = view.share("scalar_ops", _SCALAR_SLOTS)
    busiest = max(view.share("valu_ops", VALU_SLOTS), view.share("vector_loads", _LOAD_SLOTS), _mxu_share(view))
    if share < 0.4 or busiest > 0.25:
        return
    yield finding(
        f"Scalar instructions (addresses, loop control, branches) fill {100 * share:.0f} % of their slots and the vector unit"
        f" {100 * view.share('valu_ops', VALU_SLOTS):.0f} %: the loops take too little at a time. Let each turn handle whole"
        " blocks of at least (8, 128), and unroll short loops.",
        "counters.scalar_ops",
        view.counters["scalar_ops"].total,
        min(share * view.kernels_us, _gap_us(view)),
        "03_vectorized_vmem",
    )


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
            " that it takes in VMEM and in vector registers (8 sublanes by 128 lanes). Reshape so that the last dimension"
            " is a multiple of 128.",
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


def idle_mxu_found(view: View) -> bool:
    return next(idle_mxu(view), None) is not None


def _cycles(view: View) -> float:
    return sum((kernel.profile.cycles or 0.0) * kernel.profile.calls for kernel in view.kernels)


def _gap_us(view: View) -> float:
    return sum(view.gap_us(kernel) for kernel in view.kernels)


def _mxu_share(view: View) -> float:
    return view.mxu_floor_us / view.kernels_us if view.kernels_us else 0.0


def _stalled(view: View, cause: str) -> float:
    """Share of all kernels' cycles that wait for this cause."""
    cycles = _cycles(view)
    waited = sum(
        (kernel.stall_share(cause) or 0.0) * (kernel.profile.cycles or 0.0) * kernel.profile.calls
        for kernel in view.kernels
    )
    return waited / cycles if cycles else 0.0


DETECTORS = (
    precise_matmuls, idle_mxu, spilled_registers, cross_lane, vector_bound, transcendental_bound, scalar_bound,
    overhanging_blocks, thin_tiles, one_core,
)  # fmt: skip

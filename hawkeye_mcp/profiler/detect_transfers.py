"""Findings about what crosses HBM and what waits for it. Thresholds are where the change can pay."""

import math
from collections import Counter
from collections.abc import Iterator

from hawkeye_mcp.profile import Direction, Finding
from hawkeye_mcp.profiler.anatomy import Operand
from hawkeye_mcp.profiler.view import Kernel, View, count, finding, size, us

# The start of a transfer takes about 750 cycles on v5e. A grid step of fewer than LATENCY_CYCLES is mostly that; one of
# fewer than SHORT_STEP_CYCLES may be, which only its stalls can tell.
LATENCY_CYCLES = 1000
SHORT_STEP_CYCLES = 4096
WAITS = 0.15
NEARLY_FULL = 0.75
# libtpu's profile moves bytes up to 2.2 times as fast as v5e's HBM does: a kernel whose copies overlap with nothing waits
# for at least this share of what they take at the true bandwidth.
SERIAL = 0.45
# XLA operations, by the names that it gives them, that move an array and compute nothing.
RELAYOUTS = ("copy", "transpose", "reshape")
PADDING = ("pad", "slice")


def outside_kernels(view: View) -> Iterator[Finding]:
    ops = sorted((op for op in view.timing.ops if op.kind == "xla"), key=lambda op: -op.us)
    spent_us = sum(op.us for op in ops)
    if spent_us > 0.02 * view.total_us:
        named = ", ".join(f"{op.name} {us(op.us)}" for op in ops[:2])

        def mostly(names: tuple[str, ...]) -> bool:
            return sum(op.us for op in ops if op.name.split(".")[0] in names) > 0.5 * spent_us

        if mostly(RELAYOUTS):
            what, row = "outside the kernels that only change how an array lies", "13_layout_and_transpose"
            advice = (
                "Take blocks of the array as it lies, and let index maps and the dot's contracted dimensions do what a"
                " transpose does."
            )
        elif mostly(PADDING):
            what, row = "that pad and slice outside the kernels", "12_ragged_edges_and_masking"
            advice = (
                "Cover the array as it is with a grid of pl.cdiv steps, and mask in the body, in the last step, what"
                " lies past the edge of an axis that is summed over."
            )
        else:
            what, row = "outside the kernels", "05_fused_epilogue"
            advice = (
                "Do this work in a kernel that already has the data in VMEM, or leave it out: casts, transposes and"
                " padding copy whole arrays."
            )
        yield finding(
            f"{us(spent_us)} of {us(view.total_us)} is spent in XLA operations {what} ({named}). {advice}",
            "timing.ops[kind=xla].us",
            spent_us,
            spent_us,
            row,
        )


def rereads(view: View) -> Iterator[Finding]:
    """The operand whose repeated reads cost most, of each kernel that HBM holds up."""
    for kernel in view.kernels:
        operands = [o for o in kernel.anatomy.operands if o.moved_bytes and o.array_bytes]
        worst = max(operands, key=lambda o: (o.moved_bytes or 0) - o.array_bytes, default=None)
        if worst is None or worst.moved_bytes is None or worst.moved_bytes <= worst.array_bytes:
            continue
        waste_us = view.hbm_us(worst.moved_bytes - worst.array_bytes)
        if kernel.by_hbm:
            costs_us = kernel.us - max(_busy_us(kernel), kernel.hbm_us - waste_us)
        else:
            costs_us = min(waste_us, _waiting_us(kernel))
        if costs_us <= 0:
            continue
        times = worst.moved_bytes / worst.array_bytes
        yield finding(
            f"{worst.label} of kernel {kernel.profile.name} crosses HBM {count(times)} times over ({size(worst.moved_bytes)} for an"
            f" array of {size(worst.array_bytes)}){_through(kernel, worst)}; {_room(view, kernel)}.",
            f"traffic[{worst.label}].factor",
            times,
            costs_us * kernel.profile.calls,
            "09_block_size_and_vmem_budget",
        )


def _busy_us(kernel: Kernel) -> float:
    """What a kernel that HBM holds up would take if nothing had to be waited for."""
    if kernel.waits is not None:
        return kernel.us * (1 - kernel.waits)
    schedule_us = kernel.schedule_us or 0.0  # with waits for transfers of its own, so that it is too much
    return schedule_us if kernel.mxu_us is None else max(min(schedule_us, 1.3 * kernel.mxu_us), 0.7 * schedule_us)


def _waiting_us(kernel: Kernel) -> float:
    """How long a kernel waits for transfers where the schedule is what takes its time."""
    waits = kernel.waits
    if waits is not None:
        return waits * kernel.us if waits > WAITS else 0.0
    if kernel.mxu_us is None or kernel.hbm_us < 0.6 * kernel.us:  # without stalls, only where little else is left
        return 0.0
    return max(0.0, kernel.us - 1.3 * kernel.mxu_us)


def _through(kernel: Kernel, operand: Operand) -> str:
    """Which axes of the grid fetch the operand again, and a sentence of what moves it less often."""
    less_often = ". Use larger blocks"
    if operand.axes is None or not operand.axes:
        return less_often
    again = [a for a, n in enumerate(kernel.profile.grid) if n > 1 and a not in operand.axes and a < max(operand.axes)]
    if not again:
        return less_often
    steps = " and ".join(f"axis {axis} ({kernel.profile.grid[axis]:,} steps)" for axis in again)
    return f", again in every step of grid {steps}. Use fewer and larger blocks there"


def _full(view: View, kernel: Kernel) -> bool:
    used, limit = view.vmem(kernel)
    return used > NEARLY_FULL * limit


def _room(view: View, kernel: Kernel) -> str:
    """The end of a sentence on larger blocks: where they fit."""
    used, limit = view.vmem(kernel)
    capacity = int(view.peaks["vmem_bytes"])
    if not _full(view, kernel):
        return f"VMEM has room ({size(used)} of the {size(limit)} that the kernel may take)"
    if limit < 0.75 * capacity:
        return (
            f"of the {size(limit)} of VMEM that the kernel may take it has {size(used)}, but the chip has {size(capacity)}: raise"
            " vmem_limit_bytes"
        )
    return f"VMEM is nearly full ({size(used)} of {size(limit)}): trade one operand's block for another's"


def intermediates(view: View) -> Iterator[Finding]:
    """Arrays that one kernel writes for another to read."""
    if sum(kernel.profile.calls for kernel in view.kernels) < 2:
        return
    moved = sum(t.least_bytes * k.profile.calls for k in view.kernels for t in k.profile.traffic)
    excess = moved - view.workload.least_bytes
    over_hbm_us = sum(k.total_us if k.by_hbm else _waiting_us(k) * k.profile.calls for k in view.kernels)
    costs_us = min(view.hbm_us(excess), over_hbm_us)
    if excess <= 0.1 * moved or costs_us <= 0:
        return
    again = _read_again(view)
    if again > 0.5 * excess:
        yield finding(
            f"{size(again)} of the workload's inputs are read by a kernel after another has read them, and HBM is what they"
            " wait for. Read them once: one kernel, whose steps leave in scratch what later ones need of them.",
            "kernels[].traffic.least_bytes",
            again,
            min(costs_us, view.hbm_us(again)),
            "11_carried_scan",
        )
    else:
        yield finding(
            f"The kernels hand each other {size(excess)} through HBM beside the workload's own {size(view.workload.least_bytes)},"
            " and HBM is what they wait for. Compute both in one kernel, with the intermediate in VMEM.",
            "kernels[].traffic.least_bytes",
            excess,
            costs_us,
            "10_online_softmax"
            if _softmax_between_products(view)
            else "08_k_blocked_accumulation"
            if _partial_products(view)
            else "05_fused_epilogue",
        )


def _read_again(view: View) -> int:
    """Bytes of arrays as long as an input of the workload that kernels read more often than such arrays there are."""
    inputs = Counter(math.prod(shape) for shape, _ in view.workload.shapes(view.workload.inputs, "full"))
    by_type: dict[str, list[Operand]] = {}
    for operand in (o for kernel in view.kernels for o in kernel.anatomy.operands):
        by_type.setdefault(operand.label.rpartition(" ")[2], []).append(operand)
    again = 0
    for same in by_type.values():
        reads = sum(o.direction == "read" for o in same)
        there_are = inputs[_elements(same[0])] + len(same) - reads  # a kernel may read what another wrote
        if inputs[_elements(same[0])]:
            again += max(0, reads - there_are) * same[0].array_bytes
    return again


def _softmax_between_products(view: View) -> bool:
    """A kernel of products, and after it one that takes exponentials before products of its own."""
    products = [kernel for kernel in view.kernels if kernel.anatomy.matmuls]
    return any(k.anatomy.step is not None and k.anatomy.step.transcendental_elements > 0 for k in products[1:])


def _partial_products(view: View) -> bool:
    """A kernel of products that writes another block in every step of an axis that both its operands are blocked along,
    and one without products that adds up: it reads an array at least twice as long as what it writes."""
    products = [k.anatomy.operands for k in view.kernels if k.anatomy.matmuls]
    others = [k.anatomy.operands for k in view.kernels if not k.anatomy.matmuls]
    blocked = any(set[int].intersection(*(set(o.axes or ()) for o in operands)) for operands in products)
    return blocked and any(_longest(operands, "read") >= 2 * _longest(operands, "written") > 0 for operands in others)


def _longest(operands: list[Operand], direction: Direction) -> int:
    """Elements of the longest array that is read or written."""
    return max((_elements(o) for o in operands if o.direction == direction), default=0)


def _elements(operand: Operand) -> int:
    return 8 * operand.array_bytes // operand.item_bits


def wide_operands(view: View) -> Iterator[Finding]:
    """float32 arrays in HBM although all inputs and outputs of the workload are narrower."""
    narrow = [array.dtype in ("bfloat16", "float16") for array in (*view.workload.inputs, *view.workload.outputs)]
    floats = [
        is_narrow
        for is_narrow, array in zip(narrow, (*view.workload.inputs, *view.workload.outputs), strict=True)
        if "float" in array.dtype
    ]
    if not floats or not all(floats):
        return
    for kernel in view.kernels:
        wide = [o for o in kernel.anatomy.operands if " f32[" in o.label and (o.moved_bytes or 0) > 0]
        moved = sum(o.moved_bytes or 0 for o in wide)
        if kernel.by_hbm and moved > 0.1 * kernel.hbm_us / view.hbm_us(1):
            worst = max(wide, key=lambda o: o.moved_bytes or 0)
            saved_us = view.hbm_us(moved / 2)
            yield finding(
                f"{worst.label} of kernel {kernel.profile.name} crosses HBM in float32 although the workload's arrays are"
                " bfloat16: twice the bytes. Keep arrays bfloat16 in HBM and widen them inside the kernel.",
                f"traffic[{worst.label}].bytes",
                worst.moved_bytes or 0,
                min(saved_us, kernel.us - max(kernel.schedule_us or 0.0, kernel.hbm_us - saved_us))
                * kernel.profile.calls,
            )


def short_steps(view: View) -> Iterator[Finding]:
    for kernel in view.kernels:
        cycles = kernel.profile.cycles
        if not cycles or kernel.steps < 8 or kernel.by_hbm:
            continue
        steps = kernel.steps / (view.cores if kernel.anatomy.parallel_axes else 1)
        per_step = kernel.profile.phases.step_cycles if kernel.profile.phases else cycles / steps
        gap_us = view.gap_us(kernel)
        if per_step >= SHORT_STEP_CYCLES or gap_us < 0.1 * kernel.total_us:
            continue
        waits = kernel.waits
        if per_step >= LATENCY_CYCLES if waits is None else waits < WAITS:
            continue  # what fills its steps is another finding
        if kernel.anatomy.moves_by_hand and waits is not None:
            continue  # its own copies fill them, see waiting_by_hand
        waiting = "" if waits is None else f", {100 * waits:.0f} % of them waiting for transfers"
        yield finding(
            f"The {kernel.steps:,} grid steps of kernel {kernel.profile.name} take {per_step:,.0f} cycles each{waiting}: too few to"
            f" hide the start of a step and of its transfers. Use fewer and larger blocks; {_room(view, kernel)}.",
            "kernels[].phases.step_cycles",
            per_step,
            gap_us if waits is None else min(gap_us, waits * kernel.total_us),
            "09_block_size_and_vmem_budget",
        )


def exposed_transfers(view: View) -> Iterator[Finding]:
    """A grid of one or a few steps: nothing is computed while the first blocks come and the last results go."""
    for kernel in view.kernels:
        if kernel.steps >= 4 or not kernel.schedule_us or kernel.by_hbm or kernel.anatomy.moves_by_hand:
            continue
        waits = kernel.waits
        exposed_us = kernel.hbm_us / kernel.steps
        if waits is not None:
            exposed_us = waits * kernel.us
        costs_us = min(exposed_us, kernel.schedule_us - kernel.hbm_us) * kernel.profile.calls
        if costs_us > 0:
            grid = "no grid" if not kernel.profile.grid else f"a grid of {kernel.steps} step(s)"
            yield finding(
                f"Kernel {kernel.profile.name} has {grid}: it waits while {size(kernel.hbm_us / view.hbm_us(1))} come and go,"
                " with nothing to compute meanwhile. Cut the work into eight or more grid steps, so that the next block is"
                " fetched while this one is computed.",
                "kernels[].grid",
                kernel.steps,
                costs_us,
                "04_async_pipeline",
            )


def single_buffers(view: View) -> Iterator[Finding]:
    for kernel in view.kernels:
        single = [o for o in kernel.anatomy.operands if o.single_buffered and o.moved_bytes]
        if not single:
            continue
        worst = max(single, key=lambda o: o.moved_bytes or 0)
        transfer_us = view.hbm_us(sum(o.moved_bytes or 0 for o in single))
        waits = kernel.waits
        costs_us = min(transfer_us if waits is None else waits * kernel.us, kernel.us)
        yield finding(
            f"{worst.label} of kernel {kernel.profile.name} has one buffer: computing stops while its next block is fetched"
            f" ({us(transfer_us)} of transfers). Give it two (pl.Buffered(2), the default).",
            "kernels[].buffers.copies",
            1,
            min(costs_us * kernel.profile.calls, max(view.gap_us(kernel), 0.0)),
            "04_async_pipeline",
        )


def waiting_by_hand(view: View) -> Iterator[Finding]:
    """Async copies of the kernel's own that it waits for.

    A predicted time supposes that transfers overlap as far as bandwidth allows. Where the schedule waits for about as
    long as the copies take, they overlap with nothing, and the true time is longer than that. Where each array crosses
    HBM just once, the pipeline of a grid can do what the copies do.
    """
    for kernel in view.kernels:
        waits = kernel.stall_share("DMA")
        if not kernel.anatomy.moves_by_hand or not waits or waits <= WAITS or not kernel.schedule_us:
            continue
        waited_us, busy_us = waits * kernel.schedule_us, (1 - waits) * kernel.schedule_us
        copied = [o for o in kernel.anatomy.operands if o.space in ("any", "hbm")]
        copies_us = view.hbm_us(sum(o.moved_bytes or 0 for o in copied))
        once = bool(copied) and all(o.moved_bytes == o.array_bytes for o in copied)
        if waited_us >= SERIAL * copies_us:
            costs_us = max(waited_us, copies_us) + busy_us - max(kernel.hbm_us, busy_us)
        else:
            costs_us = min(waited_us, kernel.us - view.least_us(kernel))
        yield finding(
            f"Kernel {kernel.profile.name} waits {100 * waits:.0f} % of its cycles for copies that it starts itself. "
            + (
                "They move each array once: leave that to BlockSpecs over a grid, which fetch the next block during this step."
                if once
                else "Start the next copy into a second buffer before waiting for this one."
            ),
            "kernels[].stalls",
            waits,
            costs_us * kernel.profile.calls,
            "04_async_pipeline" if once else "15_manual_dma",
        )


def long_waits(view: View) -> Iterator[Finding]:
    """Long steps that nevertheless wait for transfers: blocks that are large against what is computed on them."""
    for kernel in view.kernels:
        waits = kernel.waits
        cycles = kernel.profile.cycles or 0.0
        if not waits or waits <= WAITS or kernel.anatomy.moves_by_hand or kernel.steps < 4 or kernel.by_hbm:
            continue
        if cycles / kernel.steps < SHORT_STEP_CYCLES or any(o.single_buffered for o in kernel.anatomy.operands):
            continue
        worst = max((s for s in kernel.profile.stalls if s.cause.startswith("DMA")), key=lambda s: s.share)
        yield finding(
            f"Kernel {kernel.profile.name} waits {100 * waits:.0f} % of its cycles for transfers, most for {worst.cause}: a step"
            " computes for less time than its blocks take to come. Reuse each block for more work, or move fewer bytes.",
            "kernels[].stalls",
            waits,
            min(waits * kernel.total_us, view.gap_us(kernel)),
            "09_block_size_and_vmem_budget",
        )


DETECTORS = (
    outside_kernels, rereads, intermediates, wide_operands, short_steps, exposed_transfers, single_buffers,
    waiting_by_hand, long_waits,
)  # fmt: skip

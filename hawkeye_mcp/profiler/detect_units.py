"""Findings about what the units of a core do. Thresholds are where the change can pay.

What freeing a unit saves ends where the next busy one, or HBM, takes over.
"""

from collections.abc import Iterator

from hawkeye_mcp.profile import Finding
from hawkeye_mcp.profiler.units import BUSY, LOAD_SLOTS, SCALAR_SLOTS, STORE_SLOTS, VALU_SLOTS, shares
from hawkeye_mcp.profiler.view import ELEMENTS, View, count, finding, flop, matmul_rate, us

SPILLED = 0.05  # of the cycles
NEEDLESS = 1.25  # times the workload's
ACROSS_LANES = 0.25
# Of scalar instructions: share of their slots that is much, and what is much beside units that do little.
SCALARS, LEADS, LEAST_LEADING = 0.4, 1.3, 0.15


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
            "The workload's inputs are bfloat16, so nothing is gained by it"
            if narrow
            else f"See whether the gate ({view.workload.tolerance.metric} <= {view.workload.tolerance.limit:g}) needs it"
        )
        yield finding(
            f"Kernel {kernel.profile.name} multiplies float32 operands at the highest precision: {passes} passes through the MXU"
            f" where bfloat16 operands (or the default precision) take one. {why}.",
            "matmul passes",
            passes,
            costs_us,
            "01_mxu_feed",
        )


def widened_operands(view: View) -> Iterator[Finding]:
    """Arrays of a type that the chip multiplies at twice the rate, multiplied as another."""
    for kernel in view.kernels:
        wide = [
            m for m in kernel.anatomy.matmuls if matmul_rate(view.peaks, m.lhs, m.rhs) <= view.peaks["bf16_flops_per_s"]
        ]
        read = [o for o in kernel.anatomy.operands if o.direction == "read" and o.item_bits == 8 and not o.prefetched]
        types = [o.label.split()[-1].split("[")[0] for o in read]
        faster = matmul_rate(view.peaks, *types) / view.peaks["bf16_flops_per_s"] if len(types) > 1 else 1.0
        if not wide or faster <= 1 or len(wide) < len(kernel.anatomy.matmuls):
            continue
        mxu_us = kernel.us if kernel.mxu_us is None else min(kernel.mxu_us, kernel.us)
        yield finding(
            f"Kernel {kernel.profile.name} widens {' and '.join(o.label for o in read[:2])} to {wide[0].lhs} before it multiplies, but"
            f" {view.tpu} multiplies {types[0]} {faster:.3g} times as fast. Give the dot its operands as they are, and scale its"
            " result.",
            "matmul operands",
            faster,
            max(0.0, kernel.us - max(mxu_us / faster, kernel.hbm_us)) * kernel.profile.calls,
            "14_low_precision",
        )


def idle_mxu(view: View) -> Iterator[Finding]:
    """Work that would fill the MXU done on the vector unit: more FLOPs for a byte than that unit could keep up with."""
    if any(kernel.anatomy.matmuls for kernel in view.kernels) or not view.kernels:
        return
    vpu_flops_per_s = VALU_SLOTS * ELEMENTS * view.peaks["clock_hz"] * view.cores
    on_vpu_us = view.workload.flops / vpu_flops_per_s * 1e6
    if on_vpu_us > 2 * view.ideal_us:
        yield finding(
            f"No kernel has a matmul, so the MXU is idle: the workload's {flop(view.workload.flops)} take {us(on_vpu_us)}"
            f" at best on the vector unit and {us(view.mxu_floor_us)} on the MXU. Write the products and sums as a dot"
            " (jnp.dot or lax.dot_general with preferred_element_type=float32).",
            "counters.mxu_matmuls",
            0,
            max(0.0, view.total_us - view.ideal_us),
            "01_mxu_feed",
        )


def needless_flops(view: View) -> Iterator[Finding]:
    """More matmuls than the workload has, such as of blocks that a mask then throws away."""
    executed, needed = view.executed("mxu_flops"), view.workload.flops
    if executed < NEEDLESS * needed:
        return
    yield finding(
        f"The kernels execute {flop(executed)} in matmuls where the workload has {flop(needed)}. Skip blocks that contribute"
        " nothing (masked whole, or beyond the end), and compute nothing twice.",
        "counters.mxu_flops",
        executed,
        _saved_us(view, "mxu", shares(view)["mxu"] * (1 - needed / executed)),
        "12_ragged_edges_and_masking",
    )


def spilled_registers(view: View) -> Iterator[Finding]:
    spilled, fetched = view.executed("vector_spills"), view.executed("vector_fills")
    share = max(view.share("vector_spills", STORE_SLOTS[view.tpu]), view.share("vector_fills", LOAD_SLOTS))
    if share < SPILLED or _belongs_on_the_mxu(view):
        return
    yield finding(
        f"{count(spilled)} vector registers are spilled to VMEM and {count(fetched)} fetched back, which takes"
        f" {100 * share:.0f} % of the cycles. Work through the block in pieces that fit the 64 registers (a loop over 8 to 32"
        " rows), with all operations on one piece before the next.",
        "counters.vector_spills",
        spilled,
        _saved_us(view, "vmem", share),
        "03_vectorized_vmem",
    )


def vector_memory(view: View) -> Iterator[Finding]:
    """Loads and stores of vectors other than spills."""
    busy = shares(view)
    spilled = max(view.share("vector_spills", STORE_SLOTS[view.tpu]), view.share("vector_fills", LOAD_SLOTS))
    share = busy["vmem"]
    if share < BUSY or share < max(busy.values()) or spilled > 0.5 * share or _belongs_on_the_mxu(view):
        return
    by_stores = view.share("vector_stores", STORE_SLOTS[view.tpu]) >= view.share("vector_loads", LOAD_SLOTS)
    name = "vector_stores" if by_stores else "vector_loads"
    yield finding(
        f"{count(view.executed(name))} {name.replace('_', ' ')} fill {100 * share:.0f} % of their slots, more than any arithmetic."
        " Do all operations on a piece of the block that fits the 64 registers before the next, and keep accumulators of a"
        " loop in its carry rather than in a ref.",
        f"counters.{name}",
        view.executed(name),
        _saved_us(view, "vmem", share),
        "03_vectorized_vmem",
    )


_ACROSS = {
    "xlu_transposes": ("transposes", "Transpose once outside the loop, or let the matmul contract the other dimension",
                       "13_layout_and_transpose"),
    "xlu_reduces": ("reductions across lanes", "Add whole registers first and reduce across lanes once at the end",
                    "06_lane_reduction"),
    "xlu_rotates": ("rotations", "Keep values in the (8, 128) tiles that loads give them: slices that do not start at multiples"
                    " of those, shifts and reshapes move every element", "02_vmem_tile_layout"),
    "xlu_permutes": ("broadcasts and permutations", "Broadcast along rows rather than lanes, and once, outside the loop",
                     "02_vmem_tile_layout"),
}  # fmt: skip


def cross_lane(view: View) -> Iterator[Finding]:
    """Moves between lanes: by how long they keep their unit, or the schedule waits for it."""
    share = max(shares(view)["xlu"], _stalled(view, "XLU"))
    if share < ACROSS_LANES or _belongs_on_the_mxu(view):
        return
    most = max(_ACROSS, key=view.executed)
    what, advice, row = _ACROSS[most]
    yield finding(
        f"{count(view.executed('xlu_ops'))} moves of vectors across lanes, most of them {what}, keep the kernels busy or waiting"
        f" for {100 * share:.0f} % of their cycles. {advice}.",
        f"counters.{most}",
        view.executed(most),
        _saved_us(view, "xlu", share),
        row,
    )


def vector_arithmetic(view: View) -> Iterator[Finding]:
    share = shares(view)["valu"]
    if share < BUSY or _belongs_on_the_mxu(view):
        return
    yield finding(
        f"The vector unit is what is busy: its {count(view.executed('valu_ops'))} operations need {100 * share:.0f} % of the"
        " kernels' cycles. Hoist what does not change out of the loop, leave casts, masks and divisions out of it, and let"
        " the MXU do sums of products.",
        "counters.valu_ops",
        view.executed("valu_ops"),
        _saved_us(view, "valu", share),
        "03_vectorized_vmem",
    )


def transcendentals(view: View) -> Iterator[Finding]:
    share = max(shares(view)["eup"], _stalled(view, "EUP"))
    if share < BUSY:
        return
    yield finding(
        f"{count(view.executed('eup_ops'))} transcendentals (exp, tanh, log, rsqrt, division) on vectors keep a unit that takes one"
        f" a cycle busy for {100 * share:.0f} % of the kernels' cycles. Evaluate them on fewer elements: after a reduction rather"
        " than before it, once and kept in scratch, one in place of two.",
        "counters.eup_ops",
        view.executed("eup_ops"),
        _saved_us(view, "eup", share),
    )


def scalars(view: View) -> Iterator[Finding]:
    """Loops that handle too little in a turn: scalar instructions fill their slots, or are more than all that they serve."""
    share, busiest = view.share("scalar_ops", SCALAR_SLOTS), max(shares(view).values())
    issuing = view.executed("executed_bundles") / view.cycles if view.cycles else 0.0
    leads = share > LEADS * busiest and share >= LEAST_LEADING and issuing > BUSY
    if busiest > BUSY or not (leads or share >= SCALARS):
        return
    yield finding(
        f"Scalar instructions (addresses, loop control, branches) fill {100 * share:.0f} % of their slots and vector arithmetic"
        f" {100 * shares(view)['valu']:.0f} %: a turn of the loops does too little. Let each handle several tiles of (8, 128) at"
        " once, and unroll short loops.",
        "counters.scalar_ops",
        view.executed("scalar_ops"),
        # A turn that is short takes as long as its longest chain of instructions, whatever units they need.
        _saved_us(view, "scalar", share if share >= SCALARS else issuing),
        "03_vectorized_vmem",
    )


def _saved_us(view: View, unit: str, share: float) -> float:
    """What doing without `share` of the cycles of one unit saves."""
    rest = max((busy for name, busy in shares(view).items() if name != unit), default=0.0)
    if share < 0.5 * rest:  # it runs beside something that takes far longer
        return 0.0
    gap_us = sum(view.gap_us(kernel) for kernel in view.kernels)
    return max(0.0, min(share * view.kernels_us, (1 - rest) * view.kernels_us, gap_us))


def _belongs_on_the_mxu(view: View) -> bool:
    return next(idle_mxu(view), None) is not None


def _stalled(view: View, cause: str) -> float:
    """Share of all kernels' cycles that wait for this cause."""
    waited = sum(
        (kernel.stall_share(cause) or 0.0) * (kernel.profile.cycles or 0.0) * kernel.profile.calls
        for kernel in view.kernels
    )
    return waited / view.cycles if view.cycles else 0.0


DETECTORS = (
    precise_matmuls, widened_operands, needless_flops, idle_mxu, spilled_registers, vector_memory, cross_lane, vector_arithmetic, transcendentals, scalars,
)  # fmt: skip

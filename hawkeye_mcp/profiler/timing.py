"""Predicted time from its two terms: the compiler's static schedule, and the bytes that must cross HBM.

libtpu's static profile charges each transfer a latency, but no transfer the bandwidth that others use. So an operation
takes at least its bytes over the bandwidth; and where a kernel's transfers are known step by step, each step takes the
longer of its share of the schedule and the transfers that run meanwhile, because a double-buffered block arrives
during one step and no earlier. Operations follow one another. Copies that XLA starts ahead of their use are taken to be
hidden behind other operations as far as bandwidth allows: they cost nothing of their own, but a program never takes
less than all its bytes over the bandwidth.

What datasheets leave open (the clock under load, the share of HBM's bandwidth that lasts, what a step costs beside its work) is in
MODELS, fitted to published measurements by `hawkeye accuracy --fit`.
"""

from dataclasses import dataclass

from hawkeye_mcp.evaluation import OpTime


@dataclass(frozen=True)
class Model:
    """How one chip differs from its datasheet and from libtpu's profile.

    clock: sustained, as a share of the clock at which peak FLOP/s hold. hbm: sustained bandwidth, as a share of the
    datasheet's. step_us: between two steps of a grid, in which blocks are waited for and sent for. latency: of a transfer, as a share of what libtpu charges;
    it binds where steps are shorter than libtpu's `latency_cycles`. estimate: of operations without matrix products, as
    a share of what XLA estimates. source: what the figures rest on.
    """

    clock: float = 1.0
    hbm: float = 1.0
    step_us: float = 0.0
    latency: float = 1.0
    latency_cycles: float = 750.0
    estimate: float = 1.0
    source: str = "datasheet"


DATASHEET = Model()
FITTED = "fitted to published measurements on this chip: hawkeye accuracy --fit"
INHERITED = "no published measurement on this chip: the figures of v5e"
MODELS: dict[str, Model] = {
    "v5e": Model(clock=0.993, hbm=0.919, step_us=0.106, latency=0.487, estimate=0.469, source=FITTED),
    "7x": Model(clock=0.865, hbm=0.856, step_us=0.225, estimate=0.388, source=FITTED),
    "v5p": Model(clock=0.993, hbm=0.919, step_us=0.106, latency=0.487, estimate=0.469, source=INHERITED),
    "v6e": Model(clock=0.993, hbm=0.919, step_us=0.106, latency=0.487, estimate=0.469, source=INHERITED),
}


@dataclass(frozen=True)
class Pipeline:
    """Transfers of a kernel's grid.

    transfers: (bytes, transfers, steps): so many steps share their time with so many transfers of so many bytes in all.
    edge_bytes: what arrives before the first step and leaves after the last.
    """

    transfers: tuple[tuple[int, int, float], ...]
    edge_bytes: int

    @property
    def steps(self) -> float:
        return sum(steps for _, _, steps in self.transfers)


@dataclass(frozen=True)
class Cost:
    """What is known of one operation, per call.

    cycles: from the static profile or XLA's estimate, None if unknown. method: where they come from. pipeline: what
    moves with a kernel's grid. product: it holds matrix products, of which XLA's estimate is that of the profile. by_hand: a
    kernel with copies of its own, of which nobody knows how much they overlap.
    """

    name: str
    kind: str
    cycles: float | None
    method: str
    hbm_bytes: int | None
    calls: int = 1
    hidden: bool = False
    pipeline: Pipeline | None = None
    product: bool = False
    by_hand: bool = False


def op_time(cost: Cost, model: Model = DATASHEET, /, *, clock_hz: float, hbm_bytes_per_s: float) -> OpTime | None:
    """None when neither term is known. The rates and both terms are the datasheet's, the time is what the model makes
    of them."""
    static_us = None if cost.cycles is None else cost.cycles / clock_hz * 1e6
    floor_us = None if cost.hbm_bytes is None else cost.hbm_bytes / hbm_bytes_per_s * 1e6
    if static_us is None and floor_us is None:
        return None
    estimated = cost.method == "xla_estimate" and not cost.product
    schedule_us = (static_us or 0.0) / model.clock * (model.estimate if estimated else 1.0)
    hbm_us = (floor_us or 0.0) / model.hbm
    own_us, by_hbm = max(schedule_us, hbm_us), hbm_us > schedule_us
    if cost.pipeline and schedule_us and cost.pipeline.steps:
        steps_us, by_hbm = _pipeline_us(
            cost.pipeline, schedule_us, clock_hz * model.clock, hbm_bytes_per_s * model.hbm, model
        )
        own_us, by_hbm = max(steps_us, hbm_us), by_hbm or hbm_us > steps_us
    own_us = 0.0 if cost.hidden else own_us
    return OpTime(
        name=cost.name,
        kind="mosaic" if cost.kind == "mosaic" else "xla",
        method=cost.method if static_us is not None else "hbm_floor",
        calls=cost.calls,
        static_us=None if static_us is None else rounded(static_us),
        hbm_floor_us=None if floor_us is None else rounded(floor_us),
        hbm_bytes=cost.hbm_bytes,
        us=rounded(own_us * cost.calls),
        bound="hbm" if by_hbm else "static_schedule",
        by_hand=cost.by_hand,
    )


def _pipeline_us(
    pipeline: Pipeline, schedule_us: float, clock_hz: float, bytes_per_s: float, model: Model
) -> tuple[float, bool]:
    """Of a whole grid, and whether most of it is spent waiting for bandwidth."""
    step_us = schedule_us / pipeline.steps
    latency_us = model.latency_cycles / clock_hz * 1e6
    # A step no longer than libtpu's latency is one that waits for it; from twice that on a step hides it.
    waiting = min(1.0, max(0.0, 2 - step_us / latency_us))
    shorter_us = step_us - waiting * (1 - model.latency) * min(step_us, latency_us)
    total_us = bound_us = 0.0
    for moved, transfers, steps in pipeline.transfers:
        working_us = shorter_us if transfers else step_us
        moving_us = moved / bytes_per_s * 1e6
        total_us += steps * (max(working_us, moving_us) + (model.step_us if transfers else 0.0))
        bound_us += steps * moving_us if moving_us > working_us else 0.0
    return total_us + pipeline.edge_bytes / bytes_per_s * 1e6, bound_us > total_us / 2


def rounded(value: float) -> float:
    """Six significant figures: more would pretend to precision."""
    return float(f"{value:.6g}")


def total_us(ops: list[OpTime], model: Model = DATASHEET) -> float:
    """Of a whole program: its operations one after another, and never less than all its HBM traffic takes."""
    return rounded(max(sum(op.us for op in ops), sum((op.hbm_floor_us or 0.0) * op.calls for op in ops) / model.hbm))


def corrected_us(us: float, ops: list[OpTime], model: Model) -> float:
    """A program's time from times of its operations that are the datasheet's, such as those of a baseline that is kept.

    Each operation is slowed down as much as the larger of its two terms is.
    """
    slower = []
    for op in ops:
        static_us, hbm_us = op.static_us or 0.0, op.hbm_floor_us or 0.0
        before, after = max(static_us, hbm_us), max(static_us / model.clock, hbm_us / model.hbm)
        slower.append(op.model_copy(update={"us": op.us * after / before if before else op.us}))
    return max(us, total_us(slower, model))


def floor_us(flops: float, hbm_bytes: float, *, flops_per_s: float, hbm_bytes_per_s: float) -> tuple[float, str]:
    """What no program that does this work can take less than on the chip, and which of the two ceilings says so."""
    return max(
        (rounded(flops / flops_per_s * 1e6), "its FLOPs at peak"),
        (rounded(hbm_bytes / hbm_bytes_per_s * 1e6), "its inputs and outputs over HBM"),
    )

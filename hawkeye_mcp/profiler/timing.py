"""Predicted time from its two terms: the compiler's static schedule, and the bytes that must cross HBM.

libtpu's static profile charges DMA latency but not the HBM bandwidth that transfers share, so an operation takes the
larger of (cycles / clock) and (bytes / bandwidth). Operations follow one another. Copies that XLA starts ahead of
their use are taken to be hidden behind other operations as far as bandwidth allows: they cost nothing of their own,
but a program never takes less than all its bytes over the bandwidth.
"""

from dataclasses import dataclass

from hawkeye_mcp.evaluation import OpTime


@dataclass(frozen=True)
class Cost:
    """What is known of one operation, per call.

    cycles: from the static profile or XLA's estimate, None if unknown. method: where they come from.
    """

    name: str
    kind: str
    cycles: float | None
    method: str
    hbm_bytes: int | None
    calls: int = 1
    hidden: bool = False


def op_time(cost: Cost, *, clock_hz: float, hbm_bytes_per_s: float) -> OpTime | None:
    """None when neither term is known."""
    static_us = None if cost.cycles is None else cost.cycles / clock_hz * 1e6
    hbm_us = None if cost.hbm_bytes is None else cost.hbm_bytes / hbm_bytes_per_s * 1e6
    if static_us is None and hbm_us is None:
        return None
    by_hbm = (hbm_us or 0.0) > (static_us or 0.0)
    own_us = 0.0 if cost.hidden else max(static_us or 0.0, hbm_us or 0.0)
    return OpTime(
        name=cost.name,
        kind="mosaic" if cost.kind == "mosaic" else "xla",
        method=cost.method if static_us is not None else "hbm_floor",
        calls=cost.calls,
        static_us=None if static_us is None else rounded(static_us),
        hbm_floor_us=None if hbm_us is None else rounded(hbm_us),
        hbm_bytes=cost.hbm_bytes,
        us=rounded(own_us * cost.calls),
        bound="hbm" if by_hbm else "static_schedule",
    )


def rounded(value: float) -> float:
    """Six significant figures: more would pretend to precision."""
    return float(f"{value:.6g}")


def total_us(ops: list[OpTime]) -> float:
    """Of a whole program: its operations one after another, and never less than all its HBM traffic takes."""
    return rounded(max(sum(op.us for op in ops), sum((op.hbm_floor_us or 0.0) * op.calls for op in ops)))


def floor_us(flops: float, hbm_bytes: float, *, flops_per_s: float, hbm_bytes_per_s: float) -> tuple[float, str]:
    """What no program that does this work can take less than on the chip, and which of the two ceilings says so."""
    return max(
        (rounded(flops / flops_per_s * 1e6), "its FLOPs at peak"),
        (rounded(hbm_bytes / hbm_bytes_per_s * 1e6), "its inputs and outputs over HBM"),
    )

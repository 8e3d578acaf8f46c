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
    floor_us = None if cost.hbm_bytes is None else cost.hbm_bytes / hbm_bytes_per_s * 1e6
    if static_us is None and floor_us is None:
        return None
    by_hbm = (floor_us or 0.0) > (static_us or 0.0)
    own_us = 0.0 if cost.hidden else max(static_us or 0.0, floor_us or 0.0)
    return OpTime(
        name=cost.name,
        kind="mosaic" if cost.kind == "mosaic" else "xla",
        method=cost.method if static_us is not None else "hbm_floor",
        calls=cost.calls,
        static_us=_rounded(static_us),
        hbm_floor_us=_rounded(floor_us),
        hbm_bytes=cost.hbm_bytes,
        us=_rounded(own_us * cost.calls) or 0.0,
        bound="hbm" if by_hbm else "static_schedule",
    )


def _rounded(value: float | None) -> float | None:
    """Six significant figures: more would pretend to precision."""
    return None if value is None else float(f"{value:.6g}")


def total_us(ops: list[OpTime]) -> float:
    """Of a whole program: its operations one after another, and never less than all its HBM traffic takes."""
    return float(f"{max(sum(op.us for op in ops), sum((op.hbm_floor_us or 0.0) * op.calls for op in ops)):.6g}")

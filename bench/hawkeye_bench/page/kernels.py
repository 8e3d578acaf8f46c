"""Where the best kernels stand under the chip's roofline: what they do for each byte, and how fast."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hawkeye_bench import pairs as pairing
from hawkeye_bench.page.history import History
from hawkeye_bench.pairs import Source
from hawkeye_bench.runs import Run
from hawkeye_mcp import workloads
from hawkeye_mcp.workloads import UnknownWorkload


@dataclass(frozen=True)
class Placed:
    """The kernel of a run that was judged again. why: what is unknown, where a figure is None.

    intensity: FLOP of the workload for each byte that the compiled program moves over HBM. flops_per_s: FLOP of the
    workload over the kernel's time. roof: the least of the chip's ceilings at that intensity, None where no run says
    what they are.
    """

    run: Run
    source: Source | None
    intensity: float | None = None
    flops_per_s: float | None = None
    roof: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Roof:
    """Rates of one device by a profile of the folder: bytes a second over HBM, FLOP a second, and their sources."""

    bytes_per_s: float
    flops_per_s: float
    source: str


def roof(histories: Iterable[History]) -> Roof | None:
    """The ceilings that the server told an agent; the highest FLOP rate where kernels of several types have several."""
    told = [one.ceilings for one in histories if {"hbm", "mxu"} <= one.ceilings.keys()]
    if not told:
        return None
    hbm, mxu = (max(one[unit] for one in told) for unit in ("hbm", "mxu"))
    return Roof(hbm[0], mxu[0], "; ".join(part for part in (hbm[1], mxu[1]) if part))


def placed(runs: Iterable[tuple[Run, History]], under: Roof | None, folders: Mapping[str, str]) -> list[Placed]:
    """Each run with a correct kernel. folders: by name of a workload, what its plan calls it."""
    return [_placed(run, history, under, folders) for run, history in runs if pairing.succeeded(run)]


def _placed(run: Run, history: History, under: Roof | None, folders: Mapping[str, str]) -> Placed:
    unknown = Placed(run, run.source)
    if history.again is None or history.again.timing is None:
        return _because(unknown, "the last judgement was not kept")
    if run.candidate_us is None or run.lower_bound:
        return _because(unknown, "only a lower bound of its time is known" if run.lower_bound else "no time is known")
    timing = history.again.timing
    ops = timing.ops or (history.again.predicted.ops if history.again.predicted else [])
    if not ops or any(op.hbm_bytes is None for op in ops):
        return _because(unknown, "the bytes that it moves over HBM are unknown")
    try:
        flops = workloads.find(folders.get(run.workload, run.workload)).flops
    except UnknownWorkload:
        return _because(unknown, "its workload is not on this machine, so its FLOPs are unknown")
    moved = sum((op.hbm_bytes or 0) * op.calls for op in ops)
    if not moved or not flops:
        return _because(unknown, "it moves nothing over HBM" if not moved else "its workload has no FLOPs")
    intensity = flops / moved
    return Placed(
        run,
        run.source,
        intensity=intensity,
        flops_per_s=flops / run.candidate_us * 1e6,
        roof=min(under.flops_per_s, intensity * under.bytes_per_s) if under else None,
    )


def _because(found: Placed, why: str) -> Placed:
    return Placed(found.run, found.source, why=why)

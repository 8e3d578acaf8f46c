"""A candidate as the detectors of findings see it: its kernels, what they move, execute and wait for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.evaluation import Timing
from hawkeye_mcp.profile import Count, Finding, KernelProfile
from hawkeye_mcp.profiler.anatomy import Anatomy
from hawkeye_mcp.profiler.buffers import DEFAULT_LIMIT_BYTES
from hawkeye_mcp.workloads import Workload


@dataclass(frozen=True)
class Kernel:
    """One kernel; times are of one run.

    schedule_us: by libtpu's static profile, waits included; None if unknown. hbm_us: its bytes over the bandwidth.
    mxu_us: its matmuls at the bfloat16 peak, None where loops or branches hide how often they run.
    """

    profile: KernelProfile
    anatomy: Anatomy
    schedule_us: float | None
    hbm_us: float
    mxu_us: float | None

    @property
    def steps(self) -> int:
        return math.prod(self.profile.grid)

    @property
    def us(self) -> float:
        return max(self.schedule_us or 0.0, self.hbm_us)

    @property
    def total_us(self) -> float:
        return self.us * self.profile.calls

    @property
    def by_hbm(self) -> bool:
        return self.hbm_us > (self.schedule_us or 0.0)

    def stall_share(self, of: str) -> float | None:
        """Share of the cycles that wait for causes that begin with `of`; None if stalls are unknown."""
        if not self.profile.stalls:
            return None
        return sum(stall.share for stall in self.profile.stalls if stall.cause.startswith(of))


@dataclass(frozen=True)
class View:
    """total_us: the candidate's time. counters: of the executed schedule of all kernels, empty if not counted."""

    tpu: str
    workload: Workload
    timing: Timing
    total_us: float
    peaks: Mapping[str, float]
    kernels: list[Kernel]
    counters: Mapping[str, Count] = field(default_factory=dict)

    @property
    def hbm_floor_us(self) -> float:
        return self.workload.least_bytes / self.peaks["hbm_bytes_per_s"] * 1e6

    @property
    def mxu_floor_us(self) -> float:
        return (self.workload.least_flops or self.workload.flops) / self.peaks["bf16_flops_per_s"] * 1e6

    @property
    def ideal_us(self) -> float:
        """What no kernel for this workload can take less than."""
        return max(self.hbm_floor_us, self.mxu_floor_us)

    @property
    def kernels_us(self) -> float:
        return sum(kernel.total_us for kernel in self.kernels)

    @property
    def cores(self) -> int:
        return CHIPS[self.tpu].cores

    def hbm_us(self, moved: float) -> float:
        return moved / self.peaks["hbm_bytes_per_s"] * 1e6

    def least_us(self, kernel: Kernel) -> float:
        """What one run of a kernel takes at least with the same blocks: its bytes, or its matmuls at peak."""
        mxu_us = kernel.mxu_us
        if mxu_us is None:
            mxu_us = self.mxu_floor_us * kernel.us / max(self.kernels_us, 1e-9) if kernel.anatomy.matmuls else 0.0
        return max(kernel.hbm_us, min(mxu_us, kernel.us))

    def gap_us(self, kernel: Kernel) -> float:
        """How much of all runs of a kernel its schedule takes beyond that."""
        return max(0.0, (kernel.us - self.least_us(kernel)) * kernel.profile.calls)

    def share(self, counter: str, slots: float) -> float:
        """Of the kernels' cycles, how many these operations take at least when `slots` of them issue in each."""
        cycles = sum((kernel.profile.cycles or 0.0) * kernel.profile.calls for kernel in self.kernels)
        found = self.counters.get(counter)
        return found.total / slots / cycles if found and cycles else 0.0

    def vmem(self, kernel: Kernel) -> tuple[int, int]:
        """Bytes of VMEM that a kernel takes, and the most that it may."""
        used = sum(buffer.bytes for buffer in kernel.profile.buffers if buffer.space == "vmem")
        return used, kernel.anatomy.vmem_limit_bytes or DEFAULT_LIMIT_BYTES[self.tpu]


def finding(text: str, counter: str, value: float, costs_us: float, row: str | None = None) -> Finding:
    return Finding(
        text=text,
        counter=counter,
        value=float(f"{value:.4g}"),
        costs_us=float(f"{costs_us:.4g}"),
        taxonomy_row=row,
    )


def us(value: float) -> str:
    """Microseconds as people read them."""
    return f"{value:,.0f} us" if value >= 1000 else f"{value:.4g} us"


def size(count: float) -> str:
    """Bytes as people read them, in powers of 1024."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"

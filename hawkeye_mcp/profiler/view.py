"""A candidate as the detectors of findings see it: its kernels, what they move, execute and wait for."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.evaluation import Timing
from hawkeye_mcp.profile import Count, Finding, KernelProfile
from hawkeye_mcp.profiler.anatomy import Anatomy
from hawkeye_mcp.profiler.buffers import DEFAULT_LIMIT_BYTES
from hawkeye_mcp.workloads import Workload

ELEMENTS = 1024  # of a vector register of 32-bit numbers: 8 sublanes of 128 lanes


_NARROW = {"int8": r"[su]?i(nt)?8", "int4": r"[su]?i(nt)?4", "fp8": r"f(loat)?8"}


def matmul_rate(peaks: Mapping[str, float], *dtypes: str) -> float:
    """Operations a second of the MXUs on operands of these types, as MLIR or jax names them."""
    kinds = {next((kind for kind, names in _NARROW.items() if re.match(names, dtype)), "") for dtype in dtypes}
    narrow = peaks.get(f"{kinds.pop()}_ops_per_s", 0.0) if len(kinds) == 1 else 0.0
    return max(narrow, peaks["bf16_flops_per_s"])


@dataclass(frozen=True)
class Kernel:
    """One kernel; times are of one run.

    us: predicted. schedule_us: by libtpu's static profile, waits included; None if unknown. hbm_us: its bytes over the
    bandwidth. by_hbm: whether bandwidth is what most of its time waits for. mxu_us: its matmuls at the peak of their
    operands' type, every branch taken; None where loops hide how often they run.
    """

    profile: KernelProfile
    anatomy: Anatomy
    us: float
    schedule_us: float | None
    hbm_us: float
    by_hbm: bool
    mxu_us: float | None

    @property
    def steps(self) -> int:
        return math.prod(self.profile.grid)

    @property
    def total_us(self) -> float:
        return self.us * self.profile.calls

    def stall_share(self, of: str) -> float | None:
        """Share of the cycles that wait for causes that begin with `of`; None if stalls are unknown."""
        if not self.profile.stalls:
            return None
        return sum(stall.share for stall in self.profile.stalls if stall.cause.startswith(of))

    @property
    def waits(self) -> float | None:
        """Share of the time that waits for transfers, by the schedule or for bandwidth; None if stalls are unknown."""
        stalled = self.stall_share("DMA")
        if stalled is None or not self.us:
            return None
        schedule_us = min(self.schedule_us or 0.0, self.us)
        return (self.us - schedule_us * (1 - stalled)) / self.us


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
    def mxu_flops_per_s(self) -> float:
        """The fastest rate for types that several of the workload's arrays have, or that a kernel multiplies."""
        dtypes = [array.dtype for array in self.workload.inputs]
        pairs = [(dtype, dtype) for dtype in dtypes if dtypes.count(dtype) > 1]
        pairs += [(matmul.lhs, matmul.rhs) for kernel in self.kernels for matmul in kernel.anatomy.matmuls]
        return max((matmul_rate(self.peaks, *pair) for pair in pairs), default=self.peaks["bf16_flops_per_s"])

    @property
    def mxu_floor_us(self) -> float:
        return (self.workload.least_flops or self.workload.flops) / self.mxu_flops_per_s * 1e6

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

    @property
    def cycles(self) -> float:
        """Of all kernels, one core's."""
        return sum((kernel.profile.cycles or 0.0) * kernel.profile.calls for kernel in self.kernels)

    def executed(self, counter: str) -> float:
        """Instructions over all runs; without counters those of the kernels' own text, which are the least."""
        if counter in self.counters:
            return self.counters[counter].total
        part = {"valu_ops": "vector_elements", "eup_ops": "transcendental_elements"}.get(counter)
        steps = [(k.anatomy.step, k.steps * k.profile.calls) for k in self.kernels]
        return sum(getattr(step, part) * n for step, n in steps if step) / ELEMENTS if part else 0.0

    def share(self, counter: str, slots: float) -> float:
        """Of the kernels' cycles, how many these instructions take at least when `slots` of them issue in each."""
        found = self.counters.get(counter)
        if found and found.peak_share is not None:
            return found.peak_share
        cores = self.cores if any(kernel.anatomy.parallel_axes for kernel in self.kernels) else 1
        return self.executed(counter) / slots / cores / self.cycles if self.cycles else 0.0

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


def count(value: float) -> str:
    """Three digits of a count, as people read it."""
    return f"{float(f'{value:.3g}'):,.15g}"


def flop(value: float) -> str:
    """Floating-point operations as people read them."""
    return f"{count(value / 1e9)} GFLOP"


def us(value: float) -> str:
    """Microseconds as people read them."""
    return f"{value:,.0f} us" if value >= 1000 else f"{value:.4g} us"


def size(moved: float) -> str:
    """Bytes as people read them, in powers of 1024."""
    for unit in ("B", "KiB", "MiB"):
        if moved < 999.5:
            return f"{moved:.3g} {unit}"
        moved /= 1024
    return f"{moved:.3g} GiB"

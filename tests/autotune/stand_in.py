"""A judge whose times are a function of the constants A and B of a file, with a known optimum, and no compiler.

time: 100 + 10 (A - 4)^2 + (B - 16)^2 / 4 us, known within a tenth. The compiler refuses A * B > 100. The first rung's
estimate leaves out most of what B costs. What is in `wrong` is incorrect when judged.
"""

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from fake_judge import VERSIONS

from hawkeye_mcp.autotune import parameters
from hawkeye_mcp.evaluation import Correctness, Evaluation, Timing
from hawkeye_mcp.judge.outlining import Outline
from hawkeye_mcp.kernels import sha256
from hawkeye_mcp.profile import Profile

REFUSED = "E1001: CompileTimeScopedVmemOom:\nOut of memory. Size 42.00M and limit 16.00M exceeded by 26.00M. See there."
SOURCE = "A = 1\nB: int = 0x8  # a comment \u00e9\n\n\ndef workload(a, b):\n    return A * B\n"
SPACE = {"A": [1, 2, 4, 8], "B": [8, 16, 32]}


def time_us(a: int, b: int) -> float:
    return 100 + 10 * (a - 4) ** 2 + (b - 16) ** 2 / 4


def estimate_us(a: int, b: int) -> float:
    return 100 + 10 * (a - 4) ** 2 + abs(b - 16) / 100


@dataclass
class StandIn:
    """profiled, judged: the points that it was asked of, in order. within: how far off its times may be.
    judged_us: times that a full evaluation finds, where they are others."""

    wrong: set[tuple[int, int]] = field(default_factory=set)
    faulty: set[tuple[int, int]] = field(default_factory=set)
    lower_bounds: set[tuple[int, int]] = field(default_factory=set)
    within: float = 1.1
    judged_us: dict[tuple[int, int], float] = field(default_factory=dict)
    hold_after: int | None = None
    isolation: str = "rlimits"
    profiled: list[tuple[int, int]] = field(default_factory=list)
    judged: list[tuple[int, int]] = field(default_factory=list)
    holding: anyio.Event = field(default_factory=anyio.Event)

    async def profile(
        self,
        source: str,
        workload: Any,
        tpu: str,
        *,
        counters: bool = True,
        goes_on: Callable[[Outline], bool] | None = None,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> Profile:
        if self.hold_after is not None and len(self.profiled) >= self.hold_after:
            print("holding", file=sys.stderr, flush=True)
            self.holding.set()
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        a, b = point = _point(source)
        self.profiled.append(point)
        found = {"status": "profiled", "message": "Profiled.", "next_step": "", "workload": workload.name, "tpu": tpu}
        found |= {"kernel_sha256": sha256(source), "isolation": self.isolation, "versions": VERSIONS}
        if point in self.faulty:
            return Profile(**found | {"status": "harness_error", "message": "FileNotFoundError: inside"})
        if a * b > 100:
            refused = {
                "status": "compile_error",
                "message": "The TPU compiler refuses it.",
                "compiler_message": REFUSED,
            }
            return Profile(**found | refused)
        if goes_on and not goes_on(Outline(estimate_us(a, b))):
            return Profile(**found)
        return Profile(**found, timing=self._timing(point), vmem_bytes=a * b)

    async def evaluate(
        self, source: str, workload: Any, tpu: str, *, progress: Callable[[str], None] = lambda stage: None
    ) -> Evaluation:
        point = _point(source)
        self.judged.append(point)
        right = point not in self.wrong
        return Evaluation(
            id=f"ev-{len(self.judged)}",
            status="correct" if right else "incorrect",
            message="Correct." if right else "Wrong at check size.",
            next_step="",
            workload=workload.name,
            tpu=tpu,
            kernel_sha256=sha256(source),
            isolation=self.isolation,
            correctness=Correctness(ok=right, size="check", seeds=3, gate="E <= 0.01", outputs=[]),
            timing=self._timing(point, self.judged_us.get(point)),
            versions=VERSIONS,
            created="2026-01-01T00:00:00+00:00",
        )

    def _timing(self, point: tuple[int, int], us: float | None = None) -> Timing:
        us = us or time_us(*point)
        return Timing(
            source="predicted",
            candidate_us=us,
            baseline_us=None,
            speedup=None,
            candidate_interval_us=(us / self.within, us * self.within),
            lower_bound=point in self.lower_bounds,
        )

    @contextlib.asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator["StandIn"]:
        yield self


def _point(source: str) -> tuple[int, int]:
    found = parameters.constants(source)
    return found["A"].value, found["B"].value

"""A deterministic judge for tests of the server: the kernel text says what the verdict is.

Markers in the text (a line `# fake: NAME`): any Status gives that verdict; `hold` waits for the judge's
`release`; `stage X` reports that stage before; `crash` raises; `print` writes to stdout in every way Python can;
`huge` fills every text; `speedup X` sets it, and so does a line `SPEEDUP = X` of the kernel's own; `measured`, `lower_bound` and `baseline_lower_bound` set those.
"""

import itertools
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, get_args

import anyio

from hawkeye_mcp.evaluation import (
    ArtifactInfo,
    Audit,
    Correctness,
    Diagnosis,
    Evaluation,
    Kernel,
    OpTime,
    OutputError,
    OutsideOp,
    ProfileStatus,
    Status,
    Timing,
    Versions,
)
from hawkeye_mcp.judge.verdict import NEXT_STEP
from hawkeye_mcp.pool import sha256
from hawkeye_mcp.profile import Count, Finding, Profile
from hawkeye_mcp.sanitizer import run as sanitizer
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.workloads import Workload

VERSIONS = Versions(hawkeye="0", jax="0", jaxlib="0", libtpu="0")
# What a fault of the harness may say: nothing of it is for a client.
INSIDE = "FileNotFoundError: secret inside taxonomy/v5e/01_mxu_feed, the pool and its cells"
_numbers = itertools.count(1)


@dataclass
class FakeJudge:
    """Counts what it judged, and what was cancelled while it was being judged."""

    isolation: str = "rlimits"
    judged: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    entered: anyio.Event = field(default_factory=anyio.Event)
    release: anyio.Event = field(default_factory=anyio.Event)
    was_cancelled: anyio.Event = field(default_factory=anyio.Event)
    closed: bool = False

    async def evaluate(
        self,
        source: str,
        workload: Workload,
        tpu: str,
        *,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> Evaluation:
        said = await self._act(source, progress)
        huge = "long words \u00e9 " * 5_000 if "huge" in said else ""
        status = _status(said)
        correct = status == "correct"
        return Evaluation(
            id=f"ev-{os.getpid()}-{next(_numbers)}",
            status=status,
            message=INSIDE if status == "harness_error" else f"The verdict is {status}.{huge}",
            next_step=f"{NEXT_STEP[status]}{huge}",
            workload=workload.name,
            tpu=tpu,
            kernel_sha256=sha256(source),
            isolation=self.isolation,
            artifact=ArtifactInfo(sha256="a" * 64, bytes=1234),
            audit=Audit(
                ok=True,
                kernels=[Kernel(name="matmul", grid=[4, 4], calls=1)],
                outside=[OutsideOp(op="stablehlo.add", count=2)],
                problems=[huge] if huge else [],
            ),
            correctness=Correctness(
                ok=correct,
                size="check",
                seeds=3,
                gate="E <= 0.01",
                outputs=[_output(correct)],
                problem=huge or None,
            ),
            timing=_timing(said) if correct else None,
            diagnosis=Diagnosis(findings=["MXU busy 12 %", huge or "HBM busy 80 %"], taxonomy_rows=["01_mxu_feed"]),
            compiler_message=huge or None,
            versions=VERSIONS,
            created="2026-01-01T00:00:00+00:00",
        )

    async def profile(
        self,
        source: str,
        workload: Workload,
        tpu: str,
        *,
        counters: bool = True,
        goes_on: Any = None,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> Profile:
        said = await self._act(source, progress)
        status = next((word for word in said if word in get_args(ProfileStatus)), "profiled")
        timing = _timing(said) if status == "profiled" else None
        return Profile(
            status=status,
            message={"harness_error": INSIDE, "profiled": "Profiled."}.get(status, f"The verdict is {status}."),
            next_step="Feed the MXU.",
            workload=workload.name,
            tpu=tpu,
            kernel_sha256=sha256(source),
            isolation=self.isolation,
            artifact=ArtifactInfo(sha256="a" * 64, bytes=1234),
            predicted_us=timing.candidate_us if timing else None,
            timing=timing,
            counters={
                f"counter {i}": Count(total=i, per_step=i / 16, unit="cycles")
                for i in range(900 if "huge" in said else 2)
            },
            vmem_bytes=1024,
            findings=[Finding(text="MXU busy 12 %", counter="mxu_matmuls", taxonomy_row="01_mxu_feed")],
            versions=VERSIONS,
        )

    async def sanitize(
        self, source: str, workload: Workload, tpu: str, *, progress: Callable[[str], None] = lambda stage: None
    ) -> Sanitized:
        """The real one, unless a test puts another in its place."""
        return await sanitizer.sanitize(source, workload, tpu, progress=progress)

    async def _act(self, source: str, progress: Callable[[str], None]) -> set[str]:
        said = set(re.findall(r"# fake: (.*)", source))
        said |= {f"speedup {number}" for number in re.findall(r"^SPEEDUP = (\d+)$", source, re.MULTILINE)}
        self.judged.append(source)
        progress("trace")
        if "print" in said:
            print("a stray line on stdout")
            sys.stdout.write("and one without an end")
            os.write(1, b"and one past Python\n")
        if "crash" in said:
            raise RuntimeError(INSIDE)
        for word in said:
            if word.startswith("stage "):
                progress(word.removeprefix("stage "))
        self.entered.set()
        try:
            if "hold" in said:
                await self.release.wait()
        except anyio.get_cancelled_exc_class():
            print("fake judge cancelled", file=sys.stderr)
            self.cancelled.append(source)
            self.was_cancelled.set()
            raise
        progress("compile")
        return said

    @asynccontextmanager
    async def open(self) -> AsyncIterator["FakeJudge"]:
        try:
            yield self
        finally:
            print("fake judge closed", file=sys.stderr)
            self.closed = True


def _status(said: set[str]) -> Any:
    return next((word for word in said if word in get_args(Status)), "correct")


def _intervals(speedup: float, within: float) -> dict[str, Any]:
    """Of a candidate whose time is known within a factor, over a baseline that is known exactly."""
    low, high = speedup / within, speedup * within
    return {
        "candidate_interval_us": (100 / high, 100 / low),
        "baseline_interval_us": (100, 100),
        "speedup_interval": (low, high),
        "indistinguishable": low <= 1 <= high,
    }


def _timing(said: set[str]) -> Timing:
    speedup = next((float(word.split()[1]) for word in said if word.startswith("speedup ")), 2.0)
    within = next((float(word.split()[1]) for word in said if word.startswith("within ")), None)
    intervals = {} if within is None else _intervals(speedup, within)
    return Timing(
        **intervals,
        source="measured" if "measured" in said else "predicted",
        candidate_us=100.0 / speedup,
        baseline_us=100.0,
        speedup=speedup,
        lower_bound="lower_bound" in said,
        baseline_lower_bound="baseline_lower_bound" in said,
        baseline_method="fake",
        ops=[
            OpTime(
                name="matmul",
                kind="mosaic",
                method="static_profile",
                static_us=100.0 / speedup,
                hbm_floor_us=10.0,
                hbm_bytes=1000,
                us=100.0 / speedup,
                bound="static_schedule",
            )
        ],
    )


def _output(correct: bool) -> OutputError:
    return OutputError(
        index=0,
        shape=[128, 128],
        dtype="bfloat16",
        error_e=0.001 if correct else 0.9,
        error_r=0.002,
        max_abs_error=0.5,
        max_rel_error=None,
        failing_fraction=0.0,
        nonfinite=0,
        worst_index=[3, 4],
        expected=1.0,
        actual=2.0,
    )


def open_fake() -> Any:
    """A judge of its own each time: what a worker's Job names."""
    return FakeJudge().open()

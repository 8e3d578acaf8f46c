"""Sanitize one kernel file: settings, each in a sandbox of its own, and what comes back taken apart as hostile data.

The kernel's Python runs beside the watch, so it can lie, about itself alone: no verdict depends on what is said here.
It runs on inputs drawn from a public seed, which tell nothing of those that the judge draws.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio

from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.candidate.sandbox import Ended, Limits, Sandbox, Sandboxes, SandboxPool
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.judge.workers import WorkerPool
from hawkeye_mcp.kernels import sha256
from hawkeye_mcp.sanitizer.advice import TWO_CORES
from hawkeye_mcp.sanitizer.model import CHECKS, Check, NotChecked, Sanitized, Setting
from hawkeye_mcp.sanitizer.replies import Seen, clean, compare, narrow, outcome, setting_of, take, unique
from hawkeye_mcp.workloads import Workload

RUN_S = 120.0
QUICK_S = 10.0  # beside an evaluation, which waits for it
_GRACE_S = 2.0  # to reply, once the time is up
_DRAW_S = 120.0

Signature = Sequence[tuple[Sequence[int], str]]


class SandboxFailed(RuntimeError):
    """The sandbox ended before it took the kernel: this installation or machine is at fault."""


class Sanitizer:
    """Make one with `open_sanitizer`."""

    def __init__(self, sandboxes: Sandboxes, verifier: WorkerPool) -> None:
        self._sandboxes, self._verifier = sandboxes, verifier

    async def sanitize(
        self,
        source: str,
        workload: Workload,
        tpu: str,
        *,
        only: Check | None = None,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> Sanitized:
        """Run the kernel's checks for one workload on one chip.

        only: that check alone.

        Raises:
            SandboxFailed, WorkerDied, WorkerTimeout, WorkerUnavailable, WorkerError: the harness is at fault.
        """
        start = time.monotonic()
        wanted = _settings(only, tpu)
        progress("draw")
        inputs: list[dict[str, Any]] = []
        if wanted != ["static"]:
            inputs = await self.draw(workload)
        drawn_s = time.monotonic() - start
        full = workload.shapes(workload.inputs, "full")
        seen = await self.examine(source, full, inputs, tpu, wanted, progress)
        if only:
            narrow(seen, only)
        return _sanitized(seen, source, workload, tpu, drawn_s, start)

    async def beside(self, box: Sandbox, source: str, workload: Workload, tpu: str) -> Sanitized:
        """The quick checks, in the sandbox that has just traced the kernel: the grid at full size, and one watched run in
        the grid's own order (more of the same program where garbage is read). Takes at most `QUICK_S`.

        Raises:
            WorkerDied, WorkerTimeout, WorkerUnavailable, WorkerError: the inputs could not be drawn.
        """
        start = time.monotonic()
        inputs = await self.draw(workload)
        drawn_s = time.monotonic() - start
        seen, settings = Seen(), _settings(None, tpu)[:2]
        request = _request(workload.shapes(workload.inputs, "full"), inputs, settings, quick=True)
        ended = await box.ask({"sanitize": request}, CHIPS[tpu], wall_s=QUICK_S + _GRACE_S)
        _heard(ended, source, settings, seen, tpu)
        _leave_two_cores(seen, tpu)
        seen.findings = unique(seen.findings)
        return _sanitized(seen, source, workload, tpu, drawn_s, start)

    async def draw(self, workload: Workload) -> list[dict[str, Any]]:
        """The workload's inputs at its check size, of a public seed, as `examine` takes them."""
        reply = await self._verifier.call("public_inputs", _DRAW_S, workload=workload.reference)
        inputs: list[dict[str, Any]] = reply["inputs"]
        return inputs

    def warm(self, tpu: str) -> None:
        """Start the next sandbox for this chip now."""
        self._sandboxes.refill(CHIPS[tpu])

    async def examine(
        self,
        source: str,
        full: Signature,
        inputs: list[dict[str, Any]],
        tpu: str,
        settings: Sequence[Setting],
        progress: Callable[[str], None] = lambda stage: None,
    ) -> Seen:
        """full: signature at the size of which only the grid is looked at. inputs: what it is run on, as sent."""
        seen = Seen()
        first = [setting for setting in settings if setting != "two_cores"]

        async def ask(asked: Sequence[Setting]) -> bool:
            """One sandbox; False if it died, so that fewer settings at once may tell more."""
            chip = CHIPS[tpu]
            request = {"source": source, "sanitize": _request(full, inputs, asked, quick=False)}
            async with self._sandboxes.take(chip) as box:
                ended = await box.ask(request, chip)
            if not ended.started:
                raise SandboxFailed(f"the sandbox did not get ready: {ended.why}. {ended.stderr_tail[-1000:]}")
            return _heard(ended, source, asked, seen, tpu)

        if first:
            progress("watch on one core")
            whole = await ask(first)
            if not whole and "static" in first and len(first) > 1:  # which looks without running
                seen.not_checked = [skip for skip in seen.not_checked if skip.check != "static"]
                await ask(["static"])
        if "two_cores" in settings and not seen.failed:
            # no parallel axis, or it could not be run on one core
            if reason := next(
                (skip.reason for skip in seen.not_checked if skip.check in ("seeds", "uninitialised")), ""
            ):
                seen.not_checked.append(NotChecked(check="two_cores", reason=reason))
            else:
                progress("race two cores")
                await ask(["two_cores"])
                compare(seen, tpu)
        if "two_cores" not in settings and len(settings) > 1:
            _leave_two_cores(seen, tpu)
        seen.findings = unique(seen.findings)
        return seen


def _request(
    full: Signature, inputs: list[dict[str, Any]], settings: Sequence[Setting], *, quick: bool
) -> dict[str, Any]:
    return {
        "full": [[list(shape), dtype] for shape, dtype in full],
        "inputs": inputs,
        "settings": list(settings),
        "quick": quick,
        "limit_s": QUICK_S if quick else RUN_S,
        "folder": isolation.sanitizer_folder(),
    }


def _heard(ended: Ended, source: str, settings: Sequence[Setting], seen: Seen, tpu: str) -> bool:
    """Add how a sandbox ended; False if it died."""
    if ended.reply is not None:
        take(ended.reply, source, settings, seen, tpu)
        return True
    reason = clean(f"{ended.why} {ended.stderr_tail[-300:]}")
    for check in CHECKS:
        if setting_of(check) in settings and check not in seen.checks:
            seen.not_checked.append(NotChecked(check=check, reason=reason))
    return ended.timed_out


def _leave_two_cores(seen: Seen, tpu: str) -> None:
    reason = "it is left to the sanitizer alone" if tpu in TWO_CORES else f"{tpu} has one TensorCore"
    seen.not_checked.append(NotChecked(check="two_cores", reason=reason))


def _sanitized(seen: Seen, source: str, workload: Workload, tpu: str, drawn_s: float, start: float) -> Sanitized:
    stages = {"draw": round(drawn_s, 3), **seen.seconds, "total": round(time.monotonic() - start, 3)}
    status, message, next_step = outcome(seen)
    return Sanitized(
        status=status,
        message=message,
        next_step=next_step,
        workload=workload.name,
        tpu=tpu,
        kernel_sha256=sha256(source),
        findings=seen.findings,
        checks=seen.checks,
        not_checked=seen.not_checked,
        isolation=isolation.isolation(),
        stages_s=stages,
    )


def _settings(only: Check | None, tpu: str) -> list[Setting]:
    if only:
        return [setting_of(only)]
    return ["static", "one_core", "two_cores"] if tpu in TWO_CORES else ["static", "one_core"]


@contextlib.asynccontextmanager
async def open_sanitizer() -> AsyncIterator[Sanitizer]:
    """A sanitizer whose processes all end with the context."""
    verifier = WorkerPool("verifier", 1)
    async with anyio.create_task_group() as tasks:
        sandboxes = SandboxPool(tasks, limits=Limits(wall_s=RUN_S + 60, cpu_s=2 * int(RUN_S)))
        try:
            yield Sanitizer(sandboxes, verifier)
        finally:
            with anyio.CancelScope(shield=True):
                tasks.cancel_scope.cancel()
                await sandboxes.close()
                await verifier.close()


async def sanitize(
    source: str,
    workload: Workload,
    tpu: str,
    *,
    only: Check | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Sanitized:
    """As `Sanitizer.sanitize`, with processes that start and end with the call."""
    async with open_sanitizer() as sanitizer:
        return await sanitizer.sanitize(source, workload, tpu, only=only, progress=progress)

"""Sanitize one kernel file: settings, each in a sandbox of its own, and what comes back taken apart as hostile data.

The kernel's Python runs beside the watch, so it can lie, about itself alone: no verdict depends on what is said here.
It runs on inputs drawn from a public seed, which tell nothing of those that the judge draws.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.candidate.sandbox import Limits, SandboxPool
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.judge.workers import WorkerPool
from hawkeye_mcp.kernels import sha256
from hawkeye_mcp.sanitizer.advice import ADVICE, TWO_CORES
from hawkeye_mcp.sanitizer.model import CHECKS, KINDS, Check, Finding, NotChecked, Sanitized, Setting
from hawkeye_mcp.workloads import Workload

RUN_S = 120.0
QUICK_S = 20.0
_DRAW_S = 120.0
_MOST_FINDINGS = 50
_MESSAGE = 400
ALONE: dict[Check, Setting] = {"static": "static", "two_cores": "two_cores"}

Signature = Sequence[tuple[Sequence[int], str]]


class SandboxFailed(RuntimeError):
    """The sandbox ended before it took the kernel: this installation or machine is at fault."""


@dataclass
class Seen:
    """What the sandboxes said, bounded. failed: why the kernel could not be run at all."""

    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    nan: dict[str, list[int]] = field(default_factory=dict)
    failed: str = ""


class Sanitizer:
    """Make one with `open_sanitizer`."""

    def __init__(self, sandboxes: SandboxPool, verifier: WorkerPool) -> None:
        self._sandboxes, self._verifier = sandboxes, verifier

    async def sanitize(
        self,
        source: str,
        workload: Workload,
        tpu: str,
        *,
        only: Check | None = None,
        quick: bool = False,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> Sanitized:
        """Run the kernel's checks for one workload on one chip.

        only: that check alone. quick: what fits beside an evaluation: the grid at full size and one watched run in the
        grid's own order (more of the same program where garbage is read), for at most `QUICK_S`.

        Raises:
            SandboxFailed, WorkerDied, WorkerTimeout, WorkerUnavailable, WorkerError: the harness is at fault.
        """
        start = time.monotonic()
        wanted: list[Setting] = ["static", "one_core"] if quick else _settings(only, tpu)
        progress("draw")
        inputs: list[dict[str, Any]] = []
        if wanted != ["static"]:
            inputs = await self.draw(workload)
        drawn_s = time.monotonic() - start
        full = workload.shapes(workload.inputs, "full")
        seen = await self.examine(source, full, inputs, tpu, wanted, progress, quick=quick)
        if only:
            _narrow(seen, only)
        stages = {"draw": round(drawn_s, 3), **seen.seconds, "total": round(time.monotonic() - start, 3)}
        status, message, next_step = _outcome(seen)
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
        *,
        quick: bool = False,
    ) -> Seen:
        """full: signature at the size of which only the grid is looked at. inputs: what it is run on, as sent."""
        seen = Seen()
        first = [setting for setting in settings if setting != "two_cores"]
        request = {
            "full": [[list(shape), dtype] for shape, dtype in full],
            "inputs": inputs,
            "quick": quick,
            "limit_s": QUICK_S if quick else RUN_S,
        }
        if first:
            progress("watch on one core")
            whole = await self._ask(source, tpu, first, request, seen)
            if not whole and "static" in first and len(first) > 1:  # which looks without running
                seen.not_checked = [skip for skip in seen.not_checked if skip.check != "static"]
                await self._ask(source, tpu, ["static"], request, seen)
        if "two_cores" in settings and not seen.failed:
            # no parallel axis, or it could not be run on one core
            if reason := next(
                (skip.reason for skip in seen.not_checked if skip.check in ("seeds", "uninitialised")), ""
            ):
                seen.not_checked.append(NotChecked(check="two_cores", reason=reason))
            else:
                progress("race two cores")
                await self._ask(source, tpu, ["two_cores"], request, seen)
                _compare(seen, tpu)
        if "two_cores" not in settings and len(settings) > 1:
            reason = "it is left to the sanitizer alone" if tpu in TWO_CORES else f"{tpu} has one TensorCore"
            seen.not_checked.append(NotChecked(check="two_cores", reason=reason))
        seen.findings = _unique(seen.findings)
        return seen

    async def _ask(
        self, source: str, tpu: str, settings: Sequence[Setting], request: Mapping[str, Any], seen: Seen
    ) -> bool:
        """One sandbox; False if it died, so that fewer settings at once may tell more."""
        chip = CHIPS[tpu]
        asked = {**request, "settings": list(settings), "folder": isolation.sanitizer_folder()}
        async with self._sandboxes.take(chip) as box:
            ended = await box.ask({"source": source, "sanitize": asked}, chip)
        if not ended.started:
            raise SandboxFailed(f"the sandbox did not get ready: {ended.why}. {ended.stderr_tail[-1000:]}")
        if ended.reply is None:
            reason = _clean(f"{ended.why} {ended.stderr_tail[-300:]}")
            for check in CHECKS:
                if setting_of(check) in settings and check not in seen.checks:
                    seen.not_checked.append(NotChecked(check=check, reason=reason))
            return ended.timed_out
        _take(ended.reply, source, settings, seen, tpu)
        return True


def setting_of(check: Check) -> Setting:
    return ALONE.get(check, "one_core")


def _settings(only: Check | None, tpu: str) -> list[Setting]:
    if only:
        return [setting_of(only)]
    return ["static", "one_core", "two_cores"] if tpu in TWO_CORES else ["static", "one_core"]


def _take(reply: dict[str, Any], source: str, settings: Sequence[Setting], seen: Seen, tpu: str) -> None:
    """Add a sandbox's reply, of which nothing is believed to have the form it should have."""
    lines = source.count("\n") + 1
    for raw in _list(reply.get("findings"))[:_MOST_FINDINGS]:
        if isinstance(raw, dict) and raw.get("kind") in KINDS:
            line = raw.get("line")
            advice = ADVICE[raw["kind"]]
            seen.findings.append(
                Finding(
                    kind=raw["kind"],
                    line=line if type(line) is int and 1 <= line <= lines else None,
                    message=_clean(raw.get("message")),
                    on_tpu=advice.on_tpu + _on_chip(raw["kind"], tpu),
                    advice=advice.advice,
                )
            )
    allowed = [check for check in CHECKS if setting_of(check) in settings]
    ran = _list(reply.get("ran"))[:100]
    seen.checks += [check for check in allowed if check in ran and check not in seen.checks]
    for raw in _list(reply.get("not_checked"))[:100]:
        if isinstance(raw, dict) and raw.get("check") in CHECKS:
            seen.not_checked.append(NotChecked(check=raw["check"], reason=_clean(raw.get("reason"))))
    seconds = reply.get("seconds")
    for name, value in list(seconds.items())[:20] if isinstance(seconds, dict) else []:
        if isinstance(value, int | float) and 0 <= value < 1e6:
            seen.seconds[_clean(name)[:40]] = float(value)
    nan = [count for count in _list(reply.get("nan"))[:100] if type(count) is int]
    seen.nan["two_cores" if list(settings) == ["two_cores"] else "one_core"] = nan
    failed = reply.get("failed")
    if isinstance(failed, dict) and not seen.failed:
        where = "; ".join(_clean(line) for line in _list(failed.get("where"))[-2:])
        seen.failed = _clean(failed.get("text"), 1500) + (f" ({where})" if where else "")
    told = {*seen.checks, *(skip.check for skip in seen.not_checked)}
    reason = _clean(reply.get("unfinished")) or seen.failed or "the kernel's process does not say that it ran"
    seen.not_checked += [NotChecked(check=check, reason=reason) for check in allowed if check not in told]


def _compare(seen: Seen, tpu: str) -> None:
    """Garbage that only two cores bring into the result."""
    one, two = seen.nan.get("one_core"), seen.nan.get("two_cores")
    if one and two and any(b > a for a, b in zip(one, two, strict=False)):
        if not any(finding.kind == "parallel_carry" for finding in seen.findings):
            advice = ADVICE["parallel_carry"]
            message = "split between two cores, the parallel axes leave elements of the result without a value"
            on_tpu = advice.on_tpu + _on_chip("parallel_carry", tpu)
            seen.findings.append(
                Finding(kind="parallel_carry", line=None, message=message, on_tpu=on_tpu, advice=advice.advice)
            )


def _on_chip(kind: str, tpu: str) -> str:
    if kind != "parallel_carry" or tpu in TWO_CORES:
        return ""
    return f" {tpu} has one core and keeps an order today; nothing promises that it will."


def _unique(findings: list[Finding]) -> list[Finding]:
    """One of a kind and line, in the order of lines."""
    first: dict[tuple[str, int | None], Finding] = {}
    for finding in findings:
        first.setdefault((finding.kind, finding.line), finding)
    return sorted(first.values(), key=lambda finding: (finding.line or 0, finding.kind))


def _narrow(seen: Seen, only: Check) -> None:
    if setting_of(only) == "one_core":
        kinds = {kind for kind, advice in ADVICE.items() if advice.check == only}
        if only in ("seeds", "parallel"):
            kinds = {"parallel_carry"}
        seen.findings = [finding for finding in seen.findings if finding.kind in kinds]
    seen.checks = [check for check in seen.checks if check == only]
    seen.not_checked = [skip for skip in seen.not_checked if skip.check == only]


def _outcome(seen: Seen) -> tuple[Any, str, str]:
    if seen.failed:
        return "failed", f"It could not be run: {seen.failed}", "Mend this first, then sanitize again."
    if seen.findings:
        count = len(seen.findings)
        text = f"{count} finding{'s' if count > 1 else ''}: wrong on a TPU, whatever an interpreter shows."
        return "findings", text, "Mend the first finding, then sanitize again."
    if not seen.checks:
        return (
            "failed",
            "No check could run; not_checked says why.",
            "Make the kernel smaller or simpler, then try again.",
        )
    count = len(seen.checks)
    text = f"Silent: {count} check{'s' if count > 1 else ''} found nothing."
    return "silent", text, "Evaluate it: the sanitizer does not compare results with the reference."


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _clean(value: Any, most: int = _MESSAGE) -> str:
    text = str(value if isinstance(value, str | int | float) else "")[: most * 4]
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:most]


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

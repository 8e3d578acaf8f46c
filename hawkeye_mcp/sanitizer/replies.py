"""What a sandbox says of a kernel, taken apart as the hostile data it is, and what it comes to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hawkeye_mcp.sanitizer.advice import ADVICE, TWO_CORES
from hawkeye_mcp.sanitizer.model import CHECKS, KINDS, Check, Finding, NotChecked, Setting

_MOST_FINDINGS = 50
_MESSAGE = 400
ALONE: dict[Check, Setting] = {"static": "static", "two_cores": "two_cores"}


@dataclass
class Seen:
    """What the sandboxes said, bounded. failed: why the kernel could not be run at all."""

    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    nan: dict[str, list[int]] = field(default_factory=dict)
    failed: str = ""


def setting_of(check: Check) -> Setting:
    return ALONE.get(check, "one_core")


def take(reply: dict[str, Any], source: str, settings: Sequence[Setting], seen: Seen, tpu: str) -> None:
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
                    message=clean(raw.get("message")),
                    on_tpu=advice.on_tpu + _on_chip(raw["kind"], tpu),
                    advice=advice.advice,
                )
            )
    allowed = [check for check in CHECKS if setting_of(check) in settings]
    ran = _list(reply.get("ran"))[:100]
    seen.checks += [check for check in allowed if check in ran and check not in seen.checks]
    for raw in _list(reply.get("not_checked"))[:100]:
        if isinstance(raw, dict) and raw.get("check") in CHECKS:
            seen.not_checked.append(NotChecked(check=raw["check"], reason=clean(raw.get("reason"))))
    seconds = reply.get("seconds")
    for name, value in list(seconds.items())[:20] if isinstance(seconds, dict) else []:
        if isinstance(value, int | float) and 0 <= value < 1e6:
            seen.seconds[clean(name)[:40]] = float(value)
    nan = [count for count in _list(reply.get("nan"))[:100] if type(count) is int]
    seen.nan["two_cores" if list(settings) == ["two_cores"] else "one_core"] = nan
    failed = reply.get("failed")
    if isinstance(failed, dict) and not seen.failed:
        where = "; ".join(clean(line) for line in _list(failed.get("where"))[-2:])
        seen.failed = clean(failed.get("text"), 1500) + (f" ({where})" if where else "")
    told = {*seen.checks, *(skip.check for skip in seen.not_checked)}
    reason = clean(reply.get("unfinished")) or seen.failed or "the kernel's process does not say that it ran"
    seen.not_checked += [NotChecked(check=check, reason=reason) for check in allowed if check not in told]


def compare(seen: Seen, tpu: str) -> None:
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


def unique(findings: list[Finding]) -> list[Finding]:
    """One of a kind and line, in the order of lines."""
    first: dict[tuple[str, int | None], Finding] = {}
    for finding in findings:
        first.setdefault((finding.kind, finding.line), finding)
    return sorted(first.values(), key=lambda finding: (finding.line or 0, finding.kind))


def narrow(seen: Seen, only: Check) -> None:
    if setting_of(only) == "one_core":
        kinds = {kind for kind, advice in ADVICE.items() if advice.check == only}
        if only in ("seeds", "parallel"):
            kinds = {"parallel_carry"}
        seen.findings = [finding for finding in seen.findings if finding.kind in kinds]
    seen.checks = [check for check in seen.checks if check == only]
    seen.not_checked = [skip for skip in seen.not_checked if skip.check == only]


def outcome(seen: Seen) -> tuple[Any, str, str]:
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


def clean(value: Any, most: int = _MESSAGE) -> str:
    text = str(value if isinstance(value, str | int | float) else "")[: most * 4]
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:most]

"""Ways an evaluation ends early, and what each status asks of the author."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hawkeye_mcp.evaluation import Status
from hawkeye_mcp.judge import hints

NEXT_STEP: dict[Status, str] = {
    "correct": "Profile it to see what binds, change one thing, and evaluate again.",
    "incorrect": "Mend the result first: compare the worst element with what the reference computes there.",
    "rejected": "Do the work inside pl.pallas_call kernels, with nothing but plain operations around them.",
    "trace_error": "Mend the Python so that workload(...) can be traced on abstract arrays, then evaluate again.",
    "compile_error": "Change what the compiler refuses, then evaluate again.",
    "runtime_error": "Make the kernel need less memory or fewer steps, or do not index out of bounds, then evaluate again.",
    "timeout": "Remove endless or very long loops; the kernel must trace and run at the check size within its limits.",
    "harness_error": "This is not the kernel's fault: evaluate again; if it persists, run `hawkeye doctor`.",
}
SAME_WORK = "Let one program do the same work at every size and on every platform: do not choose it by what it runs on."


class Verdict(Exception):
    """Ends an evaluation early: the candidate is at fault, or the harness is."""

    def __init__(self, status: Status, message: str, next_step: str = "", compiler_message: str | None = None) -> None:
        super().__init__(message)
        self.status: Status = status
        self.message, self.compiler_message = message, compiler_message
        self.next_step = next_step or hints.hint(message) or NEXT_STEP[status]


@dataclass
class _Failure:
    stage: str
    text: str
    where: list[str]

    def verdict(self, what: str) -> Verdict:
        text = self.text if not self.where else f"{self.text} ({'; '.join(self.where[-2:])})"
        if self.stage == "lower":
            return Verdict("compile_error", f"{what} for the TPU: {first_line(text)}", hints.hint(text) or "", text)
        if self.stage == "interpret":
            return Verdict(
                "trace_error",
                f"{what} for the CPU interpreter, which verifies it: {text[:1500]}",
                hints.hint(text)
                or "Use operations that Pallas can interpret (pallas_call kernels, DMA, semaphores within one device).",
            )
        return Verdict("trace_error", f"{what}: {text[:1500]}", hints.hint(text) or "")


class SandboxReply:
    """A sandbox's reply, taken apart as the hostile data it is."""

    def __init__(self, reply: dict[str, Any], sizes: Collection[str]) -> None:
        self.artifacts: dict[str, dict[str, str]] = {}
        artifacts = reply.get("artifacts")
        for size in sizes:
            pair = artifacts.get(size) if isinstance(artifacts, dict) else None
            if isinstance(pair, dict) and isinstance(pair.get("tpu"), str) and isinstance(pair.get("cpu"), str):
                self.artifacts[size] = {"tpu": pair["tpu"], "cpu": pair["cpu"]}
        failures = reply.get("failures")
        self.failures = {
            size: found for size in sizes if isinstance(failures, dict) and (found := self._failure(failures.get(size)))
        }
        self.failed = self._failure(reply.get("failed"))

    @staticmethod
    def _failure(value: Any) -> _Failure | None:
        if not isinstance(value, dict):
            return None
        where = value.get("where")
        lines = [str(line)[:300] for line in where[:6]] if isinstance(where, list) else []
        return _Failure(str(value.get("stage")), str(value.get("text"))[:20_000], lines)


def leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def first_verdict(group: BaseExceptionGroup[Any]) -> Verdict:
    """Of several, the one the author should mend first."""
    order = ["rejected", "trace_error", "compile_error", "runtime_error", "timeout", "incorrect"]
    verdicts = [error for error in leaves(group) if isinstance(error, Verdict)]
    return min(verdicts, key=lambda v: order.index(v.status) if v.status in order else len(order))


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:600]

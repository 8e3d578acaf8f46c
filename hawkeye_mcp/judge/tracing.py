"""What a sandbox's end after tracing means for the candidate."""

from collections.abc import Collection

from hawkeye_mcp.candidate.sandbox import Ended
from hawkeye_mcp.judge import hints
from hawkeye_mcp.judge.verdict import NEXT_STEP, SandboxReply, Verdict

# Without an artifact at these there is nothing to judge; the check size may be left out.
_NEEDED = {"full": "its full size", "other": "its other size", "recorded": "the size that was recorded"}


class SandboxFailed(Exception):
    """The sandbox ended before it took the candidate: this installation or machine is at fault."""


def artifacts(ended: Ended, sizes: Collection[str]) -> dict[str, dict[str, str]]:
    """The artifacts by size and platform, base64.

    Raises:
        Verdict: the candidate cannot be traced. SandboxFailed.
    """
    if not ended.started:
        raise SandboxFailed(f"the sandbox did not get ready: {ended.why}. {ended.stderr_tail[-1000:]}")
    if ended.timed_out:
        next_step = _with_output(NEXT_STEP["timeout"], ended.stderr_tail)
        raise Verdict("timeout", f"Tracing did not end: {ended.why}.", next_step)
    if ended.reply is None:
        next_step = _with_output(hints.hint(ended.why) or NEXT_STEP["trace_error"], ended.stderr_tail)
        raise Verdict("trace_error", f"Tracing failed: {ended.why}.", next_step)
    reply = SandboxReply(ended.reply, sizes)
    if reply.failed:
        raise reply.failed.verdict("The file cannot be loaded")
    for size, named in _NEEDED.items():
        if size not in sizes:
            continue
        if failure := reply.failures.get(size):
            raise failure.verdict(f"The workload cannot be traced at {named}")
        if size not in reply.artifacts:
            raise Verdict("trace_error", "The sandbox sent back no artifact.")
    return reply.artifacts


def _with_output(text: str, tail: str) -> str:
    return f"{text} The end of what it printed: {tail[-600:].strip()}" if tail.strip() else text

"""What a judgement comes to, in words: its status, what was found, and what to do next."""

from dataclasses import dataclass

from hawkeye_mcp.evaluation import Correctness, Interval, Measurement, ProfileStatus, Status, Timing
from hawkeye_mcp.judge.verdict import NEXT_STEP
from hawkeye_mcp.judge.work import Work


@dataclass(frozen=True)
class Outcome:
    status: Status | ProfileStatus
    message: str
    next_step: str
    compiler_message: str | None = None


def conclude(work: Work) -> Outcome:
    correctness, timing = work.correctness, work.timing
    assert correctness and timing
    if not correctness.ok:
        return wrong(correctness)
    message = _right(correctness)
    if timing.measurement:
        return Outcome("correct", f"{message} {measured(timing, timing.measurement)}", NEXT_STEP["correct"])
    if timing.candidate_us is None:
        message += f" No time could be predicted: {'; '.join(timing.notes) or 'unknown'}."
        return Outcome("correct", message, NEXT_STEP["correct"])
    message += f" Predicted {timing.candidate_us:.5g} us on {work.tpu}"
    if timing.speedup is not None:
        least = "at least " if timing.baseline_lower_bound else ""
        message += (
            f", {least}{timing.speedup:.3g} times the speed of the XLA baseline"
            f" ({least}{timing.baseline_us:.5g} us, predicted)"
        )
        if timing.indistinguishable and timing.speedup_interval:
            low, high = timing.speedup_interval
            message += f", which may be an error: such predictions leave {low:.3g} to {high:.3g}"
    elif timing.lower_bound:
        message += " at least; no speedup is claimed, the notes on the time say why"
    return Outcome("correct", message + ".", NEXT_STEP["correct"])


def wrong(found: Correctness) -> Outcome:
    return Outcome("incorrect", f"Wrong at {found.size} size: {found.problem}", NEXT_STEP["incorrect"])


def _right(found: Correctness) -> str:
    return f"Correct on {found.seeds} fresh draws at {found.size} size ({found.gate})."


def measured(timing: Timing, found: Measurement) -> str:
    if timing.candidate_us is None:
        return f"No time could be measured: {'; '.join(timing.notes)}."

    def shown(value: float, interval: Interval, unit: str) -> str:
        return f"{value:.5g}{unit} (95 % interval {interval.low:.5g} to {interval.high:.5g})"

    took = shown(found.candidate.us.median, found.candidate.us, " us")
    baseline = shown(found.baseline.us.median, found.baseline.us, " us")
    if timing.speedup is None:
        compared = f"indistinguishable from the XLA baseline's {baseline}: {found.why}"
    else:
        compared = f"{shown(timing.speedup, found.speedup, ' times')} the speed of the XLA baseline, {baseline}"
    return f"Measured {took} on one {found.device}, {compared}."

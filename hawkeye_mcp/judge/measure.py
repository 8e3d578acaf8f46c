"""Time on the chip where there is one: a candidate that is correct is timed against the baseline on this machine's TPU.

The figures come from a process that lives for one measurement, so that nobody who does not measure holds the device.
Without a TPU of the generation asked for nothing changes. What was predicted before is kept apart.
"""

from typing import Any

from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.evaluation import Measurement, Timing
from hawkeye_mcp.judge.reason import reason
from hawkeye_mcp.judge.verdict import Verdict
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable

LIMIT_S = 600.0  # with the start of the runtime, and the wait for whoever measures now


class Measurer:
    """chips: the generation of each TPU of this machine."""

    def __init__(self, chips: list[str]) -> None:
        self._chips = chips

    async def measure(self, work: Work) -> None:
        """Replace a predicted timing by a measured one; a measurement that fails leaves a note on the predicted one.

        Raises:
            Verdict: the candidate does not run on the device.
        """
        if work.tpu not in self._chips or not work.timing or not work.floor:
            return
        least_us, ceiling = work.floor
        request = {
            "workload": work.workload.reference,
            "size": "full",
            "artifact_b64": work.artifacts["full"]["tpu"],
            "device_kind": CHIPS[work.tpu].device_kind,
            "least_us": least_us,
            "ceiling": ceiling,
        }
        with work.stage("measure"):
            try:
                reply = await _measured(request)
            except (WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable) as error:
                work.timing.notes.append(f"not measured, although this machine has a {work.tpu}: {reason(error)}")
                return
        if "runtime_error" in reply:
            text = f"Running the kernel at full size on this machine's {work.tpu} failed: {reply['runtime_error']}"
            raise Verdict("runtime_error", text)
        work.predicted, work.timing = work.timing, timing(Measurement.model_validate(reply["measurement"]))


async def _measured(request: dict[str, Any]) -> dict[str, Any]:
    # a process of its own: one that stayed would hold the device
    worker = await Worker.start("device")
    try:
        return await worker.call("measure", request, LIMIT_S)
    finally:
        await worker.close()


def timing(found: Measurement) -> Timing:
    """What a measurement lets one claim: no speedup inside the noise, and nothing at all where it is void."""
    if found.verdict == "void":
        return Timing(
            source=None, candidate_us=None, baseline_us=None, speedup=None,
            notes=[f"measurement void: {found.why}"], measurement=found,
        )  # fmt: skip
    claimed = found.verdict != "indistinguishable"
    return Timing(
        source="measured",
        candidate_us=found.candidate.us.median,
        baseline_us=found.baseline.us.median,
        speedup=float(f"{found.speedup.median:.4g}") if claimed else None,
        candidate_interval_us=(found.candidate.us.low, found.candidate.us.high),
        baseline_interval_us=(found.baseline.us.low, found.baseline.us.high),
        speedup_interval=(found.speedup.low, found.speedup.high),
        indistinguishable=not claimed,
        baseline_method=f"measured on {found.device}",
        notes=[f"measurement {found.verdict}: {found.why}"],
        measurement=found,
    )

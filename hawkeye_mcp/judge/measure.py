"""Time on the chip where there is one: a candidate that is correct is timed against the baseline on this machine's TPU.

The figures come from a process that lives for one measurement, so that nobody who does not measure holds the device.
Without a TPU of the generation asked for nothing changes. What was predicted before is kept apart.
"""

from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.evaluation import Measurement, Timing
from hawkeye_mcp.judge.reason import reason
from hawkeye_mcp.judge.verdict import Verdict
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable

LIMITS_S = {"kind": 180.0, "measure": 600.0}  # the first starts the runtime; both wait for whoever measures now


class Measurer:
    """attached: whether this machine has TPUs at all."""

    def __init__(self, attached: bool) -> None:
        self._attached = attached
        self._kind: str | None = None

    async def measure(self, work: Work) -> None:
        """Replace a predicted timing by a measured one; a measurement that fails leaves a note on the predicted one.

        Raises:
            Verdict: the candidate does not run on the device.
        """
        if not self._attached or not work.timing or not work.floor:
            return
        wanted = CHIPS[work.tpu].device_kind
        with work.stage("measure"):
            if self._kind not in (None, wanted):
                work.timing.notes.append(f"not measured: the device here is a {self._kind}, not a {wanted}")
                return
            try:
                found = await self._measured(work, wanted)
            except (WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable) as error:
                work.timing.notes.append(f"not measured, although this machine has a TPU: {reason(error)}")
                return
        if found:
            work.predicted, work.timing = work.timing, timing(found)
        else:
            work.timing.notes.append(f"not measured: the device here is a {self._kind}, not a {wanted}")

    async def _measured(self, work: Work, wanted: str) -> Measurement | None:
        """None if the device is of another generation.

        Raises:
            Verdict: the candidate does not run on the device.
        """
        worker = await Worker.start("device")
        try:
            self._kind = str((await worker.call("kind", {}, LIMITS_S["kind"]))["kind"])
            if self._kind != wanted:
                return None
            assert work.floor
            least_us, ceiling = work.floor
            request = {
                "workload": work.workload.name,
                "size": "full",
                "artifact_b64": work.artifacts["full"]["tpu"],
                "least_us": least_us,
                "ceiling": ceiling,
            }
            reply = await worker.call("measure", request, LIMITS_S["measure"])
        finally:
            await worker.close()
        if "runtime_error" in reply:
            raise Verdict(
                "runtime_error", f"Running the kernel at full size on a {wanted} failed: {reply['runtime_error']}"
            )
        return Measurement.model_validate(reply["measurement"])


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

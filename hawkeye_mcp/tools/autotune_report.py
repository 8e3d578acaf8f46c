"""What the autotune tool answers: the winner, what it gains, the fastest points and what was refused."""

from typing import Any

from pydantic import BaseModel, Field

from hawkeye_mcp.autotune.model import Autotuned, Looked
from hawkeye_mcp.autotune.refusals import refusals
from hawkeye_mcp.autotune.store import Busy, Unusable
from hawkeye_mcp.jobs import Job
from hawkeye_mcp.tools.reports import FAULT

_SHOWN = 10  # points


class AutotuneReport(BaseModel):
    """A search over constants of one kernel file."""

    status: str = Field(
        description="better, indistinguishable, best_already, no_comparison, none_correct, none_timed, not_judged; or running, "
        "busy (another search of the same file is at work), cancelled, timeout, harness_error"
    )
    message: str
    next_step: str
    job_id: str = ""
    workload: str = ""
    tpu: str = ""
    kernel_sha256: str = Field("", description="of the file as it was given")
    best: dict[str, int] | None = Field(None, description="values of the fastest point that was found correct")
    evaluation_id: str = Field("", description="of the best point's evaluation")
    source: str | None = Field(None, description="predicted or measured")
    best_us: float | None = None
    best_interval_us: list[float] | None = None
    unchanged_us: float | None = Field(None, description="of the file as it was given, also judged in full")
    unchanged_interval_us: list[float] | None = None
    gain: float | None = Field(None, description="unchanged_us / best_us")
    gain_interval: list[float] | None = None
    indistinguishable: bool = Field(False, description="the two intervals overlap")
    counts: dict[str, int] = {}
    points: list[dict[str, Any]] = Field([], description="fastest first; rung estimate: not predicted")
    rungs: dict[str, str] = Field({}, description="what each rung measured")
    refused: list[str] = Field([], description="each way in which points were refused, with the words of who refused")
    stopped_by: str | None = Field(
        None, description="what ended the search early: seconds, faults, or a budget of points"
    )
    folder: str = ""
    evaluations_left: int | None = None
    truncated: bool = False


def of_job(job: Job[Any], unfinished: tuple[str, str, str], evaluations_left: int | None) -> AutotuneReport:
    """unfinished: status, message and next step if the job has no result."""
    found = job.result
    if not isinstance(found, Autotuned):
        status, message, next_step = unfinished
        if status in ("cancelled", "timeout"):
            message, next_step = (
                f"The search ended before it had a result ({status}).",
                "Call autotune again with the same arguments: it goes on from what was looked at, which is kept.",
            )
        elif isinstance(job.fault, Busy | Unusable):  # of the folder: nothing of the judge's inside
            status, message = "busy" if isinstance(job.fault, Busy) else status, str(job.fault)
            next_step = "Then call autotune again with the same arguments."
        return AutotuneReport(
            status=status,
            message=message,
            next_step=next_step,
            job_id=job.id,
            evaluations_left=evaluations_left,
            **job.subject,
        )
    # how the judge failed is for the log, not for clients
    told = [each for each in found.looked_at if each.status != "harness_error"]
    failed = found.status == "none_timed" and len(told) < len(found.looked_at)
    best, unchanged, gain = found.best, found.unchanged, found.gain
    return AutotuneReport(
        status=found.status,
        message=FAULT if failed else found.message,
        next_step=found.next_step,
        job_id=job.id,
        workload=found.workload,
        tpu=found.tpu,
        kernel_sha256=found.kernel_sha256,
        best=best.parameters if best else None,
        evaluation_id=best.evaluation_id if best else "",
        source=best.source if best else None,
        best_us=best.us if best else None,
        best_interval_us=_list(best.interval_us) if best else None,
        unchanged_us=unchanged.us if unchanged else None,
        unchanged_interval_us=_list(unchanged.interval_us) if unchanged else None,
        gain=gain.ratio if gain else None,
        gain_interval=_list(gain.interval) if gain else None,
        indistinguishable=bool(gain and gain.indistinguishable),
        counts=found.counts,
        points=[_point(each) for each in told if each.rung][:_SHOWN],
        rungs={rung: found.rungs[rung] for rung in dict.fromkeys(each.rung for each in told) if rung},
        refused=[str(each) for each in refusals(told)],
        stopped_by=found.stopped_by,
        folder=found.folder,
        evaluations_left=evaluations_left,
    )


def _list(interval: tuple[float, float] | None) -> list[float] | None:
    return list(interval) if interval else None


def _point(each: Looked) -> dict[str, Any]:
    shown = {"parameters", "rung", "estimate_us", "predicted_us", "interval_us", "measured_us", "lower_bound"}
    return each.model_dump(mode="json", include=shown)

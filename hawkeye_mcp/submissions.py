"""From a kernel text to its verdict: the cache, the budget, one judgement at a time, and the record of it."""

import fcntl
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync

from hawkeye_mcp import calllog, kernels, pool
from hawkeye_mcp.conditions import Condition
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.jobs import Job, Jobs
from hawkeye_mcp.judging import JudgeHolder
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.workloads import Workload

logger = logging.getLogger(__name__)

_LOCK_RETRY_S = 0.2


@dataclass(frozen=True)
class Settings:
    """What one server process is told at its start.

    workload, tpu: pinned when not empty. workload_folder: of a pinned workload that is not shipped. workspace: where kernel files may be read from. state: folder of the
    pool and of whatever must outlive the process. max_evaluations: 0 means no limit. deadline_s: of each job. job: the
    job file whose ports are gated; None: those tools are not there. run: folder of the run that keeps every verdict of this
    server; None: none does, and the tools on it are not there. max_points: of all searches of the run; 0 means no limit.
    judge_hosts: names of the registered hosts that judge; none: this machine. accept_workloads: whether clients may send
    imported workloads; then none is pinned.
    """

    condition: Condition = "full"
    tpu: str = ""
    workload: str = ""
    workload_folder: Path | None = None
    workspace: Path = field(default_factory=Path.cwd)
    state: Path = field(default_factory=Path.cwd)
    call_log: Path = field(default_factory=lambda: Path("calls.jsonl"))
    max_evaluations: int = 0
    deadline_s: float = 900.0
    heartbeat_s: float = 2.5
    job: Path | None = None
    run: Path | None = None
    max_points: int = 0
    judge_hosts: tuple[str, ...] = ()
    accept_workloads: bool = False


@dataclass(frozen=True)
class App:
    """What the tools share while the server runs."""

    settings: Settings
    pool: pool.Pool
    log: calllog.CallLog
    judge: JudgeHolder
    jobs: Jobs[Evaluation | Profile]

    def evaluations_left(self) -> int | None:
        """None without a budget. A verdict spends one, also while in the making; a harness error does not."""
        if not self.settings.max_evaluations:
            return None
        spent = sum(
            1
            for line in calllog.read(self.log.path)
            if calllog.is_verdict(line) and not line.get("cached") and line["status"] != "harness_error"
        )
        return max(0, self.settings.max_evaluations - spent - self.jobs.in_flight("evaluate"))


class BudgetSpent(RuntimeError):
    """No evaluations are left."""


async def earlier_verdict(app: App, source: str, workload: Workload, tpu: str) -> Evaluation | None:
    """The stored verdict on exactly this text, if it still holds: it counts like a new one, but spends nothing."""
    found = await _stored(app, source, workload, tpu)
    if found is not None:
        app.log.keep_kernel(source)
        _log_verdict(app, None, workload, found, cached=True)
        await _keep(app, source, workload, found)
    return found


async def _stored(app: App, source: str, workload: Workload, tpu: str) -> Evaluation | None:
    hosts = app.settings.judge_hosts or (None,)

    def look() -> Evaluation | None:
        return app.pool.cached(kernels.sha256(source), workload.name, tpu, pool.fingerprint(workload), hosts)

    return await run_sync(look)


def start_evaluation(
    app: App, source: str, workload: Workload, tpu: str, *, fresh: bool = False
) -> Job[Evaluation | Profile]:
    """Start judging, or join the job that is judging the same text.

    fresh: judge it anew in a job of its own, whatever was said of it before.

    Raises:
        BudgetSpent: a new judgement is needed and none is left.
    """
    key = (kernels.sha256(source), workload.reference, tpu, *([secrets.token_hex(8)] if fresh else []))
    if not app.jobs.is_in_flight("evaluate", key) and app.evaluations_left() == 0:
        raise BudgetSpent

    async def work(job: Job[Evaluation | Profile]) -> Evaluation:
        async with _alone(app.settings.state / "locks", key[0]):
            # Another process may have judged the same text while this one waited for the lock.
            evaluation = None if fresh else await _stored(app, source, workload, tpu)
            if evaluation is not None:
                _log_verdict(app, job, workload, evaluation, cached=True)
                await _keep(app, source, workload, evaluation)
                return evaluation
            judge = await app.judge.get()
            evaluation = await judge.evaluate(source, workload, tpu, progress=job.progress)
            with anyio.CancelScope(shield=True):
                await run_sync(app.pool.add, source, evaluation, pool.fingerprint(workload))
        _log_verdict(app, job, workload, evaluation)
        await _keep(app, source, workload, evaluation)
        return evaluation

    return _start(app, "evaluate", key, source, workload, tpu, work)


def start_profile(app: App, source: str, workload: Workload, tpu: str) -> Job[Evaluation | Profile]:
    """Start profiling, or join the job that is profiling the same text."""

    async def work(job: Job[Evaluation | Profile]) -> Profile:
        judge = await app.judge.get()
        profile = await judge.profile(source, workload, tpu, progress=job.progress)
        _log_verdict(app, job, workload, profile)
        await _keep(app, source, workload, profile)
        return profile

    return _start(app, "profile", (kernels.sha256(source), workload.reference, tpu), source, workload, tpu, work)


def _start(
    app: App, kind: str, key: tuple[str, ...], source: str, workload: Workload, tpu: str, work: Any
) -> Job[Evaluation | Profile]:
    subject = {"kernel_sha256": app.log.keep_kernel(source), "workload": workload.name, "tpu": tpu}
    shared = app.jobs.is_in_flight(kind, key)
    job = app.jobs.start(kind, key, subject, work)
    app.log.write("submitted", job_id=job.id, kind=kind, shared=shared, **subject, **which(app, workload))
    return job


def which(app: App, workload: Workload) -> dict[str, str]:
    """What the log says of a workload beside its name, which others have too if clients sent them."""
    if not app.settings.accept_workloads or workload.shipped:
        return {}
    return {"workload_sha256": workload.folder.parent.name}


async def _keep(app: App, source: str, workload: Workload, outcome: Evaluation | Profile) -> None:
    """Record a verdict in the server's run, if it has one. A verdict that cannot be kept is still the client's."""
    if app.settings.run is None:
        return
    from hawkeye_mcp.runs import store

    run = store.Run(app.settings.run)

    def record() -> None:
        mark = pool.fingerprint(workload)
        if isinstance(outcome, Evaluation):
            store.record_evaluation(run, source, outcome, mark)
        else:
            store.record_profile(run, source, outcome, mark)

    try:
        with anyio.CancelScope(shield=True):
            await run_sync(record)
    except (store.RunError, ValueError, OSError) as error:
        logger.error("a verdict was not kept in the run %s: %s; the same call again keeps it", run.folder, error)
        app.log.write("run_not_kept", run=str(run.folder), kernel_sha256=outcome.kernel_sha256, fault=str(error))


def _log_verdict(
    app: App,
    job: Job[Evaluation | Profile] | None,
    workload: Workload,
    outcome: Evaluation | Profile,
    *,
    cached: bool = False,
) -> None:
    """One line that says what was found; job: None where an earlier verdict was at hand at once."""
    timing = outcome.timing
    app.log.write(
        "verdict",
        job_id=job.id if job else None,
        kind="evaluate" if isinstance(outcome, Evaluation) else "profile",
        cached=cached,
        status=outcome.status,
        evaluation_id=outcome.id if isinstance(outcome, Evaluation) else None,
        kernel_sha256=outcome.kernel_sha256,
        workload=outcome.workload,
        tpu=outcome.tpu,
        source=timing.source if timing else None,
        speedup=timing.speedup if timing else None,
        speedup_interval=timing.speedup_interval if timing else None,
        candidate_us=timing.candidate_us if timing else None,
        lower_bound=timing.lower_bound if timing else False,
        baseline_lower_bound=timing.baseline_lower_bound if timing else False,
        # The client is not told of the harness's inside; the operator is.
        fault=outcome.message if outcome.status == "harness_error" else None,
        elapsed_s=round(job.elapsed_s, 3) if job else 0.0,
        **({"judged_on": outcome.judged_on, "isolation": outcome.isolation} if outcome.judged_on else {}),
        **which(app, workload),
    )


@asynccontextmanager
async def _alone(folder: Path, kernel_sha256: str) -> AsyncIterator[None]:
    """Hold the lock of this kernel text among all processes that share the state folder.

    The kernel drops the lock with the process, so one killed at any moment leaves nothing to clean up. Texts
    share 256 lock files; two that meet by chance are judged one after the other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / f"{kernel_sha256[:2]}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(_LOCK_RETRY_S)
        yield
    finally:
        os.close(handle)

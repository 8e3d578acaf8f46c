"""Work that may outlive the call that asked for it: start, wait, read, cancel; one job for identical calls.

A job lives in the server's task group. Callers wait on it; when a waiting caller goes away and nobody else
waits for the job or holds its id, the work is cancelled. A caller that was told the id leaves the job running
to its deadline. A job belongs to the owner of the call that started it: for anybody else it does not exist.
"""

import itertools
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

import anyio
from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
State = Literal["running", "done", "cancelled", "deadline", "failed"]

QUEUED = "queued"  # the stage of a job until its work reports another one
_KEPT_FINISHED_JOBS = 256  # of each owner


class UnknownJob(ValueError):
    """No job of that id in this server, or one of another owner: the two are not told apart."""


@dataclass
class Job(Generic[Result]):
    """One piece of work. `result` is set exactly when `state` is "done", `fault` when it is "failed"."""

    id: str
    key: tuple[str, ...]
    kind: str
    subject: dict[str, str]
    owner: str = ""
    state: State = "running"
    result: Result | None = None
    fault: Exception | None = None
    stage: str = QUEUED
    stage_changed: anyio.Event = field(default_factory=anyio.Event)
    started_s: float = field(default_factory=time.monotonic)
    waiting: int = 0
    # True once a client was told the id: then a caller that goes away does not take the work with it.
    handed_out: bool = False
    finished: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def progress(self, stage: str) -> None:
        """Note the stage the work has reached and wake those who show it."""
        self.stage = stage
        self.stage_changed.set()
        self.stage_changed = anyio.Event()

    def cancel(self) -> None:
        """Stop the work. Cancelling a finished job does nothing."""
        if not self.finished.is_set():
            self.scope.cancel()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s


class Jobs(Generic[Result]):
    """The job table. `deadline_s` is each job's own, counted from its start; `owner` says whose call is being served."""

    def __init__(self, tasks: TaskGroup, deadline_s: float, owner: Callable[[], str] = lambda: "") -> None:
        self._tasks = tasks
        self._deadline_s = deadline_s
        self._owner = owner
        self._by_id: dict[str, Job[Result]] = {}
        self._in_flight: dict[tuple[str, ...], Job[Result]] = {}

    def is_in_flight(self, kind: str, key: tuple[str, ...]) -> bool:
        """Whether `start` with these would join a running job."""
        running = self._in_flight.get((self._owner(), kind, *key))
        return running is not None and not running.scope.cancel_called

    def in_flight(self, kind: str) -> int:
        """How many jobs of one kind are running."""
        return sum(1 for job in self._in_flight.values() if job.kind == kind)

    def load(self) -> tuple[int, int]:
        """How many jobs are being worked on, and how many wait for their turn, of all owners."""
        unfinished = [job for job in self._by_id.values() if not job.finished.is_set()]
        queued = sum(1 for job in unfinished if job.stage == QUEUED)
        return len(unfinished) - queued, queued

    def start(
        self,
        kind: str,
        key: tuple[str, ...],
        subject: dict[str, str],
        work: Callable[[Job[Result]], Awaitable[Result]],
    ) -> Job[Result]:
        """Start `work`, or return the job of the same owner that is already doing the same.

        Two owners never share a job, so that neither can end the other's. subject: what the job is about (workload, tpu, ...), for whoever reads it later.
        """
        owner = self._owner()
        key = (owner, kind, *key)
        if (running := self._in_flight.get(key)) and not running.scope.cancel_called:
            return running
        job: Job[Result] = Job(id=f"job-{secrets.token_hex(6)}", key=key, kind=kind, subject=subject, owner=owner)
        self._by_id[job.id] = self._in_flight[key] = job
        self._forget_old(owner)
        self._tasks.start_soon(self._run, job, work, name=job.id)
        return job

    async def _run(self, job: Job[Result], work: Callable[[Job[Result]], Awaitable[Result]]) -> None:
        job.scope.deadline = anyio.current_time() + self._deadline_s
        ended: State = "cancelled"
        try:
            with job.scope:
                job.result = await work(job)
                ended = "done"
            if ended != "done" and anyio.current_time() >= job.scope.deadline:
                ended = "deadline"
        except Exception as fault:
            # A fault of one job must not take down the server and every other job with it.
            logger.exception("%s failed", job.id)
            job.fault = fault
            ended = "failed"
        finally:
            job.state = ended
            if self._in_flight.get(job.key) is job:
                del self._in_flight[job.key]
            job.finished.set()

    def _forget_old(self, owner: str) -> None:
        finished = [job.id for job in self._by_id.values() if job.owner == owner and job.finished.is_set()]
        for job_id in itertools.islice(finished, max(0, len(finished) - _KEPT_FINISHED_JOBS)):
            del self._by_id[job_id]

    def read(self, job_id: str) -> Job[Result]:
        """The job of that id.

        Raises:
            UnknownJob: never started here, finished so long ago that it was forgotten, or another owner's.
        """
        found = self._by_id.get(job_id)
        if found is None or found.owner != self._owner():
            raise UnknownJob(job_id)
        return found

    @asynccontextmanager
    async def waiting(self, job: Job[Result]) -> AsyncIterator[None]:
        """Count as one who waits for the job; leaving by cancellation may cancel it (see the module)."""
        job.waiting += 1
        try:
            yield
        except anyio.get_cancelled_exc_class():
            if job.waiting == 1 and not job.handed_out:
                job.cancel()
            raise
        finally:
            job.waiting -= 1


async def wait(
    jobs: Jobs[Result],
    job: Job[Result],
    wait_s: float,
    heartbeat_s: float,
    report: Callable[[float, str], Awaitable[None]],
) -> bool:
    """Wait up to `wait_s` for the job to finish; True if it has.

    Calls `report(value, stage)` at once, on every new stage and every `heartbeat_s`, with rising values.
    If the job has not finished, its caller now holds its id: it runs on by itself.
    """
    value = 0.0

    async def beat() -> None:
        nonlocal value
        while not job.finished.is_set():
            value = max(job.elapsed_s, value + 0.001)
            changed = job.stage_changed
            await report(value, job.stage)
            with anyio.move_on_after(heartbeat_s):
                await changed.wait()

    async with jobs.waiting(job):
        with anyio.move_on_after(wait_s):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(beat)
                await job.finished.wait()
                tasks.cancel_scope.cancel()
        done = job.finished.is_set()
        job.handed_out = job.handed_out or not done
    return done

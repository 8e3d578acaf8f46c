import anyio
import pytest

from hawkeye_mcp.jobs import Job, Jobs, UnknownJob, wait


async def _silent(value: float, stage: str) -> None:
    pass


@pytest.mark.anyio
async def test_identical_work_in_flight_is_one_job_and_later_work_a_new_one():
    release, runs = anyio.Event(), []

    async def work(job: Job[int]) -> int:
        runs.append(job.id)
        await release.wait()
        return len(runs)

    async with anyio.create_task_group() as tasks:
        jobs: Jobs[int] = Jobs(tasks, deadline_s=600)
        one = jobs.start("evaluate", ("k",), {}, work)
        assert jobs.start("evaluate", ("k",), {}, work) is one
        assert jobs.start("profile", ("k",), {}, work) is not one
        assert jobs.start("evaluate", ("other",), {}, work) is not one
        assert jobs.in_flight("evaluate") == 2
        release.set()
        assert await wait(jobs, one, 600, 1, _silent)
        assert one.state == "done"
        assert jobs.start("evaluate", ("k",), {}, work) is not one
    assert len(runs) == 4


@pytest.mark.anyio
async def test_work_being_cancelled_is_not_joined():
    cleaning, cleaned = anyio.Event(), anyio.Event()

    async def work(job: Job[int]) -> int:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                cleaning.set()
                await cleaned.wait()
        return 0

    async def quick(job: Job[int]) -> int:
        return 7

    async with anyio.create_task_group() as tasks:
        jobs: Jobs[int] = Jobs(tasks, deadline_s=600)
        dying = jobs.start("evaluate", ("k",), {}, work)
        await anyio.wait_all_tasks_blocked()
        dying.cancel()
        await cleaning.wait()
        fresh = jobs.start("evaluate", ("k",), {}, quick)
        cleaned.set()
        assert await wait(jobs, fresh, 600, 1, _silent)
        await dying.finished.wait()
    assert (fresh.state, fresh.result) == ("done", 7)
    assert dying.state == "cancelled"


@pytest.mark.anyio
async def test_how_a_job_ended_is_told_apart():
    async def fails(job: Job[int]) -> int:
        raise ValueError("inside")

    async def hangs(job: Job[int]) -> int:
        await anyio.sleep_forever()
        return 0

    async with anyio.create_task_group() as tasks:
        failed = Jobs(tasks, deadline_s=600).start("evaluate", ("a",), {}, fails)
        late = Jobs(tasks, deadline_s=0).start("evaluate", ("b",), {}, hangs)
        stopped = Jobs(tasks, deadline_s=600).start("evaluate", ("c",), {}, hangs)
        await anyio.wait_all_tasks_blocked()
        stopped.cancel()
        for job in (failed, late, stopped):
            await job.finished.wait()
    assert [job.state for job in (failed, late, stopped)] == ["failed", "deadline", "cancelled"]
    assert str(failed.fault) == "inside"
    stopped.cancel()
    assert stopped.state == "cancelled"


@pytest.mark.anyio
async def test_finished_jobs_are_forgotten_oldest_first_and_running_ones_never():
    async def quick(job: Job[int]) -> int:
        return 0

    async with anyio.create_task_group() as tasks:
        jobs: Jobs[int] = Jobs(tasks, deadline_s=60)

        async def hangs(job: Job[int]) -> int:
            await anyio.sleep_forever()
            return 0

        running = jobs.start("evaluate", ("running",), {}, hangs)
        old = [jobs.start("evaluate", (str(i),), {}, quick) for i in range(300)]
        for job in old:
            await job.finished.wait()
        newest = jobs.start("evaluate", ("newest",), {}, quick)
        assert jobs.read(running.id) is running
        assert jobs.read(newest.id) is newest
        assert jobs.read(old[-1].id) is old[-1]
        with pytest.raises(UnknownJob):
            jobs.read(old[0].id)
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_stage_is_reported_when_it_comes_and_values_always_rise():
    seen: list[tuple[float, str]] = []
    reported = {stage: anyio.Event() for stage in ("queued", "trace", "compile")}

    async def report(value: float, stage: str) -> None:
        seen.append((value, stage))
        reported[stage].set()

    async def work(job: Job[int]) -> int:
        for stage in ("trace", "compile"):
            await reported["queued" if stage == "trace" else "trace"].wait()
            job.progress(stage)
        await reported["compile"].wait()
        return 0

    async with anyio.create_task_group() as tasks:
        jobs: Jobs[int] = Jobs(tasks, deadline_s=600)
        # A heartbeat of an hour: only the stages themselves can bring the reports.
        assert await wait(jobs, jobs.start("evaluate", ("k",), {}, work), 600, 3600, report)
    assert [stage for _, stage in seen] == ["queued", "trace", "compile"]
    assert all(a < b for (a, _), (b, _) in zip(seen, seen[1:], strict=False))

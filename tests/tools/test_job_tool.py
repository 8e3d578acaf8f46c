from pathlib import Path

import pytest
from fake_judge import FakeJudge
from serving import ERAS, connected, data, refusal


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_reading_answers_at_once_and_cancelling_stops_the_work(tmp_path: Path, mode):
    judge = FakeJudge()
    async with connected(tmp_path, judge, mode) as client:
        running = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
        job_id = running["job_id"]
        await judge.entered.wait()
        read = data(await client.call_tool("job", {"job_id": job_id, "action": "read"}))
        cancelled = data(await client.call_tool("job", {"job_id": job_id, "action": "cancel"}))
        again = data(await client.call_tool("job", {"job_id": job_id, "action": "cancel"}))
        waited = data(await client.call_tool("job", {"job_id": job_id}))
        fresh = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
    assert read["status"] == "running"
    assert "'trace'" in read["message"]
    assert [x["status"] for x in (cancelled, again, waited)] == ["cancelled"] * 3
    assert judge.cancelled[0] == "# fake: hold"
    assert fresh["status"] == "running"
    assert fresh["job_id"] != job_id


@pytest.mark.anyio
async def test_cancelling_what_is_done_changes_nothing(tmp_path: Path):
    async with connected(tmp_path) as client:
        done = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        after = data(await client.call_tool("job", {"job_id": done["job_id"], "action": "cancel"}))
    assert after == done


@pytest.mark.anyio
async def test_a_profile_job_answers_in_the_form_of_a_profile(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        running = data(await client.call_tool("profile", {"source": "# fake: hold", "wait_s": 0}))
        assert (running["status"], running["counters"]) == ("running", {})
        judge.release.set()
        done = data(await client.call_tool("job", {"job_id": running["job_id"], "action": "wait"}))
    assert done["counters"]["counter 1"] == {"total": 1.0, "per_step": 0.0625, "unit": "cycles"}


@pytest.mark.anyio
async def test_an_unknown_job_and_a_wrong_action_say_what_to_do(tmp_path: Path):
    async with connected(tmp_path) as client:
        unknown = refusal(await client.call_tool("job", {"job_id": "job-0"}))
        wrong = refusal(await client.call_tool("job", {"job_id": "job-0", "action": "kill"}))
        missing = refusal(await client.call_tool("job", {}))
    assert "no job 'job-0'" in unknown
    assert "evaluate_kernel" in unknown
    assert "'wait', 'read' or 'cancel'" in wrong
    assert "job_id: Field required" in missing

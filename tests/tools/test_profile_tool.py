import json
from pathlib import Path

import anyio
import pytest
from fake_judge import FakeJudge
from mcp.shared.exceptions import MCPError
from serving import ERAS, connected, data, refusal


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_profile_has_its_counters_times_and_diagnosis(tmp_path: Path, mode):
    async with connected(tmp_path, mode=mode, condition="none") as client:
        found = data(await client.call_tool("profile", {"source": "# fake: speedup 5"}))
    assert found["candidate_us"] == 20.0
    assert found["counters"]["counter 1"] == {"total": 1.0, "per_step": 0.0625, "unit": "cycles"}
    assert found["ops"] == ["matmul: 20 us x1, mosaic, bound by static_schedule, static_profile"]
    assert found["findings"] == [{"text": "MXU busy 12 %", "counter": "mxu_matmuls"}]
    assert (found["isolation"], found["artifact_sha256"]) == ("rlimits", "a" * 64)


@pytest.mark.anyio
async def test_the_whole_profile_is_a_resource_while_the_server_lives_and_no_other_job_is(tmp_path: Path):
    async with connected(tmp_path) as client:
        found = data(await client.call_tool("profile", {"source": "k"}))
        whole = json.loads((await client.read_resource(found["full"])).contents[0].text)
        judged = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        for job_id in (judged["job_id"], "job-0"):
            with pytest.raises(MCPError, match="There is no profile"):
                await client.read_resource(f"profile://{job_id}")
    assert (whole["isolation"], whole["artifact"]["bytes"]) == ("rlimits", 1234)
    assert len(whole["timing"]["ops"]) == 1


@pytest.mark.anyio
async def test_a_profile_enters_no_verdict(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        data(await client.call_tool("profile", {"source": "k"}))
        verdict = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
    assert verdict["cached"] is False
    assert judge.judged == ["k", "k"]


@pytest.mark.anyio
async def test_a_client_that_gives_up_stops_the_profile(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "profile", {"source": "# fake: hold"})
            await judge.entered.wait()
            tasks.cancel_scope.cancel()
        await judge.was_cancelled.wait()
    assert judge.cancelled == ["# fake: hold"]


@pytest.mark.anyio
async def test_arguments_are_checked_like_those_of_an_evaluation(tmp_path: Path):
    async with connected(tmp_path) as client:
        assert "neither was given" in refusal(await client.call_tool("profile", {}))
        assert "outside" in refusal(await client.call_tool("profile", {"path": "../x"}))

import base64
import json
from pathlib import Path

import anyio
import profiles
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
@pytest.mark.parametrize("mode", ERAS)
async def test_a_picture_comes_with_the_answer_when_asked_for_and_is_a_resource(tmp_path: Path, mode):
    async with connected(tmp_path, mode=mode) as client:
        plain = await client.call_tool("profile", {"source": "k"})
        result = await client.call_tool("profile", {"source": "k", "picture": True})
        found = data(result)
        later = await client.call_tool("job", {"job_id": found["job_id"], "picture": True})
        read = (await client.read_resource(f"{found['full']}/picture.png")).contents[0]
        with pytest.raises(MCPError, match="There is no profile"):
            await client.read_resource("profile://job-0/picture.png")
    assert [content.type for content in plain.content] == ["text", "resource_link"]
    assert [content.type for content in result.content] == ["text", "resource_link", "image"]
    assert (result.content[2].mime_type, read.mime_type) == ("image/png", "image/png")
    png = base64.b64decode(result.content[2].data)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert base64.b64decode(read.blob) == base64.b64decode(later.content[2].data) == png


@pytest.mark.anyio
async def test_a_profile_against_an_earlier_one_has_the_ratios_and_both_in_the_picture(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge, tpu="", workload="") as client:
        slow = {"source": "# fake: speedup 2", "workload": "8p_GEMM"}
        fast = {"source": "# fake: speedup 5", "workload": "8p_GEMM"}
        earlier = data(await client.call_tool("profile", slow))
        against = {"against": earlier["job_id"]}
        result = await client.call_tool("profile", fast | against | {"picture": True})
        found = data(result)
        again = data(await client.call_tool("job", {"job_id": found["job_id"], "action": "read"} | against))
        judged = len(judge.judged)
        other_chip = refusal(await client.call_tool("profile", fast | against | {"tpu": "v6e"}))
        no_profile = refusal(await client.call_tool("profile", fast | {"against": "job-0"}))
        verdict = data(await client.call_tool("evaluate_kernel", slow))
        a_verdict = refusal(await client.call_tool("profile", fast | {"against": verdict["job_id"]}))
    assert found["ratios"]["predicted_us"] == 2.5, "the earlier one took 50 us, this one 20"
    assert found["ratios"]["counters.counter 1"] == 1.0
    assert found["ratios"]["counters.counter 0"] is None
    assert again["ratios"] == found["ratios"]
    assert earlier["ratios"] == {}
    assert int.from_bytes(base64.b64decode(result.content[2].data)[20:24], "big") == 2 * 560
    assert "is of 8p_GEMM on v5e, this one of 8p_GEMM on v6e" in other_chip
    assert "holds no profile 'job-0'. Profile that kernel first." in no_profile
    assert "holds no profile" in a_verdict
    assert len(judge.judged) == judged + 1, "refused before anything is profiled"


@pytest.mark.anyio
async def test_there_is_no_picture_of_what_was_not_profiled_nor_of_a_verdict(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        refused = await client.call_tool("profile", {"source": "# fake: compile_error", "picture": True})
        verdict = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        judged = await client.call_tool("job", {"job_id": verdict["job_id"], "picture": True})
        running = await client.call_tool("profile", {"source": "# fake: hold", "wait_s": 0, "picture": True})
        judge.release.set()
    assert data(refused)["status"] == "compile_error"
    assert [len(found.content) for found in (refused, judged, running)] == [2, 2, 1]


@pytest.mark.anyio
async def test_a_real_profile_fits_the_answer_whole(tmp_path: Path):
    class Judge(FakeJudge):
        async def profile(self, *arguments, **named):
            return profiles.matmul()

    async with connected(tmp_path, Judge(), condition="none") as client:
        result = await client.call_tool("profile", {"source": "k"})
        whole = json.loads((await client.read_resource(data(result)["full"])).contents[0].text)
    found = data(result)
    assert found["truncated"] is False
    assert (found["predicted_us"], found["bound"], found["best_speedup"]) == (726.0, "mxu", pytest.approx(726 / 697.5))
    assert (found["executed_bundles"], found["stall_cycles"], found["spills"]) == (1_010_000, 80_000, 1_024)
    assert (found["vmem_bytes"], found["hbm_bytes"]) == (4 * (1 << 20) + (1 << 16), 544 << 20)
    assert found["counters"]["mxu_matmuls"] == {
        "total": 2_097_152, "per_step": 4_096, "unit": "count", "peak_share": 0.962
    }  # fmt: skip
    assert found["findings"][0]["counter"] == "traffic factor of operand 0"
    assert found["findings"][0]["costs_us"] == 33.3
    assert found["stalls"][0] == "DMA read of operand 0: 50000 cycles, 4.6%"
    assert found["lines"][0].startswith("line 21: 1000000 cycles, 91.7%, 22000 waiting: acc_ref[...] += jnp.dot(")
    assert found["lines"][1].startswith("no line: 50000 cycles")
    assert found["slots"][:2] == ["matmul_kernel: bundles 120 to 2180, run 512 times", "MATMUL: 3.72 of 4, 93%"]
    assert "operand 0 bf16[512,512]: 1048576 bytes vmem window, 2 copies" in found["memory"]
    assert found["traffic"][0] == "operand 0 bf16[4096,4096]: 268435456 bytes read, 8 times the array"
    assert found["ceilings"][1].startswith("mxu: 697.5 us for 1.374e+11 FLOP at 1.97e+14/s")
    assert (found["speedup_interval"], found["indistinguishable"]) == ([0.9, 1.1], True)
    assert "taxonomy_row" not in json.dumps(found) + json.dumps(whole)


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

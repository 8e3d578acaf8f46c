from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from serving import ERAS, connected, data, refusal, text

from hawkeye_mcp import pool
from hawkeye_mcp.tools.kernel_pool import LARGEST_LISTING


async def judge(client, *markers: str) -> dict:
    source = "\n".join(f"# fake: {marker}" for marker in markers)
    return data(await client.call_tool("evaluate_kernel", {"source": source}))


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_correct_kernels_enter_by_themselves_and_are_listed_best_first(tmp_path: Path, mode):
    async with connected(tmp_path, mode=mode, condition="pool") as client:
        empty = data(await client.call_tool("kernel_pool", {}))
        slow = await judge(client, "speedup 2")
        fast = await judge(client, "speedup 3")
        measured = await judge(client, "measured", "speedup 9")
        await judge(client, "incorrect")
        found = data(await client.call_tool("kernel_pool", {"action": "list"}))
        one = data(await client.call_tool("kernel_pool", {"limit": 1}))
        none = data(await client.call_tool("kernel_pool", {"limit": -3}))
    assert empty["predicted"] == empty["measured"] == []
    assert [e["id"] for e in found["predicted"]] == [fast["evaluation_id"], slow["evaluation_id"]]
    assert [e["id"] for e in found["measured"]] == [measured["evaluation_id"]]
    assert [e["speedup"] for e in found["predicted"]] == [3.0, 2.0]
    assert [e["id"] for e in one["predicted"]] == [e["id"] for e in none["predicted"]] == [fast["evaluation_id"]]


@pytest.mark.anyio
async def test_a_pooled_kernel_is_read_by_its_id_and_a_wrong_one_is_not(tmp_path: Path):
    async with connected(tmp_path, condition="full") as client:
        good = await judge(client, "correct", "speedup 3")
        bad = await judge(client, "incorrect")
        read = text(await client.call_tool("kernel_pool", {"action": "read", "id": good["evaluation_id"]}))
        refused = refusal(await client.call_tool("kernel_pool", {"action": "read", "id": bad["evaluation_id"]}))
        unnamed = refusal(await client.call_tool("kernel_pool", {"action": "read"}))
        resource = await client.read_resource(f"kernel://{good['evaluation_id']}")
        with pytest.raises(MCPError, match="holds no kernel"):
            await client.read_resource(f"kernel://{bad['evaluation_id']}")
    head, _, kernel = read.partition("\n")
    assert head == f"# {good['evaluation_id']}: 8p_GEMM on v5e, speedup 3, candidate_us 33.33"
    assert kernel == resource.contents[0].text == "# fake: correct\n# fake: speedup 3"
    assert "holds no kernel" in refused
    assert "needs an id" in unnamed


@pytest.mark.anyio
async def test_an_entry_says_what_its_interval_cannot_tell_apart(tmp_path: Path):
    async with connected(tmp_path, condition="pool") as client:
        for markers in (["speedup 3", "within 1.1"], ["speedup 2.8", "within 1.1"], ["speedup 1.05", "within 1.1"]):
            await judge(client, *markers)
        listed = data(await client.call_tool("kernel_pool", {}))["predicted"]
    assert [e["speedup"] for e in listed] == [3.0, 2.8, 1.05]
    assert [e["like_best"] for e in listed] == [False, True, False]
    assert [e["indistinguishable"] for e in listed] == [False, False, True]
    assert listed[0]["speedup_interval"] == pytest.approx([3 / 1.1, 3 * 1.1])


@pytest.mark.anyio
async def test_a_speedup_over_a_floor_is_at_least_that(tmp_path: Path):
    async with connected(tmp_path, condition="pool") as client:
        bound = await judge(client, "correct", "speedup 3", "baseline_lower_bound")
        await judge(client, "correct", "speedup 2")
        listed = data(await client.call_tool("kernel_pool", {}))["predicted"]
        read = text(await client.call_tool("kernel_pool", {"action": "read", "id": bound["evaluation_id"]}))
    assert [(e["speedup"], e["at_least"]) for e in listed] == [(3.0, True), (2.0, False)]
    assert "speedup >= 3, candidate_us 33.33" in read


@pytest.mark.anyio
async def test_the_longest_listing_is_shown_whole_by_every_client(tmp_path: Path):
    async with connected(tmp_path, condition="pool") as client:
        for number in range(LARGEST_LISTING):
            for source in ("measured", "predicted"):
                await judge(client, source, f"speedup {1 + number / 7}")
        result = await client.call_tool("kernel_pool", {"limit": LARGEST_LISTING})
        found = data(result)
    assert len(found["measured"]) == len(found["predicted"]) == LARGEST_LISTING
    assert len(text(result)) < 12_000


@pytest.mark.anyio
async def test_a_long_kernel_is_cut_with_a_link_to_the_whole(tmp_path: Path):
    source = "# é\n" * 5_000
    async with connected(tmp_path, condition="pool") as client:
        judged = data(await client.call_tool("evaluate_kernel", {"source": source}))
        result = await client.call_tool("kernel_pool", {"action": "read", "id": judged["evaluation_id"]})
        whole = (await client.read_resource(result.content[1].uri)).contents[0].text
    assert len(text(result).encode()) < 12_000
    assert "cut here" in text(result)
    assert whole == source


@pytest.mark.anyio
async def test_another_server_on_the_same_state_sees_the_kernel_but_not_of_another_workload(tmp_path: Path):
    async with connected(tmp_path, condition="pool") as client:
        judged = await judge(client, "correct")
    async with connected(tmp_path, condition="pool") as client:
        found = data(await client.call_tool("kernel_pool", {}))
    async with connected(tmp_path, condition="pool", workload="12p_RMSNorm") as client:
        other = data(await client.call_tool("kernel_pool", {}))
        refused = refusal(await client.call_tool("kernel_pool", {"action": "read", "id": judged["evaluation_id"]}))
    assert [e["id"] for e in found["predicted"]] == [judged["evaluation_id"]]
    assert other["predicted"] == []
    assert "holds no kernel" in refused


@pytest.mark.anyio
async def test_kernels_that_another_version_found_correct_are_not_listed(tmp_path: Path, monkeypatch):
    async with connected(tmp_path, condition="pool") as client:
        with monkeypatch.context() as before:
            before.setattr(pool, "fingerprint", lambda workload: "an older judge")
            await judge(client, "speedup 9")
        now = await judge(client, "speedup 2")
        found = data(await client.call_tool("kernel_pool", {}))
    assert [e["id"] for e in found["predicted"]] == [now["evaluation_id"]]

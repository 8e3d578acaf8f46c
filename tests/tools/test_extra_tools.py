"""Tools that are there only where the server is given something more."""

import json
from pathlib import Path

import pytest
from serving import connected, refusal

SNAPSHOT = Path(__file__).parents[1] / "snapshots" / "tools.json"


async def listed(folder: Path, **changed) -> list[dict]:
    async with connected(folder, **changed) as client:
        tools = (await client.list_tools()).tools
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


@pytest.mark.anyio
async def test_without_options_the_list_is_byte_for_byte_the_same(tmp_path: Path):
    found = {condition: await listed(tmp_path, condition=condition) for condition in ("none", "full")}
    assert (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode() == SNAPSHOT.read_bytes()


@pytest.mark.anyio
async def test_a_job_adds_three_tools_after_the_others_under_any_condition(tmp_path: Path):
    (tmp_path / "job.json").write_text("{}")
    snapshot = json.loads(SNAPSHOT.read_bytes())
    for condition in ("none", "full"):
        found = await listed(tmp_path, condition=condition, job=tmp_path / "job.json")
        assert found[:-3] == snapshot[condition]
        assert [tool["name"] for tool in found[-3:]] == ["verify_port", "compare_structure", "reference_facts"]
        for tool in found[-3:]:
            assert tool["inputSchema"]["additionalProperties"] is False
            assert tool["annotations"]["readOnlyHint"]
            assert not tool["annotations"]["openWorldHint"]
    assert len(json.dumps(found[-3:], ensure_ascii=False)) / 4 < 900, "tokens, at 4 characters each"


@pytest.mark.anyio
async def test_a_job_file_that_is_not_valid_is_told_by_the_call(tmp_path: Path):
    (tmp_path / "job.json").write_text('{"schema": "hawkeye.job/1"}')
    async with connected(tmp_path, job=tmp_path / "job.json") as client:
        said = refusal(await client.call_tool("verify_port", {"source": "def workload(x): return x"}))
        neither = refusal(await client.call_tool("compare_structure", {}))
    assert "The server's job file is not valid" in said
    assert "name" in said
    assert "neither was given" in neither

"""Tools that are there only where the server is given something more."""

import json
from pathlib import Path

import pytest
from serving import connected

SNAPSHOT = Path(__file__).parents[1] / "snapshots" / "tools.json"


async def listed(folder: Path, **changed) -> list[dict]:
    async with connected(folder, **changed) as client:
        tools = (await client.list_tools()).tools
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


@pytest.mark.anyio
async def test_without_options_the_list_is_byte_for_byte_the_same(tmp_path: Path):
    found = {condition: await listed(tmp_path, condition=condition) for condition in ("none", "full")}
    assert (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode() == SNAPSHOT.read_bytes()

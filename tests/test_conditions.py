"""Under every condition, walk everything that a client can read and find no word of what is withheld."""

import json
import re
from pathlib import Path

import pytest
from fake_judge import FakeJudge
from mcp import Client
from mcp.shared.exceptions import MCPError
from serving import ERAS, connected, data

from hawkeye_mcp import conditions, content

find_content = content.folder

WITHHELD = {
    "taxonomy": re.compile(r"taxonom|\bcells?\b|01_mxu_feed|technique", re.IGNORECASE),
    "pool": re.compile(r"\bpool|kernel_pool|kernel://|already found", re.IGNORECASE),
}


def test_each_condition_shows_its_tools():
    base = ["evaluate_kernel", "profile", "read_workload"]
    assert conditions.tools("none") == [*base, "job"]
    assert conditions.tools("taxonomy") == [*base, "read_taxonomy_cell", "job"]
    assert conditions.tools("pool") == [*base, "kernel_pool", "job"]
    assert conditions.tools("full") == [*base, "read_taxonomy_cell", "kernel_pool", "job"]


@pytest.mark.parametrize("condition", conditions.CONDITIONS)
def test_steps_are_numbered_without_gaps(condition):
    numbers = re.findall(r"^(\d+)\.", conditions.loop(condition), re.MULTILINE)
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    assert len(numbers) == 3 + (condition in ("taxonomy", "full")) + (condition in ("pool", "full"))


@pytest.mark.anyio
@pytest.mark.parametrize("tpu", ["v5p", "v6e", "7x"])
async def test_a_chip_without_cells_says_so_and_nobody_is_sent_to_read_some(tmp_path: Path, tpu, monkeypatch):
    monkeypatch.setattr(content, "folder", lambda name: tmp_path if name == "taxonomy" else find_content(name))
    assert conditions.loop("taxonomy", tpu) == conditions.loop("none")
    assert conditions.loop("full", tpu) == conditions.loop("pool")
    async with connected(tmp_path, condition="taxonomy", tpu=tpu) as client:
        assert client.instructions == conditions.loop("none")
        assert not WITHHELD["taxonomy"].search((await client.get_prompt("optimize_kernel")).model_dump_json())
        listing = (await client.call_tool("read_taxonomy_cell", {})).content[0].text
    assert listing == f"There are no taxonomy cells for {tpu} yet. Go on without them."


def test_the_loop_names_cells_where_the_chip_has_some_or_none_is_pinned():
    for tpu in ("v5e", ""):
        assert "read_taxonomy_cell" in conditions.loop("taxonomy", tpu)
        assert "taxonomy rows" in conditions.loop("full", tpu)


def test_an_unknown_condition_is_refused_naming_the_four():
    with pytest.raises(conditions.UnknownCondition, match="'ful'.*none, taxonomy, pool, full"):
        conditions.parse("ful")


async def _call(client: Client, said: list[object], tool: str, **arguments: object) -> None:
    said.append(await client.call_tool(tool, arguments))


async def everything(client: Client) -> str:
    """All that a client can get out of the server, as one text."""
    said: list[object] = [client.instructions, client.server_info, client.server_capabilities]
    said += [await client.list_tools(), await client.list_prompts()]
    said += [await client.get_prompt(p.name) for p in (await client.list_prompts()).prompts]
    listed = await client.list_resources()
    said += [listed, await client.list_resource_templates()]
    said += [await client.read_resource(r.uri) for r in listed.resources]
    for status in (
        "correct",
        "incorrect",
        "rejected",
        "trace_error",
        "compile_error",
        "runtime_error",
        "timeout",
        "harness_error",
        "crash",
        "huge",
    ):
        result = await client.call_tool("evaluate_kernel", {"source": f"# fake: {status}"})
        said.append(result)
        if full := data(result)["full"]:
            said.append(await client.read_resource(full))
        await _call(client, said, "profile", source=f"# fake: {status}")
    running = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
    said.append(running)
    await _call(client, said, "job", job_id=running["job_id"], action="read")
    await _call(client, said, "job", job_id=running["job_id"], action="cancel")
    await _call(client, said, "job", job_id="nonsense")
    await _call(client, said, "evaluate_kernel", surce="x")
    await _call(client, said, "evaluate_kernel")
    await _call(client, said, "evaluate_kernel", path="../outside.py")
    await _call(client, said, "evaluate_kernel", path="absent.py")
    await _call(client, said, "evaluate_kernel", source="x", tpu="v9")
    await _call(client, said, "evaluate_kernel", source="x", tpu="v6e")
    await _call(client, said, "evaluate_kernel", source="x", workload="12p_RMSNorm")
    await _call(client, said, "read_workload")
    await _call(client, said, "read_workload", name="nonsense")
    for uri in ("evaluation://x", "workload://x", "nonsense://x"):
        try:
            said.append(await client.read_resource(uri))
        except MCPError as error:
            said.append(error.error.message)
    return "\n".join(
        item if isinstance(item, str) else json.dumps(item, default=lambda o: o.model_dump(mode="json"))
        for item in said
    )


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("condition", conditions.CONDITIONS)
async def test_no_byte_mentions_what_is_withheld(tmp_path: Path, condition, mode):
    async with connected(tmp_path, FakeJudge(), mode, condition=condition) as client:
        said = await everything(client)
    for asset, words in WITHHELD.items():
        found = sorted(set(words.findall(said)))
        if conditions.shows(condition, asset):
            assert found, f"the walk should have met {asset} under {condition}"
        else:
            assert found == []


@pytest.mark.anyio
async def test_a_withheld_tool_is_as_unknown_as_one_that_never_was(tmp_path: Path):
    async with connected(tmp_path, condition="none") as client:
        withheld = await client.call_tool("kernel_pool", {})
        never = await client.call_tool("kernel_pole", {})
    assert withheld.is_error
    assert withheld.content[0].text == never.content[0].text.replace("pole", "pool")
    async with connected(tmp_path, condition="none") as client:
        for uri in ("taxonomy://v5e/01_mxu_feed", "kernel://x"):
            with pytest.raises(MCPError, match=f"Unknown resource: {uri}"):
                await client.read_resource(uri)


@pytest.mark.anyio
async def test_rows_are_named_only_where_cells_can_be_read(tmp_path: Path):
    for condition in conditions.CONDITIONS:
        async with connected(tmp_path / condition_dir(tmp_path, condition), condition=condition) as client:
            verdict = data(await client.call_tool("evaluate_kernel", {"source": "# fake: correct"}))
            whole = (await client.read_resource(verdict["full"])).contents[0].text
        shown = condition in ("taxonomy", "full")
        assert verdict.get("taxonomy_rows") == (["01_mxu_feed"] if shown else None)
        assert ("taxonomy_rows" in json.loads(whole)["diagnosis"]) is shown


def condition_dir(folder: Path, condition: str) -> str:
    (folder / condition).mkdir()
    return condition

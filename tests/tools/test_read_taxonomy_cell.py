from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from serving import connected, refusal, text

from hawkeye_mcp import calllog, taxonomy
from hawkeye_mcp.calllog import CellRead


@pytest.mark.anyio
async def test_without_a_row_every_cell_is_one_line(tmp_path: Path):
    async with connected(tmp_path, condition="taxonomy") as client:
        listing = text(await client.call_tool("read_taxonomy_cell", {}))
    lines = listing.splitlines()
    assert lines[0].startswith("Taxonomy cells for v5e")
    assert len(lines) == 1 + len(taxonomy.rows("v5e"))
    assert any(line.startswith("- 01_mxu_feed: ") for line in lines)


@pytest.mark.anyio
async def test_a_cell_is_read_whole_or_by_part(tmp_path: Path):
    cell = taxonomy.cell("v5e", "01_mxu_feed")
    async with connected(tmp_path, condition="full") as client:

        async def read(**arguments: str) -> str:
            return text(await client.call_tool("read_taxonomy_cell", {"row": "01_mxu_feed", **arguments}))

        parts = {part: await read(part=part) for part in ("guide", "naive", "optimized")}
        whole = await read()
        resource = (await client.read_resource("taxonomy://v5e/01_mxu_feed")).contents[0].text
    for part, content in (
        ("guide", cell.guide),
        ("naive", cell.naive_kernel),
        ("optimized", cell.optimized_kernel),
    ):
        assert content.strip() in parts[part]
        assert parts[part] in whole
    assert cell.naive_kernel.strip() not in parts["optimized"]
    assert '"row": "01_mxu_feed"' in whole or "## Configuration" in whole
    assert whole == resource


@pytest.mark.anyio
async def test_unknown_rows_and_parts_say_what_there_is(tmp_path: Path):
    async with connected(tmp_path, condition="taxonomy") as client:
        row = refusal(await client.call_tool("read_taxonomy_cell", {"row": "01_mxu_fed"}))
        part = refusal(await client.call_tool("read_taxonomy_cell", {"row": "01_mxu_feed", "part": "code"}))
        for uri in ("taxonomy://v5e/01_mxu_fed", "taxonomy://v9/01_mxu_feed"):
            with pytest.raises(MCPError, match="01_mxu_feed|v5e"):
                await client.read_resource(uri)
    assert "01_mxu_feed" in row
    assert "'all', 'guide', 'naive' or 'optimized'" in part


@pytest.mark.anyio
@pytest.mark.parametrize("condition", ["taxonomy", "placebo"])
async def test_what_was_read_is_in_the_call_log_in_order(tmp_path: Path, condition):
    async with connected(tmp_path, condition=condition) as client:
        await client.call_tool("read_taxonomy_cell", {})
        await client.call_tool("read_taxonomy_cell", {"row": "05_fused_epilogue", "part": "guide"})
        await client.call_tool("read_taxonomy_cell", {"row": "01_mxu_fed"})
        await client.call_tool("read_taxonomy_cell", {"row": "01_mxu_feed"})
        await client.read_resource("taxonomy://v5e/01_mxu_feed")
        await client.read_resource("workload://8p_GEMM")
        with pytest.raises(MCPError):
            await client.read_resource("taxonomy://v5e/01_mxu_fed")
        await client.call_tool("read_taxonomy_cell", {"row": "05_fused_epilogue", "part": "guide"})
    lines = calllog.read(tmp_path / "log" / "calls.jsonl")
    guide, whole = CellRead(row="05_fused_epilogue", part="guide"), CellRead(row="01_mxu_feed", part="all")
    assert calllog.cells_read(lines) == [guide, whole, whole, guide]
    assert [(line["uri"], line["outcome"]) for line in lines if line["event"] == "resource_read"] == [
        ("taxonomy://v5e/01_mxu_feed", "ok"),
        ("workload://8p_GEMM", "ok"),
        ("taxonomy://v5e/01_mxu_fed", "protocol_error"),
    ]


@pytest.mark.anyio
async def test_reading_a_line_of_a_menu_counts_too(tmp_path: Path):
    async with connected(tmp_path, condition="menu") as client:
        await client.call_tool("read_taxonomy_cell", {"row": "01_mxu_feed"})
        await client.read_resource("taxonomy://v5e/01_mxu_feed")
    lines = calllog.read(tmp_path / "log" / "calls.jsonl")
    assert calllog.cells_read(lines) == [CellRead(row="01_mxu_feed", part="all")] * 2

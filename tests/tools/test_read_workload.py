from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from serving import connected, refusal, text

from hawkeye_mcp import workloads


@pytest.mark.anyio
async def test_the_pinned_workload_is_read_without_a_name_and_no_other(tmp_path: Path):
    async with connected(tmp_path) as client:
        found = await client.call_tool("read_workload", {})
        other = refusal(await client.call_tool("read_workload", {"name": "12p_RMSNorm"}))
        listed = (await client.list_resources()).resources
        resource = (await client.read_resource("workload://8p_GEMM")).contents[0].text
        with pytest.raises(MCPError, match="judges only the workload '8p_GEMM'"):
            await client.read_resource("workload://12p_RMSNorm")
    assert text(found) == resource == workloads.statement(workloads.load("8p_GEMM"))
    assert found.structured_content is None
    assert "only the workload '8p_GEMM'" in other
    assert [r.uri for r in listed if r.uri.startswith("workload:")] == ["workload://8p_GEMM"]


@pytest.mark.anyio
async def test_without_a_pin_all_are_listed_and_any_is_read(tmp_path: Path):
    async with connected(tmp_path, workload="") as client:
        listing = text(await client.call_tool("read_workload", {}))
        one = text(await client.call_tool("read_workload", {"name": "12p_RMSNorm"}))
        unknown = refusal(await client.call_tool("read_workload", {"name": "12p_RMSNrm"}))
        uris = {r.uri for r in (await client.list_resources()).resources}
        with pytest.raises(MCPError, match="Nearest: 12p_RMSNorm"):
            await client.read_resource("workload://12p_RMSNrm")
    for name in workloads.names():
        assert f"- {name}: {workloads.load(name).summary}" in listing
        assert f"workload://{name}" in uris
    assert one == workloads.statement(workloads.load("12p_RMSNorm"))
    assert "Nearest: 12p_RMSNorm" in unknown

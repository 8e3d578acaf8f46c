"""Tools that are there only where the server is given something more."""

import json
from pathlib import Path

import pytest
from mcp import MCPError
from serving import connected, data, refusal

from hawkeye_mcp.intake.capture import CaptureFailed
from hawkeye_mcp.intake.facts import ReferenceFacts
from hawkeye_mcp.intake.structure_facts import Facts
from hawkeye_mcp.versions import versions

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


def jax_job(folder: Path) -> Path:
    (folder / "source.py").write_text("def get_inputs():\n    return []\n\ndef workload():\n    pass\n")
    declared = {
        "schema": "hawkeye.job/1",
        "name": "mine",
        "input": {"type": "jax", "path": "source.py"},
        "has_reference": False,
        "needs_jax_conversion": False,
    }
    (folder / "job.json").write_text(json.dumps(declared))
    return folder / "job.json"


@pytest.mark.anyio
async def test_facts_fit_into_an_answer_and_the_whole_is_a_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from hawkeye_mcp.tools import reference_facts

    async def facts_of(workload, tpu, progress):
        progress("trace")
        program = Facts(
            inputs=["f32[8]"], outputs=["f32[8]"], operations={"mul": 900}, layout={}, reductions=[], contractions=[],
            constants=[f"f32 {n} in mul" for n in range(900)], casts=[], dtypes=["f32"], loops=[],
        )  # fmt: skip
        return ReferenceFacts(
            workload=workload.name, tpu=tpu, program=program, jaxpr_characters=8, jaxpr_tokens=2, hlo=None,
            hlo_problem="It does not fit.", hlo_source="libtpu", versions=versions(), hlo_text="HloModule whole",
        )  # fmt: skip

    monkeypatch.setattr(reference_facts, "facts_of", facts_of)
    async with connected(tmp_path, job=jax_job(tmp_path)) as client:
        answered = await client.call_tool("reference_facts", {})
        found = data(answered)
        whole = json.loads((await client.read_resource(found["full"])).contents[0].text)
        with pytest.raises(MCPError):
            await client.read_resource("gate://job-none")
    assert (found["status"], found["message"], found["workload"], found["tpu"]) == (
        "no_hlo",
        "It does not fit.",
        "8p_GEMM",
        "v5e",
    )
    assert found["truncated"]
    assert len(answered.content[0].text) <= 11_000
    assert len(whole["program"]["constants"]) == 900
    assert whole["hlo_text"] == "HloModule whole"


@pytest.mark.anyio
async def test_a_program_that_cannot_be_recorded_and_a_fault_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from hawkeye_mcp.tools import verify_port

    async def verified(source, job, state, progress):
        if "fault" in source:
            raise RuntimeError("/secret/path")
        raise CaptureFailed("source_fails", "It raises ValueError.", "Mend it.", "the last line")

    monkeypatch.setattr(verify_port, "verified", verified)
    async with connected(tmp_path, job=jax_job(tmp_path)) as client:
        failed = data(await client.call_tool("verify_port", {"source": "def workload(): pass"}))
        fault = data(await client.call_tool("verify_port", {"source": "# fault"}))
    assert (failed["status"], failed["next_step"], failed["problems"]) == (
        "not_recorded",
        "Mend it.",
        ["the last line"],
    )
    assert "could not be recorded: It raises ValueError." in failed["message"]
    assert fault["status"] == "harness_error"
    assert "secret" not in json.dumps(fault)

"""A server with --run: it keeps its verdicts in the run, and has the tools on it."""

import json
import shutil
from pathlib import Path

import pytest
from serving import connected, data, refusal

from hawkeye_mcp import server_options, workloads
from hawkeye_mcp.runs import store

pytestmark = pytest.mark.anyio


@pytest.fixture
def run(tmp_path: Path) -> store.Run:
    store.create(tmp_path / "run", workloads.load("8p_GEMM"), "v5e")
    return store.find(tmp_path / "run")


async def judged(client, text: str) -> dict:
    return data(await client.call_tool("evaluate_kernel", {"source": text}))


async def test_tools_on_a_run_are_there_with_one_only(tmp_path, run):
    async with connected(tmp_path) as client:
        without = [tool.name for tool in (await client.list_tools()).tools]
    async with connected(tmp_path, condition="none", run=run.folder) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
    assert not {"ideas", "run_state"} & set(without)
    assert {"ideas", "run_state"} <= set(names)


async def test_every_verdict_is_kept(tmp_path, run):
    async with connected(tmp_path, run=run.folder) as client:
        first = await judged(client, "# fake: speedup 2")
        await judged(client, "# fake: incorrect")
        again = await judged(client, "# fake: speedup 2")
        data(await client.call_tool("profile", {"source": "# fake: speedup 2"}))
        found = data(await client.call_tool("run_state"))
    assert again["cached"]
    state = store.read(run)
    assert [(result.status, result.candidate_us) for result in state.evaluations] == [
        ("correct", 50.0),
        ("incorrect", None),
    ]
    assert [profile.status for profile in state.profiles] == ["profiled"]
    assert Path(state.best_predicted.kernel_path).read_text() == "# fake: speedup 2"
    assert found["best_predicted"]["evaluation_id"] == first["evaluation_id"]
    assert (found["evaluations"], found["by_status"]) == (2, {"correct": 1, "incorrect": 1})
    assert found["advice"]["best_us"] == 50.0


async def test_a_verdict_of_the_pool_enters_the_run_of_another_server(tmp_path, run):
    async with connected(tmp_path) as client:
        first = await judged(client, "# fake: speedup 2")
    async with connected(tmp_path, run=run.folder) as client:
        await judged(client, "# fake: speedup 2")
    assert [result.id for result in store.read(run).evaluations] == [first["evaluation_id"]]


async def test_a_verdict_that_cannot_be_kept_is_answered_all_the_same(tmp_path, run):
    async with connected(tmp_path, run=run.folder) as client:
        shutil.rmtree(run.folder)
        found = await judged(client, "# fake: speedup 2")
        assert "holds no run" in refusal(await client.call_tool("run_state"))
    assert found["speedup"] == 2.0
    log = [json.loads(line) for line in (tmp_path / "log" / "calls.jsonl").read_text().splitlines()]
    assert [line["kernel_sha256"] for line in log if line["event"] == "run_not_kept"] == [found["kernel_sha256"]]


async def test_an_idea_from_proposal_to_verdict(tmp_path, run):
    async with connected(tmp_path, run=run.folder) as client:

        async def ideas(**arguments: str):
            return await client.call_tool("ideas", arguments)

        said = {"claim": "Tiles of 512", "evidence": "a.cu:3", "kind": "STRUCTURAL", "falsifiable_as": "no faster"}
        proposed = data(await ideas(action="propose", **said, reference="a.cu"))
        assert (proposed["idea"]["id"], proposed["legal"]) == ("idea-1", ["adopt", "drop"])
        assert "Legal for it now: adopt, drop" in refusal(await ideas(action="refute", idea="idea-1"))
        data(await ideas(action="trust", reference="a.cu", trust="rejected", reason="sums over rows"))
        assert "sums over rows" in refusal(await ideas(action="adopt", idea="idea-1"))
        data(await ideas(action="trust", reference="a.cu", trust="aligned", reason="read again"))
        data(await ideas(action="adopt", idea="idea-1"))
        verdict = await judged(client, "# fake: speedup 0.5")
        refuted = data(await ideas(action="refute", idea="idea-1", evaluation_id=verdict["evaluation_id"]))
        assert (refuted["idea"]["status"], refuted["legal"]) == ("refuted", [])
        assert "refuted by evaluation" in refusal(await ideas(action="propose", **said | {"claim": "tiles of 512."}))
        assert data(await ideas())["ideas"][0]["status"] == "refuted"
        assert data(await client.call_tool("run_state"))["by_idea_status"] == {"refuted": 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"action": "propose", "claim": "x"}, "kind is one of ALGORITHMIC"),
        ({"action": "propose", "kind": "STRUCTURAL"}, "claim is empty"),
        ({"action": "propose", "kind": "STRUCTURAL", "claim": "x" * 2_001}, "claim: String should have at most 2000"),
        ({"action": "adopt"}, "propose one first"),
        ({"action": "trust", "reference": "a.cu"}, "trust is one of aligned"),
        ({"action": "forget"}, "action"),
        ({"idae": "idea-1"}, "did you mean 'idea'"),
    ],
)
async def test_a_wrong_call_is_told_what_is_wrong(tmp_path, run, arguments, said):
    async with connected(tmp_path, run=run.folder) as client:
        assert said in refusal(await client.call_tool("ideas", arguments))
    assert store.read(run).ideas == []


async def test_a_long_ledger_is_cut_to_what_every_client_shows(tmp_path, run):
    from hawkeye_mcp.runs import ideas
    from hawkeye_mcp.runs.idea import Proposal

    for number in range(40):
        text = f"{number} " + "words " * 300
        ideas.propose(run, Proposal(claim=text, evidence=text, kind="STRUCTURAL", falsifiable_as=text))
    async with connected(tmp_path, run=run.folder) as client:
        for tool in ("ideas", "run_state"):
            result = await client.call_tool(tool)
            found = data(result)
            assert found["truncated"]
            assert len(result.content[0].text) <= 11_000
        assert data(await client.call_tool("ideas"))["ideas"][-1]["id"] == "idea-40"


def test_a_server_is_pinned_to_its_run(tmp_path, run, capsys):
    found = server_options.parse(["--run", str(run.folder), "--state", str(tmp_path / "s")]).settings
    assert (found.run, found.workload, found.tpu) == (run.folder, "8p_GEMM", "v5e")
    same = ["--run", str(run.folder), "--state", str(tmp_path / "s"), "--workload", "8p_GEMM", "--tpu", "v5e"]
    assert server_options.parse(same).settings.workload == "8p_GEMM"
    for given, said in (
        (["--run", str(run.folder), "--workload", "12p_RMSNorm"], "is of 8p_GEMM, not 12p_RMSNorm"),
        (["--run", str(run.folder), "--tpu", "v6e"], "is of v5e, not v6e"),
        (["--run", str(tmp_path / "nope")], "holds no run"),
    ):
        with pytest.raises(SystemExit, match="2"):
            server_options.parse(given)
        assert said in capsys.readouterr().err

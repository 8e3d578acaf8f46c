"""A server whose judge is a registered host: what it keeps for itself, what goes over, and what it says when none does it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from fake_judge import FakeJudge
from hosting import TOKENS, served, way_to
from mcp import Client
from mcp.types import TextResourceContents
from serving import FAIL_AFTER_S, Waiting, connected, data, refusal
from small_workloads import write

from hawkeye_mcp import calllog, pool, server_options, workloads
from hawkeye_mcp.hosts import errors, health, judge, registry
from hawkeye_mcp.hosts.registry import Host
from hawkeye_mcp.sanitizer import run as sanitizer
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.versions import versions

GONE = Host(url="http://127.0.0.1:1")
pytestmark = pytest.mark.anyio


@asynccontextmanager
async def judging_on(folder: Path, hosts: dict[str, Host], **changed: Any) -> AsyncIterator[Client]:
    """A client of a server in `folder` that has these hosts for its judge."""
    folder.mkdir(exist_ok=True)
    opening: Any = SimpleNamespace(open=partial(judge.open_judge, hosts))
    async with connected(folder, opening, judge_hosts=tuple(hosts), **changed) as client:
        yield client


def verdicts(folder: Path) -> list[dict[str, Any]]:
    return [line for line in calllog.read(folder / "log" / "calls.jsonl") if line["event"] == "verdict"]


async def whole(client: Client, uri: str) -> dict[str, Any]:
    (part,) = (await client.read_resource(uri)).contents
    assert isinstance(part, TextResourceContents)
    return json.loads(part.text)


async def test_a_host_judges_and_all_else_stays_here(tmp_path: Path):
    here = tmp_path / "here"
    async with (
        served(tmp_path / "there", TOKENS, condition="full") as host,
        judging_on(here, {"tpu-1": host.host("alice")}, condition="none", max_evaluations=2) as client,
    ):
        kernel = "# fake: measured\n# fake: within 1.5"
        found = data(await client.call_tool("evaluate_kernel", {"source": kernel}))
        again = data(await client.call_tool("evaluate_kernel", {"source": kernel}))
        told = await whole(client, found["full"])
        spent = [
            data(await client.call_tool("evaluate_kernel", {"source": text}))["status"] for text in ("two", "three")
        ]
        assert host.judge.judged == [kernel, "two"]
    assert (found["status"], found["source"], found["speedup"]) == ("correct", "measured", 2.0)
    assert (again["cached"], again["evaluation_id"]) == (True, found["evaluation_id"])
    assert spent == ["correct", "budget_spent"]
    # The host may say everything; what the condition here withholds is withheld here.
    assert "taxonomy_rows" not in found
    assert "taxonomy_rows" not in told["diagnosis"]
    assert (told["judged_on"], told["isolation"]) == ("tpu-1", "rlimits")
    kept = pool.Pool(here / "state" / "pool.sqlite3").read(found["evaluation_id"])
    assert kept
    assert (kept.kernel, kept.evaluation.judged_on) == (kernel, "tpu-1")
    assert [(line["judged_on"], line["isolation"]) for line in verdicts(here)] == [("tpu-1", "rlimits")] * 3


async def test_profiles_and_the_sanitizers_findings_come_from_there_too(tmp_path: Path, monkeypatch):
    sanitized: list[str] = []

    async def sanitize(source: str, workload: Any, tpu: str, **_: Any) -> Sanitized:
        sanitized.append(source)
        return Sanitized(
            status="silent", message="Nothing.", next_step="Evaluate.", workload=workload.name, tpu=tpu,
            kernel_sha256="a" * 64, findings=[], checks=["static"], not_checked=[], isolation="of the host", stages_s={},
        )  # fmt: skip

    async with (
        served(tmp_path / "there") as host,
        judging_on(tmp_path / "here", {"tpu-1": host.host()}) as client,
    ):
        profile = data(await client.call_tool("profile", {"source": "p"}))
        assert (await whole(client, profile["full"]))["judged_on"] == "tpu-1"
        monkeypatch.setattr(sanitizer, "sanitize", sanitize)
        found = data(await client.call_tool("sanitize", {"source": "s"}))
        asked = [job.kind for job in host.jobs]
    assert (profile["status"], profile["predicted_us"]) == ("profiled", 50.0)
    assert (found["status"], found["isolation"]) == ("silent", "of the host")
    assert (host.judge.judged, sanitized, asked) == (["p"], ["s"], ["profile", "sanitize"])


async def test_stages_are_shown_and_a_call_that_is_cancelled_ends_the_work_there(tmp_path: Path):
    stages: list[str | None] = []
    seen = anyio.Event()

    class Watching(Waiting):
        async def _heartbeat(self, value: float, total: float | None, message: str | None) -> None:
            stages.append(message)
            if message == "verify":
                seen.set()

    async with (
        served(tmp_path / "there") as host,
        judging_on(tmp_path / "here", {"tpu-1": host.host()}) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(Watching(client, "evaluate_kernel", {"source": "# fake: stage verify\n# fake: hold"}))
        await seen.wait()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.fail_after(FAIL_AFTER_S):
            await host.judge.was_cancelled.wait()


async def test_the_next_host_does_what_one_leaves_in_the_middle(tmp_path: Path):
    async with (
        served(tmp_path / "b") as b,
        served(tmp_path / "a") as a,
        way_to(a.port) as way,
        judging_on(tmp_path / "here", {"gone": GONE, "a": way.host(), "b": b.host()}) as client,
        anyio.create_task_group() as tasks,
    ):
        b.judge.release.set()

        async def die() -> None:
            await a.judge.entered.wait()
            way.cut()

        tasks.start_soon(die)
        found = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold"}))
        assert (await whole(client, found["full"]))["judged_on"] == "b"
    assert found["status"] == "correct"


@pytest.mark.parametrize(
    ("kernel", "fields", "why"),
    [
        ("k", {"url": "http://127.0.0.1:1"}, "tpu-1 is left out: it cannot be reached"),
        ("k", {"token": "wrong-but-long-enough-a-token"}, "tpu-1 is left out: it does not take the token"),
        ("# fake: crash", {"token": TOKENS["alice"]}, "tpu-1 is left out: The judge itself failed."),
    ],
)
async def test_where_no_host_does_it_the_call_says_so_and_the_next_one_asks_again(tmp_path: Path, kernel, fields, why):
    here, hosts = tmp_path / "here", {"tpu-1": GONE}
    async with (
        served(tmp_path / "there", TOKENS) as host,
        judging_on(here, hosts, condition="none", max_evaluations=1) as client,
    ):
        hosts["tpu-1"] = Host(**({"url": host.url} | fields))
        found = data(await client.call_tool("evaluate_kernel", {"source": kernel}))
        profile = data(await client.call_tool("profile", {"source": kernel}))
        hosts["tpu-1"] = host.host("alice")
        later = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
    for answer in (found, profile):
        assert (answer["status"], answer["message"]) == ("harness_error", errors.NO_HOST)
        assert "`hawkeye hosts check`" in answer["next_step"]
    assert found["evaluations_left"] == 1
    assert (later["status"], later["evaluations_left"]) == ("correct", 0)
    assert why in verdicts(here)[0]["fault"]
    assert "None of the hosts did it (tpu-1)" in verdicts(here)[0]["fault"]
    assert verdicts(here)[0]["judged_on"] == "tpu-1"


async def test_a_sanitizer_that_no_host_runs_ends_the_call_alone(tmp_path: Path):
    async with judging_on(tmp_path, {"tpu-1": GONE}) as client:
        found = data(await client.call_tool("sanitize", {"source": "k"}))
        assert (await client.list_tools()).tools
    assert (found["status"], found["message"], found["checks"]) == ("failed", errors.NO_HOST, [])
    assert "`hawkeye hosts check`" in found["next_step"]


async def test_a_judgement_that_takes_a_host_too_long_is_a_timeout(tmp_path: Path):
    async with (
        served(tmp_path / "there", deadline_s=0.1) as host,
        judging_on(tmp_path / "here", {"tpu-1": host.host()}) as client,
    ):
        found = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold"}))
    assert (found["status"], "server's deadline" in found["message"]) == ("timeout", True)


async def test_work_that_somebody_cancels_there_is_done_by_the_next_host(tmp_path: Path):
    async with (
        served(tmp_path / "a") as a,
        served(tmp_path / "b") as b,
        judging_on(tmp_path / "here", {"a": a.host(), "b": b.host()}) as client,
        anyio.create_task_group() as tasks,
    ):
        b.judge.release.set()

        async def cancel() -> None:
            await a.judge.entered.wait()
            a.jobs[0].cancel()

        tasks.start_soon(cancel)
        found = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold"}))
    assert (found["status"], b.judge.judged) == ("correct", ["# fake: hold"])


async def test_a_verdict_of_another_machine_is_not_passed_off_as_of_these_hosts(tmp_path: Path):
    local, there = FakeJudge(), tmp_path / "there"
    async with served(there) as host:
        async with connected(tmp_path, local) as client:
            first = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        async with judging_on(tmp_path, {"tpu-1": host.host()}) as client:
            on_host = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        async with connected(tmp_path, local) as client:
            again = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        async with judging_on(tmp_path, {"tpu-1": host.host(), "tpu-2": GONE}) as client:
            also = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
    assert (local.judged, host.judge.judged) == (["k"], ["k"])
    assert [found["cached"] for found in (first, on_host, again, also)] == [False, False, True, True]
    assert first["evaluation_id"] == again["evaluation_id"]
    assert on_host["evaluation_id"] == also["evaluation_id"]


async def test_a_host_that_judges_otherwise_is_left_out(tmp_path: Path, monkeypatch):
    found = health.here(0, 0)
    assert judge.unlike(found) == ""
    older = found.model_copy(update={"versions": found.versions.model_copy(update={"libtpu": "1"})})
    assert judge.unlike(older) == (f"it has libtpu 1 (here {versions().libtpu}): install the same hawkeye-mcp on both")
    assert "the judge 0123456789ab (here" in judge.unlike(found.model_copy(update={"judge": "0123456789abcdef"}))
    assert "the judge of an older version" in judge.unlike(found.model_copy(update={"judge": ""}))

    async with served(tmp_path / "there") as host, judging_on(tmp_path / "here", {"old": host.host()}) as client:
        monkeypatch.setattr(judge, "versions", lambda: versions().model_copy(update={"jax": "9"}))
        answer = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        assert host.judge.judged == []
    assert (answer["status"], answer["message"]) == ("harness_error", errors.NO_HOST)
    assert "old is left out: it has jax" in verdicts(tmp_path / "here")[0]["fault"]


async def test_a_server_that_has_itself_for_a_host_says_so_and_does_not_ask_itself_for_ever(tmp_path: Path):
    async with served(tmp_path / "there", judge_hosts=("tpu-1", "tpu-2")) as host:
        async with judging_on(tmp_path / "here", {"other": host.host()}) as client:
            answer = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        assert host.judge.judged == []
    assert answer["status"] == "harness_error"
    fault = verdicts(tmp_path / "here")[0]["fault"]
    assert fault.startswith("other is left out: it leaves judging to its own hosts (tpu-1, tpu-2): register those here")


async def test_a_host_judges_anew_what_it_has_judged_and_shares_no_job(tmp_path: Path):
    subject, found = workloads.find("8p_GEMM"), list[str]()
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path, max_evaluations=4) as host:
            here = judge.AnyHost({"tpu-1": host.host()})

            async def ask(text: str) -> None:
                found.append((await here.evaluate(text, subject, "v5e")).id)

            await ask("k")
            await ask("k")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "# fake: hold")
                tasks.start_soon(ask, "# fake: hold")
                while len(host.jobs) < 4:
                    await anyio.lowlevel.checkpoint()
                host.judge.release.set()
    assert host.judge.judged == ["k", "k", "# fake: hold", "# fake: hold"]
    assert len(set(found)) == 4


async def test_a_search_looks_and_judges_on_the_host_but_has_no_estimates_of_it(tmp_path: Path):
    asked = {"source": "SPEEDUP = 2\n", "space": '{"parameters": {"SPEEDUP": [2, 4]}}'}
    async with (
        served(tmp_path / "there") as host,
        judging_on(tmp_path / "here", {"tpu-1": host.host()}, run=tmp_path / "run") as client,
    ):
        assert "choose grid, random or tpe" in refusal(await client.call_tool("autotune", asked))
        found = data(await client.call_tool("autotune", asked | {"strategy": "grid"}))
        done = [job.kind for job in host.jobs]
    assert (found["best"], found["best_us"], found["evaluations_left"]) == ({"SPEEDUP": 4}, 25.0, None)
    assert sorted(done) == ["evaluate", "evaluate", "profile", "profile"]


def test_the_command_line_names_registered_hosts(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("HAWKEYE_CONFIG", str(tmp_path / "config"))
    for name in ("tpu-1", "tpu-2"):
        registry.add(name, Host(url=f"http://{name}:8931"))
    where = ["--state", str(tmp_path), "--workspace", str(tmp_path)]
    found = server_options.parse([*where, "--judge-host", "all"])
    assert found.settings.judge_hosts == tuple(found.judge_hosts) == ("tpu-1", "tpu-2")
    assert server_options.parse(where).judge_hosts == {}
    for name, words in (("tpu-3", "There is no host 'tpu-3'. Did you mean"), ("", "names no host")):
        with pytest.raises(SystemExit) as ended:
            server_options.parse([*where, "--judge-host", name])
        assert (ended.value.code, words in capsys.readouterr().err) == (2, True)
    with pytest.raises(SystemExit):
        server_options.parse([*where, "--judge-host", "tpu-1", "--workload", write(tmp_path).reference])
    assert "A host takes only workloads that `hawkeye job import` wrote" in capsys.readouterr().err

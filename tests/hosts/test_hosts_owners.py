"""Who may call a server over HTTP, and whose jobs are whose."""

import json
import socket
from pathlib import Path

import anyio
import httpx2
import pytest
from hosting import TOKENS, Served, served
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from serving import ERAS, FAIL_AFTER_S, data, refusal

from hawkeye_mcp import calllog, http_transport, owners
from hawkeye_mcp.http_transport import CannotListen
from hawkeye_mcp.owners import BadTokens
from hawkeye_mcp.server_options import parse

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}


class As:
    """A client with an owner's token."""

    def __init__(self, server: Served, owner: str, mode: str) -> None:
        self.http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKENS[owner]}"})
        transport = streamable_http_client(f"{server.url}/mcp", http_client=self.http)
        self.client = Client(transport, mode=mode)

    async def __aenter__(self) -> Client:
        return await self.client.__aenter__()

    async def __aexit__(self, *raised: object) -> None:
        await self.client.__aexit__(*raised)
        await self.http.aclose()


STRANGERS = (
    None,
    "Bearer",
    "Bearer alice",
    TOKENS["alice"],
    f"Bearer {TOKENS['alice']}x",
    f"Bearer {TOKENS['alice'].upper()}",
    f"Bearer  {TOKENS['alice']}",
    f"Basic {TOKENS['alice']}",
    "Bearer \u00fc\u00df\u20ac".encode(),
    b"Bearer \xff\xfe",
    "Bearer " + "a" * 20_000,
)


@pytest.mark.anyio
async def test_without_a_known_token_nothing_is_answered(tmp_path: Path):
    answers = {}
    accept = {"Accept": "application/json, text/event-stream"}
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path, TOKENS) as server, httpx2.AsyncClient(base_url=server.url) as http:
            for header in STRANGERS:
                headers = {} if header is None else {"Authorization": header}
                answers[header] = [
                    await http.get("/health", headers=headers),
                    await http.post("/mcp", headers=headers | accept, json=INITIALIZE),
                    await http.get("/mcp", headers=headers | accept),
                ]
            known = await http.get("/health", headers={"Authorization": f"bearer {TOKENS['bob']}"})
    assert {header: [x.status_code for x in found] for header, found in answers.items()} == dict.fromkeys(
        STRANGERS, [401] * 3
    )
    every = [answer for found in answers.values() for answer in found]
    assert all(answer.headers["www-authenticate"].startswith("Bearer error=") for answer in every)
    assert not any(word in answer.text for answer in every for word in ("version", "alice", "tools"))
    assert known.status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_another_owners_job_does_not_exist_and_the_same_work_survives_the_others_cancel(tmp_path: Path, mode):
    arguments = {"source": "# fake: hold", "wait_s": 0}
    with anyio.fail_after(FAIL_AFTER_S):
        async with (
            served(tmp_path, TOKENS) as server,
            As(server, "alice", mode) as alice,
            As(server, "bob", mode) as bob,
        ):
            ours = data(await alice.call_tool("evaluate_kernel", arguments))["job_id"]
            await server.judge.entered.wait()
            theirs = data(await bob.call_tool("evaluate_kernel", arguments))["job_id"]
            again = data(await alice.call_tool("evaluate_kernel", arguments))["job_id"]
            looks = [
                refusal(await bob.call_tool("job", {"job_id": job_id, "action": action, "wait_s": 0}))
                for job_id in (ours, "job-0")
                for action in ("read", "wait", "cancel")
            ]
            still = data(await alice.call_tool("job", {"job_id": ours, "action": "read"}))["status"]
            cancelled = data(await alice.call_tool("job", {"job_id": ours, "action": "cancel"}))["status"]
            server.judge.release.set()
            done = data(await bob.call_tool("job", {"job_id": theirs}))
            known = data(await alice.call_tool("evaluate_kernel", arguments))
    assert ours == again != theirs
    assert {look.replace(ours, "job-0") for look in looks} == {looks[3]}
    assert (still, cancelled, done["status"]) == ("running", "cancelled", "correct")
    assert server.judge.cancelled == ["# fake: hold"]
    assert (known["cached"], known["evaluation_id"]) == (True, done["evaluation_id"])
    starts = [line for line in calllog.read(tmp_path / "log" / "calls.jsonl") if line["event"] == "call_start"]
    assert [line["owner"] for line in starts[:3]] == ["alice", "bob", "alice"]


@pytest.mark.anyio
async def test_two_owners_whose_kernels_are_alike_share_one_judgement(tmp_path: Path):
    found = {}
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path, TOKENS) as server:

            async def ask(owner: str) -> None:
                async with As(server, owner, "auto") as client:
                    found[owner] = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold"}))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "alice")
                await server.judge.entered.wait()
                tasks.start_soon(ask, "bob")
                while len(server.jobs) < 2:
                    await anyio.lowlevel.checkpoint()
                load = server.opened[0].jobs.load()
                server.judge.release.set()
    assert load == (1, 1)
    assert server.judge.judged == ["# fake: hold"]
    assert found["alice"]["evaluation_id"] == found["bob"]["evaluation_id"]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_another_owners_profile_cannot_be_read_nor_compared_with(tmp_path: Path, mode):
    with anyio.fail_after(FAIL_AFTER_S):
        async with (
            served(tmp_path, TOKENS) as server,
            As(server, "alice", mode) as alice,
            As(server, "bob", mode) as bob,
        ):
            job_id = data(await alice.call_tool("profile", {"source": "k"}))["job_id"]
            whole = (await alice.read_resource(f"profile://{job_id}")).contents[0].text
            against = refusal(await bob.call_tool("profile", {"source": "k", "against": job_id}))
            for path in ("", "/picture.png"):
                with pytest.raises(Exception, match=f"There is no profile '{job_id}'"):
                    await bob.read_resource(f"profile://{job_id}{path}")
    assert json.loads(whole)["status"] == "profiled"
    assert "holds no profile" in against


@pytest.mark.anyio
async def test_a_session_is_of_the_token_that_opened_it(tmp_path: Path):
    accept = {"Accept": "application/json, text/event-stream"}
    start = INITIALIZE | {
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    }
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path, TOKENS) as server, httpx2.AsyncClient(base_url=server.url, headers=accept) as http:
            mine = {"Authorization": f"Bearer {TOKENS['alice']}"}
            opened = await http.post("/mcp", headers=mine, json=start)
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            other = {"Authorization": f"Bearer {TOKENS['bob']}"}
            listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            found = [await http.post("/mcp", headers=who | session, json=listed) for who in (other, {}, mine)]
    assert [answer.status_code for answer in found] == [404, 401, 200]


@pytest.mark.anyio
async def test_health_tells_the_machine_and_its_load_and_only_by_this_machines_names(tmp_path: Path):
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path) as server, httpx2.AsyncClient(base_url=server.url) as http:
            async with Client(f"{server.url}/mcp") as client:
                await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0})
                await server.judge.entered.wait()
                busy = (await http.get("/health")).json()
            strange = [
                await http.get("/health", headers={"Host": "rebound.example:80"}),
                await http.get("/health", headers={"Origin": "https://page.example"}),
            ]
            posted = await http.post("/health")
    assert (busy["running"], busy["queued"], busy["versions"]["jax"]) == (1, 0, "0.10.2")
    assert busy["tpus"] == []
    assert [answer.status_code for answer in (*strange, posted)] == [421, 403, 405]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1"])
def test_without_tokens_nobody_elses_machine_is_listened_to(host, tmp_path: Path, capsys):
    with pytest.raises(CannotListen, match="nothing asks who calls. Give --token-file"):
        http_transport.listen(host, 0, guarded=False)
    with pytest.raises(SystemExit) as exited:
        parse(["--transport", "http", "--port", "0", "--host", host, "--state", str(tmp_path)])
    assert exited.value.code == 2
    assert "argument --host" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_this_machine_is_served_without_tokens_and_the_world_with_them(host, tmp_path: Path, monkeypatch):
    file = tmp_path / "tokens"
    file.write_text("".join(f"{owner} {token}\n" for owner, token in TOKENS.items()))
    file.chmod(0o600)
    common = ["--transport", "http", "--port", "0", "--state", str(tmp_path)]
    with http_transport.listen(host, 0, guarded=False) as listening:
        assert listening.family == socket.AF_INET
        assert listening.getsockname()[0].startswith("127.")
    options = parse([*common, "--host", "0.0.0.0", "--token-file", str(file)])
    options.listening.close()
    assert options.tokens == TOKENS
    monkeypatch.setenv("HAWKEYE_TOKENS_FILE", str(file))
    options = parse([*common, "--host", host])
    options.listening.close()
    assert options.tokens == TOKENS
    assert parse(["--state", str(tmp_path)]).tokens is None


LONG = "x" * 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no token"),
        ("# a comment\n\n", "holds no token"),
        ("alice\n", "line 1 is not `OWNER TOKEN`"),
        (f"alice {LONG} extra\n", "line 1 is not `OWNER TOKEN`"),
        (f"# ours\n\nalice {LONG}\nalice {LONG}y\n", "line 4: alice has a token already"),
        (f"alice {LONG}\nbob {LONG}\n", "line 2: another owner has the same token"),
        ("alice short\n", "line 1: a token has 20 ASCII characters or more"),
        (f"alice {LONG}\u00fc\n", "line 1: a token has 20 ASCII characters or more"),
        (f"a/b {LONG}\n", "'a/b' is no name for an owner"),
        (b"alice \xff\n", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_refused_and_no_token_shown(tmp_path: Path, capsys, text, said):
    file = tmp_path / "tokens"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadTokens) as found:
        owners.read(file)
    assert said in str(found.value)
    assert LONG not in str(found.value)
    with pytest.raises(SystemExit) as exited:
        parse(["--transport", "http", "--port", "0", "--token-file", str(file), "--state", str(tmp_path)])
    assert exited.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_tokens_are_for_http(tmp_path: Path, capsys):
    with pytest.raises(SystemExit):
        parse(["--token-file", "tokens", "--state", str(tmp_path)])
    assert "only with --transport http" in capsys.readouterr().err


def test_a_new_line_is_one_that_is_read_and_never_the_same(tmp_path: Path, caplog):
    file = tmp_path / "tokens"
    lines = [owners.new_line("alice"), owners.new_line("bob@lab-1")]
    file.write_text("\n".join(["# who may call", *lines]))
    file.chmod(0o640)
    tokens = owners.read(file)
    assert list(tokens) == ["alice", "bob@lab-1"]
    assert all(len(token) == 43 for token in tokens.values())
    assert owners.new_line("alice") != lines[0]
    assert "chmod 600" in caplog.text

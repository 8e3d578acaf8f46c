"""An imported workload goes to a host that takes such; what is no imported workload does not, and an owner's is nobody else's."""

import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream
from hosting import TOKENS, Served, served
from imported_workload import PYTHON, TOML, write
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from serving import FAIL_AFTER_S, connected, data, refusal, text

from hawkeye_mcp import calllog, state, workloads
from hawkeye_mcp.hosts import bundle, receiving, remote, sending, uploads
from hawkeye_mcp.hosts.connection import connect
from hawkeye_mcp.hosts.errors import HostFailed
from hawkeye_mcp.hosts.judge import AnyHost
from hawkeye_mcp.hosts.remote import Order
from hawkeye_mcp.intake import approval
from hawkeye_mcp.server_options import parse
from hawkeye_mcp.workloads import Workload

ASKS = TOML.replace("least_bytes", 'approval = "required"\nleast_bytes')


def mine(folder: Path, name: str = "mine", **files: Any) -> Workload:
    return workloads.find(f"{write(folder / name, **files)}/")


@asynccontextmanager
async def taking(folder: Path, **changed: Any) -> AsyncIterator[Served]:
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(
            folder, TOKENS, **({"workload": "", "tpu": "", "accept_workloads": True} | changed)
        ) as server:
            yield server


async def on(server: Served, owner: str, what: Any, kernel: str, workload: Workload, **fields: Any) -> Any:
    async with connect("tpu", server.host(owner), 60) as link:
        return await what(link, Order(kernel, workload, "v5e", **fields))


@asynccontextmanager
async def as_owner(server: Served, owner: str) -> AsyncIterator[tuple[Client, httpx2.AsyncClient]]:
    headers = {"Authorization": f"Bearer {TOKENS[owner]}"}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=None) as http:
        async with Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client:
            yield client, http


async def put(http: httpx2.AsyncClient, message: bytes, digest: str = "", **fields: Any) -> httpx2.Response:
    return await http.put(f"/workloads/{digest or bundle.digest(message)}", content=message, **fields)


def lines(folder: Path, *events: str) -> list[dict[str, Any]]:
    return [line for line in calllog.read(folder / "log" / "calls.jsonl") if line["event"] in events]


def kept(folder: Path, owner: str = "alice") -> list[str]:
    place = folder / "state" / uploads.FOLDER / owner
    return sorted(one.name for one in place.iterdir()) if place.exists() else []


@pytest.mark.anyio
async def test_a_workload_goes_there_once_and_kernels_are_judged_by_it(tmp_path: Path) -> None:
    workload, stages, by = mine(tmp_path / "here"), [], []
    digest = bundle.digest(bundle.packed(workload))
    async with taking(tmp_path / "there") as server:
        evaluate = server.judge.evaluate

        async def noted(source: str, of: Workload, tpu: str, **more: Any) -> Any:
            by.append(of)
            return await evaluate(source, of, tpu, **more)

        server.judge.evaluate = noted  # type: ignore[method-assign]
        found = await on(server, "alice", remote.evaluate, "k", workload, progress=stages.append)
        again = await on(server, "alice", remote.evaluate, "other", workload)
        looked = await on(server, "alice", remote.profile, "k", workload)
    assert (found.workload, found.status, again.status) == ("mine", "correct", "correct")
    assert (looked.workload, looked.status) == ("mine", "profiled")
    assert stages[0] == "sending the workload"
    assert kept(tmp_path / "there") == [digest]
    assert by[0].folder == tmp_path / "there" / "state" / "workloads" / "alice" / digest / "mine"
    assert [(by[0].folder / name).read_bytes() for name in ("workload.py", "workload.toml", "workload.npz")] == [
        (workload.folder / name).read_bytes() for name in ("workload.py", "workload.toml", "workload.npz")
    ]
    taken = lines(tmp_path / "there", "workload_taken")
    assert [(line["owner"], line["workload"], line["workload_sha256"]) for line in taken] == [("alice", "mine", digest)]
    judged = lines(tmp_path / "there", "submitted", "verdict")
    assert [line["workload_sha256"] for line in judged] == [digest] * 6


@pytest.mark.anyio
async def test_another_owners_workload_does_not_exist(tmp_path: Path) -> None:
    workload = mine(tmp_path / "here")
    message = bundle.packed(workload)
    name, unknown = bundle.reference(bundle.digest(message)), bundle.reference("0" * 64)
    async with taking(tmp_path / "there") as server, as_owner(server, "bob") as (bob, http):
        await on(server, "alice", remote.evaluate, "k", workload)
        answers: dict[str, list[str]] = {}
        for asked in (name, unknown):
            held = await http.get(f"/workloads/{asked.removeprefix('sha256:')}")
            tools = ("evaluate_kernel", "profile", "sanitize")
            told = [await bob.call_tool(tool, {"workload": asked, "source": "k"}) for tool in tools]
            told += [await bob.call_tool("read_workload", {"name": asked})]
            told += [await bob.call_tool("kernel_pool", {"workload": asked})]
            with pytest.raises(Exception, match="holds no workload") as missing:
                await bob.read_resource(f"workload://{asked}")
            words = [held.text, *map(refusal, told), str(missing.value)]
            answers[asked] = [one.replace(asked, "NAME") for one in words]
        assert answers[name] == answers[unknown]
        assert answers[name][0] == '{"held":false}'
        assert answers[name][1] == (
            "This server holds no workload NAME of yours. Send it first: commands with --host do."
        )
        assert (await put(http, message)).json() == {"held": True}
        assert "workload(x, ids, table, w)" in text(await bob.call_tool("read_workload", {"name": name}))
    assert kept(tmp_path / "there", "alice") == kept(tmp_path / "there", "bob") == [name.removeprefix("sha256:")]


@pytest.mark.anyio
async def test_workloads_of_one_name_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """The same kernel at the same time, by two that differ in their gate alone."""
    one = mine(tmp_path / "one")
    other = mine(tmp_path / "other", toml=TOML.replace("limit = 0.01", "limit = 0.02"))
    async with taking(tmp_path / "there") as server, as_owner(server, "alice") as (alice, http):
        names = []
        for workload in (one, other):
            message = bundle.packed(workload)
            await put(http, message)
            names.append(bundle.reference(bundle.digest(message)))
        held = {"source": "# fake: hold", "wait_s": 0}
        jobs = [data(await alice.call_tool("evaluate_kernel", held | {"workload": name})) for name in names]
        assert jobs[0]["job_id"] != jobs[1]["job_id"]
        server.judge.release.set()
        done = [data(await alice.call_tool("job", {"job_id": job["job_id"]})) for job in jobs]
        again = [data(await alice.call_tool("evaluate_kernel", held | {"workload": name})) for name in names]
        listed = [data(await alice.call_tool("kernel_pool", {"workload": name})) for name in names]
        looks = [data(await alice.call_tool("profile", {"source": "k", "workload": name})) for name in names]
        against = {"source": "k", "workload": names[1], "against": looks[0]["job_id"]}
        mixed = refusal(await alice.call_tool("profile", against))
        read = refusal(await alice.call_tool("job", {"job_id": looks[1]["job_id"], "against": looks[0]["job_id"]}))
        alike = data(await alice.call_tool("profile", against | {"workload": names[0]}))
    assert len(server.judge.judged) == 2 + 2 + 1
    assert [found["evaluation_id"] for found in again] == [found["evaluation_id"] for found in done]
    assert done[0]["evaluation_id"] != done[1]["evaluation_id"]
    assert [[entry["id"] for entry in found["predicted"]] for found in listed] == [
        [found["evaluation_id"]] for found in done
    ]
    assert "is of another workload that is called mine too" in mixed
    assert mixed == read
    assert alike["ratios"]


@pytest.mark.anyio
async def test_a_server_takes_none_unless_it_is_told_to(tmp_path: Path, monkeypatch: Any) -> None:
    workload = mine(tmp_path / "here")
    message = bundle.packed(workload)
    async with (
        taking(tmp_path / "there", accept_workloads=False) as server,
        as_owner(server, "alice") as (client, http),
    ):
        with pytest.raises(HostFailed, match="it was started without --accept-workloads. Ask its operator") as failed:
            await on(server, "alice", remote.evaluate, "k", workload)
        assert (await put(http, message)).status_code == 403
        asked = {"workload": bundle.reference(bundle.digest(message)), "source": "k"}
        assert "There is no workload 'sha256:" in refusal(await client.call_tool("evaluate_kernel", asked))
        monkeypatch.setattr(bundle, "PATH", "/of-an-older-server/")
        with pytest.raises(HostFailed, match=r"takes no workloads \(HTTP 404\): its hawkeye-mcp is an older one"):
            await on(server, "alice", remote.evaluate, "k", workload)
    assert failed.value.kind == "refused"
    assert not (tmp_path / "there" / "state" / "workloads").exists()
    assert server.judge.judged == []


@pytest.mark.anyio
async def test_that_workloads_are_taken_changes_nothing_that_clients_see(tmp_path: Path) -> None:
    seen = []
    for accept in (False, True):
        async with connected(tmp_path, workload="", accept_workloads=accept) as client:
            told = [await client.list_tools(), await client.list_resources(), await client.list_prompts()]
            seen.append([one.model_dump_json() for one in told] + [client.instructions])
    assert seen[0] == seen[1]


@pytest.mark.anyio
async def test_only_who_may_call_the_server_may_send_it_anything(tmp_path: Path) -> None:
    message = bundle.packed(mine(tmp_path / "here"))
    path = f"/workloads/{bundle.digest(message)}"
    async with taking(tmp_path / "there") as server, httpx2.AsyncClient(base_url=server.url, timeout=None) as http:
        strangers = [None, "Bearer", f"Bearer {TOKENS['alice']}x", f"Basic {TOKENS['alice']}"]
        for header in strangers:
            headers = {"Authorization": header} if header else {}
            assert (await put(http, message, headers=headers)).status_code == 401
            assert (await http.get(path, headers=headers)).status_code == 401
        alice = {"Authorization": f"Bearer {TOKENS['alice']}"}
        page = [
            await put(http, message, headers=alice | {"Origin": "https://page.example"}),
            await put(http, message, headers=alice | {"Host": "rebound.example:80"}),
            await http.post(path, headers=alice, content=message),
            await http.delete(path, headers=alice),
        ]
    assert [answer.status_code for answer in page] == [403, 421, 405, 405]
    assert not (tmp_path / "there" / "state" / "workloads").exists()


def packed(name: str = "mine", python: str = PYTHON, toml: str = TOML, **more: bytes) -> bytes:
    """What a client that looks at nothing sends, without the arrays."""
    files = {"workload.py": python.encode(), "workload.toml": toml.encode()} | more
    return json.dumps(
        {"name": name, "files": {key: base64.b64encode(of).decode() for key, of in files.items()}}
    ).encode()


HOSTILE: dict[str, tuple[bytes, int, str]] = {
    "code": (packed(python=PYTHON + "import os\n"), 422, "something else than the functions"),
    "code in a draw": (packed(python=PYTHON.replace("minval=-1.0", "minval=open(1)")), 422, "a Call where a number"),
    "written by hand": (packed(toml=TOML.replace('"imported"', '"mine"')), 422, "no imported workload"),
    "no arrays": (packed(), 422, "workload.npz cannot be read"),
    "a pickle": (packed(**{"workload.npz": b"\x80\x04]."}), 422, "workload.npz cannot be read"),
    "a damaged declaration": (packed(toml=TOML + "["), 422, "cannot be read"),
    "a shipped name": (packed(name="12p_RMSNorm"), 422, "the name of a workload that is shipped"),
    "a path for a name": (packed(name="../mine"), 422, "no workload of a form"),
    "a hidden name": (packed(name=".mine"), 422, "no workload of a form"),
    "a long name": (packed(name="x" * 101), 422, "no workload of a form"),
    "another file": (packed(**{"evil.py": b""}), 422, "no workload of a form"),
    "a path for a file": (packed(**{"../workload.py": b""}), 422, "no workload of a form"),
    "compiled code": (packed(**{"__pycache__/workload.cpython-311.pyc": b""}), 422, "no workload of a form"),
    "a file too long": (packed(**{"approved.json": b"x" * 70_000}), 413, "approved.json has 70000 bytes"),
    "no json": (b"\xff", 422, "no workload of a form"),
    "deep json": (b"[" * 100_000, 422, "no workload of a form"),
    "another form": (b'{"name": "mine"}', 422, "no workload of a form"),
    "no declaration": (b'{"name": "mine", "files": {"workload.py": ""}}', 422, "it has no workload.toml"),
    "nothing": (b"", 422, "no workload of a form"),
}


@pytest.mark.anyio
async def test_what_is_no_imported_workload_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    found = {}
    async with taking(tmp_path / "there") as server, as_owner(server, "alice") as (_, http):
        for what, (message, _, _) in HOSTILE.items():
            answer = await put(http, message)
            found[what] = (answer.status_code, answer.json()["error"])
        other = await put(http, packed(), digest="0" * 64)
        paths = [await http.put(f"/workloads/{name}", content=b"") for name in ("x", "%2e%2e", "A" * 64)]
    for what, (_, status, words) in HOSTILE.items():
        assert (found[what][0], words in found[what][1]) == (status, True), f"{what}: {found[what]}"
        assert str(tmp_path) not in found[what][1]
    assert (other.status_code, "its SHA-256 is another" in other.text) == (422, True)
    assert [answer.status_code for answer in paths] == [404] * 3
    assert kept(tmp_path / "there") == []
    refused = lines(tmp_path / "there", "workload_refused")
    assert len(refused) == len(HOSTILE) + 1


@pytest.mark.anyio
async def test_a_message_that_is_too_long_too_slow_or_cut_is_not_taken(tmp_path: Path, monkeypatch: Any) -> None:
    message = bundle.packed(mine(tmp_path / "here"))
    monkeypatch.setattr(bundle, "LARGEST_BYTES", len(message) - 1)

    async def parts() -> AsyncIterator[bytes]:
        yield message[:100]
        yield message[100:]

    async def half(server: Served) -> SocketStream:
        stream = await anyio.connect_tcp("127.0.0.1", server.port)
        head = f"PUT /workloads/{'0' * 64} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 4000\r\n"
        await stream.send(f"{head}Authorization: Bearer {TOKENS['alice']}\r\n\r\nhalf".encode())
        return stream

    async with taking(tmp_path / "there") as server, as_owner(server, "alice") as (_, http):
        told = [await put(http, message), await http.put(f"/workloads/{bundle.digest(message)}", content=parts())]
        await (await half(server)).aclose()
        while len(lines(tmp_path / "there", "workload_refused")) < 3:
            await anyio.lowlevel.checkpoint()
        monkeypatch.setattr(receiving, "_ARRIVES_IN_S", 0.2)
        async with await half(server) as stream:
            slow = await stream.receive()
        with pytest.raises(sending.NotSendable, match=f"makes a message of {len(message)} bytes, and hosts take"):
            sending.message(mine(tmp_path / "here"))
    assert [answer.status_code for answer in told] == [413, 413]
    assert slow.startswith(b"HTTP/1.1 408 ")
    assert kept(tmp_path / "there") == []
    why = [line["why"].split(".")[0] for line in lines(tmp_path / "there", "workload_refused")]
    assert why[2:] == ["The message ended in the middle", "The message did not arrive within 0"]


@pytest.mark.anyio
async def test_nothing_is_scored_that_nobody_approved(tmp_path: Path) -> None:
    workload = mine(tmp_path / "here", toml=ASKS)
    arrays = (workload.folder / "workload.npz").read_bytes()
    shown = approval.texts(workload.folder)
    forged = approval.Approval(sha256=approval.hashes(shown | {"workload.py": b""}), when="now").model_dump_json()
    async with taking(tmp_path / "there") as server, as_owner(server, "alice") as (_, http):
        with pytest.raises(HostFailed, match="no person has approved it"):
            await on(server, "alice", remote.evaluate, "k", workload)
        given = {"workload.npz": arrays}
        told = [
            await put(http, packed(toml=ASKS, **given)),
            await put(http, packed(toml=ASKS, **given, **{"approved.json": forged.encode()})),
            await put(http, packed(toml=ASKS, **given, **{"approved.json": b"{}"})),
            await put(http, packed(**given, **{"approved.json": forged.encode()})),
        ]
        assert kept(tmp_path / "there") == []
        approval.approve(workload.folder, shown)
        found = await on(server, "alice", remote.evaluate, "k", workload)
    assert [answer.status_code for answer in told] == [422] * 4
    words = ["no person has approved it", "changed after it was approved", "cannot be read", "is no part of mine"]
    assert all(said in answer.text for said, answer in zip(words, told, strict=True)), [one.text for one in told]
    assert all("hawkeye job approve" in answer.text for answer in told[:3])
    assert found.status == "correct"


def test_what_no_host_may_have_is_refused_before_one_is_asked(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine", python=PYTHON.replace("import jax\n", "import jax, os\n"))
    with pytest.raises(
        sending.NotSendable, match="takes only workloads that `hawkeye job import` wrote.*does not begin"
    ):
        sending.message(workloads.find(f"{tmp_path / 'mine'}/"))
    with pytest.raises(sending.NotSendable, match="that it would have to trust. It would refuse"):
        sending.message(workloads.load("12p_RMSNorm"))


def taken(folder: Path, number: int, owner: str = "alice") -> Path:
    """Keep another workload; its folder."""
    message = bundle.packed(mine(folder / "here", f"w{number}"))
    return uploads.take(folder, owner, bundle.digest(message), message).folder.parent


def test_of_too_many_the_one_that_is_not_in_use_goes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(uploads, "MOST_KEPT", 3)
    folders = [taken(tmp_path, number) for number in range(3)]
    of_another = taken(tmp_path, 7, "bob")
    with pytest.raises(uploads.Refused, match="keeps 3 workloads of one owner, and all are in use") as refused:
        taken(tmp_path, 3)
    assert refused.value.status == 507
    for folder in (folders[0], folders[1], of_another):
        os.utime(folder, (1, 1))
    assert uploads.find(tmp_path, "alice", folders[0].name) is not None  # in use from now on
    fourth = taken(tmp_path, 3)
    assert [folder.exists() for folder in (*folders, fourth, of_another)] == [True, False, True, True, True]


def test_taking_it_again_changes_nothing_and_what_a_killed_server_left_goes(tmp_path: Path) -> None:
    folder = taken(tmp_path, 0)
    left = folder.parent / ".new-999999999-x"
    left.mkdir()
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}
    assert taken(tmp_path, 0) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()} == before
    assert [one.name for one in folder.parent.iterdir()] == [folder.name]


@pytest.mark.anyio
async def test_a_server_that_cannot_write_says_so_and_goes_on(tmp_path: Path, monkeypatch: Any) -> None:
    workload = mine(tmp_path / "here")
    async with taking(tmp_path / "there") as server:
        with monkeypatch.context() as full:

            def fails(*_: object, **__: object) -> None:
                raise OSError(28, "No space left on device")

            full.setattr(state, "write_atomically", fails)
            with pytest.raises(HostFailed, match="its disk is full, or fails. Tell its operator"):
                await on(server, "alice", remote.evaluate, "k", workload)
        assert kept(tmp_path / "there") == []
        assert (await on(server, "alice", remote.evaluate, "k", workload)).status == "correct"


@pytest.mark.anyio
async def test_sent_twice_at_once_it_is_there_once(tmp_path: Path) -> None:
    message, answers = bundle.packed(mine(tmp_path / "here")), []
    async with taking(tmp_path / "there") as server, as_owner(server, "alice") as (_, http):

        async def send() -> None:
            answers.append((await put(http, message)).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(send)
    assert answers == [200] * 4
    assert kept(tmp_path / "there") == [bundle.digest(message)]


@pytest.mark.anyio
async def test_without_tokens_what_was_sent_is_everybodys_on_this_machine(tmp_path: Path) -> None:
    workload = mine(tmp_path / "here")
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path / "there", workload="", accept_workloads=True) as server:
            found = await on(server, "", remote.evaluate, "k", workload)
    assert found.status == "correct"
    assert kept(tmp_path / "there", "_") == [bundle.digest(bundle.packed(workload))]


@pytest.mark.anyio
async def test_a_server_whose_judge_is_a_host_sends_it_on(tmp_path: Path) -> None:
    workload = mine(tmp_path / "here")
    async with taking(tmp_path / "there") as server:
        found = await AnyHost({"tpu": server.host("alice")}).evaluate("k", workload, "v5e")
    assert (found.status, found.workload, found.judged_on) == ("correct", "mine", "tpu")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--accept-workloads"], "only with --transport http"),
        (
            ["--accept-workloads", "--transport", "http", "--workload", "8p_GEMM"],
            "a server of one workload judges no other",
        ),
    ],
)
def test_where_workloads_cannot_be_sent_the_option_is_wrong(
    arguments: list[str], said: str, tmp_path: Path, capsys: Any
):
    with pytest.raises(SystemExit) as exited:
        parse([*arguments, "--state", str(tmp_path)])
    assert exited.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())

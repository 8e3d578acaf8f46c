"""A judgement on a host: the whole result comes back, work that nobody waits for ends, and every failure has its words."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from hosting import TOKENS, order, served, stand_in_for_ssh, way_to
from serving import FAIL_AFTER_S

from hawkeye_mcp import pool, workloads
from hawkeye_mcp.evaluation import Evaluation, Versions
from hawkeye_mcp.hosts import choosing, remote
from hawkeye_mcp.hosts.choosing import NoHost
from hawkeye_mcp.hosts.connection import Link, connect
from hawkeye_mcp.hosts.errors import HostFailed
from hawkeye_mcp.hosts.health import Health
from hawkeye_mcp.hosts.registry import Host
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.sanitizer import run as sanitizer
from hawkeye_mcp.sanitizer.model import Finding, NotChecked, Sanitized

MEASURED = "# fake: measured\n# fake: within 1.5"


async def on(host: Host, what: Any, asked: remote.Order, silence_s: float = 60.0) -> Any:
    with anyio.fail_after(FAIL_AFTER_S):
        async with connect("tpu", host, silence_s) as link:
            return await what(link, asked)


async def failure(host: Host, what: Any, asked: remote.Order) -> HostFailed:
    with pytest.raises(HostFailed) as failed:
        await on(host, what, asked)
    return failed.value


@pytest.mark.anyio
async def test_the_whole_verdict_comes_back_and_its_stages_before(tmp_path: Path):
    async with served(tmp_path, TOKENS) as server:

        def progress(stage: str) -> None:
            if stage == "verify":  # or it would never end
                server.judge.release.set()

        kernel = f"{MEASURED}\n# fake: stage verify\n# fake: hold"
        asked = remote.Order(kernel, workloads.load("8p_GEMM"), "v5e", progress)
        found = await on(server.host("alice"), remote.evaluate, asked)
        again = await on(server.host("bob"), remote.evaluate, asked)
        kept = pool.Pool(tmp_path / "state" / "pool.sqlite3").read(found.id).evaluation
    assert isinstance(found, Evaluation)
    assert found == again == kept
    assert (found.timing.source, found.timing.speedup_interval) == ("measured", (2 / 1.5, 3))


@pytest.mark.anyio
@pytest.mark.parametrize("status", ["incorrect", "rejected", "compile_error", "timeout"])
async def test_other_verdicts_come_back_whole_too(tmp_path: Path, status):
    async with served(tmp_path) as server:
        found = await on(server.host(), remote.evaluate, order(f"# fake: {status}\n# fake: huge"))
    assert found.status == status
    assert len(found.compiler_message) > 50_000


@pytest.mark.anyio
async def test_a_profile_that_no_answer_of_a_tool_could_hold_comes_back_whole(tmp_path: Path):
    async with served(tmp_path) as server:
        found = await on(server.host(), remote.profile, order("# fake: huge"))
    assert isinstance(found, Profile)
    assert len(found.counters) == 900
    assert found.findings[0].taxonomy_row == "01_mxu_feed"


@pytest.mark.anyio
async def test_what_the_sanitizer_finds_comes_back(tmp_path: Path, monkeypatch):
    whole = Sanitized(
        status="findings",
        message="One defect.",
        next_step="Mend it.",
        workload="8p_GEMM",
        tpu="v5e",
        kernel_sha256="a" * 64,
        findings=[Finding(kind="race", line=None, message="m", on_tpu="t", advice="a")],
        checks=["static", "races"],
        not_checked=[NotChecked(check="dma", reason="no copies: none by hand")],
        isolation="bubblewrap",
        stages_s={},
    )

    async def sanitize(*_: Any, **__: Any) -> Sanitized:
        return whole

    monkeypatch.setattr(sanitizer, "sanitize", sanitize)
    async with served(tmp_path) as server:
        assert await on(server.host(), remote.sanitize, order("k")) == whole


async def _cancelled(server: Any, tasks: TaskGroup, asked: remote.Order, host: Host) -> None:
    """Ask, and stop asking when the kernel is being judged and `asked` was told so."""
    tasks.start_soon(on, host, remote.evaluate, asked)
    await server.judge.entered.wait()


@pytest.mark.anyio
async def test_work_that_is_not_waited_for_any_more_ends_on_the_host(tmp_path: Path):
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path, TOKENS) as server:
            async with anyio.create_task_group() as tasks:
                await _cancelled(server, tasks, order("# fake: hold"), server.host("alice"))
                tasks.cancel_scope.cancel()
            await server.judge.was_cancelled.wait()


@pytest.fixture
def third_wait(monkeypatch) -> anyio.Event:
    """Set when a job that outlasts every wait is waited for the third time."""
    waits, third, call = [], anyio.Event(), remote._call

    async def watched(client: Any, tool: str, *rest: Any) -> Any:
        waits.append(tool)
        if waits == ["evaluate_kernel", "job", "job"]:
            third.set()
        return await call(client, tool, *rest)

    monkeypatch.setattr(remote, "_WAIT_S", 0.01)
    monkeypatch.setattr(remote, "_call", watched)
    return third


@pytest.mark.anyio
async def test_so_does_work_whose_job_was_handed_out(tmp_path: Path, third_wait):
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path, TOKENS) as server:
            async with anyio.create_task_group() as tasks:
                await _cancelled(server, tasks, order("# fake: hold"), server.host("alice"))
                await third_wait.wait()
                tasks.cancel_scope.cancel()
            await server.judge.was_cancelled.wait()
    assert server.judge.cancelled == ["# fake: hold"]


@pytest.mark.anyio
async def test_a_long_judgement_is_waited_for(tmp_path: Path, third_wait):
    found: list[Evaluation] = []
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path) as server, anyio.create_task_group() as tasks:

            async def ask() -> None:
                found.append(await on(server.host(), remote.evaluate, order("# fake: hold")))

            tasks.start_soon(ask)
            await third_wait.wait()
            server.judge.release.set()
    assert found[0].status == "correct"


@pytest.mark.anyio
async def test_work_that_somebody_else_cancels_has_no_verdict(tmp_path: Path):
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path) as server, anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await server.judge.entered.wait()
                server.jobs[0].cancel()

            tasks.start_soon(cancel)
            with pytest.raises(remote.NoVerdict, match="cancelled before it had a result") as ended:
                await on(server.host(), remote.evaluate, order("# fake: hold"))
    assert ended.value.status == "cancelled"


@pytest.mark.anyio
async def test_a_judgement_beyond_the_servers_deadline_has_no_verdict(tmp_path: Path):
    async with served(tmp_path, deadline_s=0.1) as server:
        with pytest.raises(remote.NoVerdict, match="No result within the server's deadline") as ended:
            await on(server.host(), remote.evaluate, order("# fake: hold"))
    assert ended.value.status == "timeout"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kernel", "changed", "kind", "words"),
    [
        ("# fake: crash", {}, "judge", "its log says why"),
        ("# fake: harness_error", {}, "judge", "its log says why"),
        ("k", {"workload": "12p_RMSNorm"}, "refused", "judges only the workload '12p_RMSNorm', not '8p_GEMM'"),
        ("k", {"tpu": "v6e"}, "refused", "judges only for v6e"),
    ],
)
async def test_a_host_that_cannot_do_it_says_why(tmp_path: Path, kernel, changed, kind, words):
    async with served(tmp_path, **changed) as server:
        failed = await failure(server.host(), remote.evaluate, order(kernel))
    assert failed.kind == kind
    assert words in str(failed)
    assert "secret inside" not in str(failed)


@pytest.mark.anyio
async def test_a_host_without_budget_is_told_of(tmp_path: Path):
    async with served(tmp_path, max_evaluations=1) as server:
        await on(server.host(), remote.evaluate, order("one"))
        failed = await failure(server.host(), remote.evaluate, order("two"))
    assert (failed.kind, "All 1 evaluations are spent" in str(failed)) == ("refused", True)


@pytest.mark.anyio
async def test_a_host_that_dies_in_the_middle_is_told_of_at_once(tmp_path: Path):
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path) as server, way_to(server.port) as way, anyio.create_task_group() as tasks:

            async def die() -> None:
                await server.judge.entered.wait()
                way.cut()

            tasks.start_soon(die)
            failed = await failure(way.host(), remote.evaluate, order("# fake: hold"))
    assert failed.kind in ("lost", "unreachable")
    assert "the connection ended in the middle" in str(failed)


@pytest.mark.anyio
async def test_a_host_that_falls_silent_in_the_middle_is_given_up(tmp_path: Path):
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path) as server, way_to(server.port) as way, anyio.create_task_group() as tasks:

            async def fall_silent() -> None:
                await server.judge.entered.wait()
                way.stop()

            tasks.start_soon(fall_silent)
            failed = await failure(way.host(), remote.evaluate, order("# fake: hold", silence_s=0.3))
            tasks.cancel_scope.cancel()  # a slow machine may have been as silent before
    assert (failed.kind, str(failed)) == ("silent", "nothing was heard of it for 0.3 s")


@pytest.mark.anyio
async def test_a_host_that_never_answers_is_given_up(tmp_path: Path):
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path) as server, way_to(server.port) as way:
            way.stop()
            async with connect("tpu", way.host(timeout_s=0.2), 60) as link:
                with pytest.raises(HostFailed, match="no answer within 0.2 s"):
                    await link.health()
            failed = await failure(way.host(timeout_s=0.2), remote.evaluate, order("k"))
    assert failed.kind == "silent"


@pytest.mark.anyio
async def test_a_token_is_taken_from_where_it_is(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("HERE", raising=False)
    for name, value in {"WRONG": "x" * 30, "STRANGE": "\u00fc" * 30, "RIGHT": TOKENS["bob"]}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "line").write_text(f"bob {TOKENS['bob']}\n")
    refused = {
        "none": ({}, "it asks for a token: `hawkeye hosts add none ... --token-env NAME`"),
        "wrong": ({"token": "alice-has-this-long-tokex"}, "it does not take the token (in this registry)"),
        "unset": ({"token_env": "HERE"}, "the environment variable HERE holds no token"),
        "another": ({"token_env": "WRONG"}, "it does not take the token ($WRONG)"),
        "strange": ({"token_env": "STRANGE"}, "the environment variable STRANGE holds no token"),
        "absent": ({"token_file": "/nowhere"}, "the file with its token cannot be read"),
    }
    taken = {
        "kept": {"token": TOKENS["alice"]},
        "variable": {"token_env": "RIGHT"},
        "file": {"token_file": str(tmp_path / "line")},
    }
    fields = taken | {name: given for name, (given, _) in refused.items()}
    async with served(tmp_path / "a", TOKENS) as server:
        found = await choosing.asked({name: server.host(**given) for name, given in fields.items()})
    assert all(isinstance(found[name], Health) for name in taken)
    for name, (_, words) in refused.items():
        failed = found[name]
        assert isinstance(failed, HostFailed)
        assert (failed.kind, words in str(failed)) == ("token", True), f"{name}: {failed}"
        assert "tokex" not in str(failed)


@pytest.mark.anyio
async def test_what_is_no_server_of_ours_is_told_apart(tmp_path: Path):
    async def answer(stream: Any) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        found = (await choosing.asked({"a": Host(url=f"http://127.0.0.1:{port}")}))["a"]
        tasks.cancel_scope.cancel()
    assert isinstance(found, HostFailed)
    assert (found.kind, "is no hawkeye-mcp that tells its health (HTTP 200)" in str(found)) == ("stranger", True)
    gone = (await choosing.asked({"a": Host(url="http://127.0.0.1:1")}))["a"]
    assert isinstance(gone, HostFailed)
    assert gone.kind == "unreachable"


def _newer(whole: dict[str, Any]) -> dict[str, Any]:
    whole["timing"]["energy_j"] = 3
    whole["timing"]["ops"][0]["stalls"] = {"dma": 1}
    return whole | {"signature": "x"}


@pytest.mark.anyio
@pytest.mark.parametrize("change", [_newer, lambda whole: whole | {"status": "miraculous"}, lambda whole: [whole]])
async def test_an_answer_of_a_newer_server_is_read_as_far_as_it_can_be(tmp_path: Path, monkeypatch, change):
    told: list[str] = []
    whole = remote._whole

    async def newer(*given: Any) -> Any:
        return change(await whole(*given))

    async with served(tmp_path) as server:
        plain = await on(server.host(), remote.evaluate, order("k"))
        monkeypatch.setattr(remote, "_whole", newer)
        if change is _newer:
            assert await on(server.host(), remote.evaluate, order("k", told)) == plain
        else:
            failed = await failure(server.host(), remote.evaluate, order("k"))
            assert (failed.kind, "update the older one" in str(failed)) == ("stranger", True)
    lost = "signature, timing.energy_j, timing.ops.stalls"
    assert told == (
        [f"tpu also told what this version does not know, and what is left out here: {lost}"] if told else []
    )
    assert bool(told) == (change is _newer)


# --- several hosts


async def where(link: Link, health: Health) -> str:
    return link.name


@pytest.mark.anyio
async def test_the_less_loaded_host_does_it_and_of_equals_the_first(tmp_path: Path):
    told: list[str] = []
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path / "a") as a, served(tmp_path / "b") as b, anyio.create_task_group() as tasks:
            hosts = {"a": a.host(), "b": b.host()}
            assert await choosing.on_one_of(hosts, where, told.append) == "a"
            assert await choosing.on_one_of(dict(reversed(hosts.items())), where, told.append) == "b"
            tasks.start_soon(on, a.host(), remote.evaluate, order("# fake: hold"))
            await a.judge.entered.wait()
            assert await choosing.on_one_of(hosts, where, told.append) == "b"
            tasks.start_soon(on, b.host(), remote.evaluate, order("# fake: hold"))
            await b.judge.entered.wait()
            tasks.start_soon(on, b.host(), remote.profile, order("# fake: hold"))
            while len(b.judge.judged) < 2:
                await anyio.lowlevel.checkpoint()
            assert await choosing.by_load(hosts, told.append) == ["a", "b"]
            tasks.cancel_scope.cancel()
    assert told == []


@pytest.mark.anyio
async def test_a_host_that_fails_is_left_out_and_the_next_one_does_it(tmp_path: Path):
    told: list[str] = []
    with anyio.fail_after(FAIL_AFTER_S):
        async with (
            served(tmp_path / "b") as b,
            served(tmp_path / "a") as a,
            way_to(a.port) as way,
            anyio.create_task_group() as tasks,
        ):
            b.judge.release.set()

            async def die() -> None:
                await a.judge.entered.wait()
                way.cut()

            tasks.start_soon(die)
            hosts = {"gone": Host(url="http://127.0.0.1:1"), "a": way.host(), "b": b.host()}

            async def work(link: Link, health: Health) -> tuple[str, Evaluation]:
                return link.name, await remote.evaluate(link, order("# fake: hold"))

            name, found = await choosing.on_one_of(hosts, work, told.append)
    assert (name, found.status) == ("b", "correct")
    assert [line.split(":")[0] for line in told] == ["gone is left out", "a is left out"]
    assert "the connection ended in the middle" in told[1]


@pytest.mark.anyio
async def test_if_none_does_it_that_is_told_with_what_to_do():
    told: list[str] = []
    with pytest.raises(NoHost, match="`hawkeye hosts check`"):
        await choosing.on_one_of(
            {"a": Host(url="http://127.0.0.1:1"), "b": Host(url="http://127.0.0.1:2")}, where, told.append
        )
    assert [line.split(":")[0] for line in told] == ["a is left out", "b is left out"]


def test_other_versions_are_told():
    ours = choosing.versions()
    assert choosing.differences("a", ours) == ""
    assert choosing.differences("a", ours.model_copy(update={"libtpu": "9", "hawkeye": "8"})) == (
        f"a has hawkeye 8 (here {ours.hawkeye}), libtpu 9 (here {ours.libtpu}): its figures and ours need not agree"
    )
    assert isinstance(ours, Versions)


# --- tunnels


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.anyio
async def test_through_a_tunnel_all_is_as_without(tmp_path: Path, monkeypatch):
    log = stand_in_for_ssh(tmp_path, monkeypatch)
    async with served(tmp_path / "a", TOKENS) as server:
        host = Host(ssh="me@tpu-vm", port=server.port, token=TOKENS["alice"], timeout_s=60)
        found = await on(host, remote.evaluate, order("k"))
        assert found.status == "correct"
    called = json.loads(log.read_text())
    assert called["mode"] == 0o700
    words = " ".join(called["arguments"])
    assert called["arguments"][-2:] == ["--", "me@tpu-vm"]
    for said in ("-N", "ExitOnForwardFailure=yes", "ServerAliveInterval=15", "BatchMode=yes", "ControlPath=none"):
        assert said in words
    socket = Path(called["arguments"][called["arguments"].index("-L") + 1].split(":")[0])
    assert not socket.parent.exists()
    with anyio.fail_after(FAIL_AFTER_S):
        while runs(called["pid"]):  # killed, it needs a moment to end
            await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("variables", "timeout_s", "words"),
    [
        (
            {"SSH_SAYS": "ssh: connect to host tpu-vm port 22: refused"},
            60,
            "ssh: connect to host tpu-vm port 22: refused",
        ),
        ({"SSH_HANGS": "1"}, 0.3, "ssh made no tunnel within 0.3 s"),
    ],
)
async def test_a_tunnel_that_is_not_made_is_told_in_sshs_words(tmp_path, monkeypatch, variables, timeout_s, words):
    stand_in_for_ssh(tmp_path, monkeypatch, **variables)
    failed = await failure(Host(ssh="me@tpu-vm", timeout_s=timeout_s), remote.evaluate, order("k"))
    assert failed.kind == "tunnel"
    assert str(failed) == f"{words}; does `ssh me@tpu-vm true` work without a password?"


@pytest.mark.anyio
async def test_a_tunnel_to_where_nobody_listens_is_told_of(tmp_path: Path, monkeypatch):
    stand_in_for_ssh(tmp_path, monkeypatch)
    found = (await choosing.asked({"a": Host(ssh="tpu-vm", port=1, timeout_s=60)}))["a"]
    assert isinstance(found, HostFailed)
    assert "nothing answers at port 1 of its 127.0.0.1" in str(found)


@pytest.mark.anyio
async def test_without_ssh_a_tunnel_is_refused_with_what_to_do(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    failed = await failure(Host(ssh="tpu-vm"), remote.evaluate, order("k"))
    assert (failed.kind, "install OpenSSH, or register the host's URL" in str(failed)) == ("tunnel", True)

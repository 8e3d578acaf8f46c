"""`hawkeye hosts` and --host, against two server processes: one that asks for tokens and one that does not."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosting import TOKENS
from small_workloads import write
from typer.testing import CliRunner

from hawkeye_mcp import cli
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.hosts import remote
from hawkeye_mcp.hosts.errors import HostFailed
from hawkeye_mcp.judge import evaluate as judging
from hawkeye_mcp.versions import versions

SERVER = Path(__file__).parents[1] / "fake_judge_server.py"


class Process:
    def __init__(self, folder: Path, *arguments: str) -> None:
        folder.mkdir()
        paths = ["--workspace", str(folder), "--state", str(folder / "state"), "--transport", "http", "--port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), *paths, *arguments],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = self.until(r"serving on (http://127\.0\.0\.1:\d+)/mcp")[1]

    def until(self, words: str) -> re.Match[str]:
        """The first line of the server's stderr with these words, from here on."""
        for line in self.process.stderr:
            if found := re.search(words, line):
                return found
        raise AssertionError(f"the server ended without {words!r}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Process]]:
    folder = tmp_path_factory.mktemp("servers")
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{owner} {token}\n" for owner, token in TOKENS.items()))
    tokens.chmod(0o600)
    found = Process(folder / "guarded", "--token-file", str(tokens)), Process(folder / "open")
    yield found
    for server in found:
        server.end()


@pytest.fixture(autouse=True)
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAWKEYE_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(judging, "open_judge", None)  # what is judged here would fail
    file = tmp_path / "k.py"
    file.write_text(f"# fake: within 1.5\n# {tmp_path}")
    return file


def run(*arguments: object, **options: object):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], **options)


def add(*arguments: object, **options: object) -> None:
    result = run("hosts", "add", *arguments, **options)
    assert result.exit_code == 0, result.stderr


def test_hosts_are_added_listed_checked_and_removed_and_no_token_is_shown(servers, tmp_path):
    guarded, free = servers
    add("guarded", "--url", f"{guarded.url}/mcp", "--read-token", input=f"alice {TOKENS['alice']}\n")
    add("free", "--url", free.url)
    gone = run("hosts", "add", "gone", "--url", "http://127.0.0.1:1", "--timeout", 5)
    assert (gone.exit_code, "gone: http://127.0.0.1:1, added" in gone.stdout) == (0, True)
    assert "it cannot be reached" in gone.stderr
    listed = run("hosts", "list")
    found = json.loads(run("hosts", "list", "--json").stdout)
    assert [host["name"] for host in found] == ["guarded", "free", "gone"]
    assert [host["token"] for host in found] == ["in this registry", "none", "none"]
    assert found[0]["address"] == guarded.url
    machine = found[0]["facts"]["machine"]
    assert machine["versions"] == versions().model_dump()
    assert machine["cpus"] == len(os.sched_getaffinity(0))
    assert (found[2]["facts"], found[2]["timeout_s"]) == (None, 5)
    assert "unknown" in listed.stdout
    checked = run("hosts", "check", "--json")
    assert checked.exit_code == 1
    assert [host["answers"] for host in json.loads(checked.stdout)] == [True, True, False]
    assert [host["running"] for host in json.loads(checked.stdout)] == [0, 0, None]
    assert run("hosts", "check", "guarded,free").exit_code == 0
    assert run("hosts", "remove", "gone").stdout == "gone: removed\n"
    assert [host["name"] for host in json.loads(run("hosts", "list", "--json").stdout)] == ["guarded", "free"]
    shown = [gone.output, listed.output, checked.output, json.dumps(found), run("hosts", "check").output]
    assert not any(TOKENS["alice"] in text for text in shown)


def test_a_kernel_is_judged_there_and_shown_as_if_here(servers, kernel, monkeypatch):
    guarded, _ = servers
    monkeypatch.setenv("TPU_TOKEN", TOKENS["bob"])
    add("tpu-1", "--url", guarded.url, "--token-env", "TPU_TOKEN")
    common = ("--workload", "8p_GEMM", "--kernel", kernel, "--host", "tpu-1")
    text, whole = run("evaluate", *common), run("evaluate", *common, "--json")
    assert (text.exit_code, whole.exit_code) == (0, 0)
    assert "speedup 2 [1.33 to 3]" in text.stdout
    assert "tpu-1" not in whole.stdout
    evaluation = Evaluation.model_validate_json(whole.stdout)
    assert (evaluation.status, evaluation.workload, evaluation.tpu) == ("correct", "8p_GEMM", "v5e")
    assert f"tpu-1 ({guarded.url}; no TPU): predicted" in text.stderr
    kernel.write_text("# fake: incorrect")
    assert run("evaluate", *common).exit_code == 1


def test_a_profile_and_its_comparison_and_picture_come_from_there(servers, kernel, tmp_path):
    _, free = servers
    add("tpu-1", "--url", free.url)
    other = tmp_path / "other.py"
    other.write_text("# fake: speedup 4")
    common = ("profile", "--workload", "8p_GEMM", "--kernel", kernel, "--host", "tpu-1")
    both = run(*common, "--compare", other, "--png", tmp_path / "p.png", "--json")
    assert both.exit_code == 0, both.stderr
    assert json.loads(both.stdout)["ratios"]["predicted_us"] == 0.5
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "Profiled." in run(*common).stdout


def test_one_of_several_that_answers_does_it(servers, kernel):
    guarded, free = servers
    add("guarded", "--url", guarded.url)  # its token is not known here
    add("gone", "--url", "http://127.0.0.1:1")
    add("free", "--url", free.url)
    found = run("evaluate", "--workload", "8p_GEMM", "--kernel", kernel, "--host", "all", "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["status"] == "correct"
    lines = found.stderr.splitlines()
    assert lines[0].startswith("guarded is left out: it asks for a token")
    assert lines[1].startswith("gone is left out: it cannot be reached")
    assert lines[2] == f"free ({free.url}; no TPU): predicted"
    none = run("evaluate", "--workload", "8p_GEMM", "--kernel", kernel, "--host", "guarded,gone")
    assert (none.exit_code, none.stdout) == (3, "")
    assert none.stderr.splitlines()[-1].startswith("None of the hosts did it (guarded, gone). `hawkeye hosts check`")


def test_a_search_is_looked_at_there_and_kept_here(servers, kernel, tmp_path):
    _, free = servers
    add("gone", "--url", "http://127.0.0.1:1")
    add("tpu-1", "--url", free.url)
    kernel.write_text(f"SPEEDUP = 2\n# fake: within 1.1\n# {tmp_path}\n")
    common = ["autotune", "--workload", "8p_GEMM", "--kernel", kernel, "--param", "SPEEDUP=1,2,4"]
    common += ["--run-dir", tmp_path / "search", "--host", "gone,tpu-1"]
    first, again = run(*common, "--json"), run(*common, "--json")
    assert (first.exit_code, again.exit_code) == (0, 0), first.stderr
    found = json.loads(first.stdout)
    assert (found["strategy"], found["best"]["parameters"], found["from_store"]) == ("grid", {"SPEEDUP": 4}, 0)
    assert json.loads(again.stdout)["from_store"] == 3
    assert "SPEEDUP = 4\n" in (tmp_path / "search" / "best_kernel.py").read_text()
    lines = first.stderr.splitlines()
    assert lines[0].startswith("gone is left out: it cannot be reached")
    assert lines[-1] == f"tpu-1 ({free.url}; no TPU) looked at them"
    refused = run(*common, "--strategy", "halving")
    assert (refused.exit_code, "a host makes no estimates" in refused.stderr) == (2, True)


def test_a_host_that_goes_in_the_middle_of_a_search_is_told(servers, kernel, tmp_path, monkeypatch):
    _, free = servers
    add("tpu-1", "--url", free.url)
    kernel.write_text(f"SPEEDUP = 2\n# {tmp_path}\n")

    async def gone(*_: object) -> None:
        raise HostFailed("unreachable", "it went away")

    monkeypatch.setattr(remote, "profile", gone)
    common = ["autotune", "--workload", "8p_GEMM", "--kernel", kernel, "--param", "SPEEDUP=1,2", "--host", "tpu-1"]
    found = run(*common, "--run-dir", tmp_path / "search")
    assert (found.exit_code, found.stdout) == (3, "")
    assert "tpu-1 is left out: it went away" in found.stderr


def test_work_that_ends_without_a_verdict_is_told_with_its_exit_code(servers, kernel, monkeypatch):
    _, free = servers
    add("tpu-1", "--url", free.url)

    async def ended(*_: object) -> None:
        raise remote.NoVerdict("timeout", "No result in time.", "Make it shorter.")

    monkeypatch.setattr(remote, "evaluate", ended)
    common = ("evaluate", "--workload", "8p_GEMM", "--kernel", kernel, "--host", "tpu-1")
    text, whole = run(*common), run(*common, "--json")
    assert (text.exit_code, text.stdout) == (1, "timeout  8p_GEMM on v5e\nNo result in time.\nNext: Make it shorter.\n")
    assert json.loads(whole.stdout)["next_step"] == "Make it shorter."


def test_ctrl_c_here_ends_the_work_there(servers, kernel):
    guarded, _ = servers
    add("tpu-1", "--url", guarded.url, "--read-token", input=TOKENS["alice"])
    kernel.write_text("# fake: print\n# fake: hold")
    command = [sys.executable, "-m", "hawkeye_mcp.cli", "evaluate", "--workload", "8p_GEMM", "--kernel", str(kernel)]
    started = subprocess.Popen([*command, "--host", "tpu-1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    guarded.until("a stray line on stdout")
    started.send_signal(signal.SIGINT)
    out, err = started.communicate()
    assert (started.returncode, out) == (130, "")
    assert err == "Stopped by SIGINT; nothing was judged, and the work there was cancelled.\n"
    guarded.until("fake judge cancelled")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evaluate", "--host", "tpu"), "There is no host 'tpu'. Did you mean tpu-1?"),
        (
            ("evaluate", "--workload", "./mine/", "--host", "tpu-1"),
            "takes only workloads that `hawkeye job import` wrote, since another is code",
        ),
        (("sanitize", "--only", "races", "--host", "tpu-1"), "a host runs all checks"),
        (("hosts", "add", "x"), "a host has either a URL or an ssh target"),
        (("hosts", "add", "x", "--url", "tpu:1"), "is no URL of a server"),
        (("hosts", "add", "x", "--url", "http://a", "--port", "1"), "only with --ssh"),
        (("hosts", "add", "x", "--ssh", "-oX"), "is no SSH target"),
        (("hosts", "add", "x", "--ssh", "a", "--port", "70000"), "port"),
        (("hosts", "add", "x", "--ssh", "a", "--port", "0"), "port"),
        (("hosts", "add", "x", "--ssh", "a", "--timeout", "0"), "timeout_s"),
        (("hosts", "add", "x", "--ssh", "a", "--token-env", "mKq-the-token-itself"), "token_env"),
        (("hosts", "add", "x", "--ssh", "a", "--timeout", "-1"), "timeout_s"),
        (("hosts", "add", "x", "--ssh", "a", "--token-env", "A", "--token-file", "b"), "a host has one token"),
        (("hosts", "add", "x", "--ssh", "a", "--read-token"), "stdin held no token"),
        (("hosts", "add", "all", "--ssh", "a"), "is no name for a host"),
        (("hosts", "add", "x", "--url", "http://127.0.0.1:1"), "registered already, as tpu-1"),
        (("hosts", "remove", "x"), "There is no host 'x'"),
        (("hosts", "check", "x"), "There is no host 'x'"),
        (("hosts", "token", "a/b"), "is no name for an owner"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_right(kernel, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    if "./mine/" in arguments:
        write(tmp_path)
    add("tpu-1", "--url", "http://127.0.0.1:1")
    if arguments[0] != "hosts":
        arguments += ("--kernel", kernel)
        arguments += () if "--workload" in arguments else ("--workload", "8p_GEMM")
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_a_damaged_registry_is_told_of_by_every_command(kernel, tmp_path):
    file = tmp_path / "config" / "hosts.json"
    file.parent.mkdir()
    file.write_text("{")
    for arguments in (("list",), ("check",), ("remove", "a"), ("add", "a", "--ssh", "b")):
        result = run("hosts", *arguments)
        assert (result.exit_code, result.stdout) == (3, "")
        assert "was left as it is" in result.stderr
    assert run("evaluate", "--workload", "8p_GEMM", "--kernel", kernel, "--host", "a").exit_code == 2
    assert file.read_text() == "{"


def test_a_token_that_would_go_over_a_network_openly_is_warned_of():
    warned = run("hosts", "add", "a", "--url", "http://192.0.2.1:1", "--token-env", "PATH", "--timeout", 0.01)
    quiet = run("hosts", "add", "b", "--url", "https://192.0.2.1:1", "--token-env", "PATH", "--timeout", 0.01)
    assert (warned.exit_code, "unencrypted: use https, or --ssh" in warned.stderr) == (0, True)
    assert "unencrypted" not in quiet.stderr

"""The public conformance suite and the inspector's command line against the server; run by `make test-clients`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from raw_server import FAKE, PATIENCE_S

pytestmark = pytest.mark.clients
ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".clients" / "protocol" / "node_modules"
FIXTURES = [sys.executable, str(Path(__file__).with_name("fixture_server.py"))]
# What neither build offers: logging is deprecated and goes to stderr, and nothing here changes while it is subscribed to
# or is worth completing.
NOT_OFFERED = [
    *("logging-set-level", "tools-call-with-logging", "completion-complete", "resources-subscribe"),
    *("resources-unsubscribe", "elicitation-sep1330-enums"),
]
# Scenarios that ask for tools, resources and prompts of fixed names, which only the build with fixtures has.
FIXED_NAMES = [
    *("tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content"),
    *("tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults"),
    *("resources-read-text", "resources-read-binary", "resources-templates-read", "prompts-get-simple"),
    *("prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image"),
]


def program(name: str) -> Path:
    """A program of others that `make test-protocol` installs, or the test is skipped."""
    found = PROGRAMS / ".bin" / name
    if not found.exists():
        pytest.skip(f"{found.relative_to(ROOT)} is not installed: run `make test-protocol`")
    return found


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a client with the newer node that came with it, and a home of its own."""
    environment = os.environ | {
        "HOME": str(folder),
        "PATH": f"{PROGRAMS / 'node' / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    environment["PYTHONPATH"] = str(ROOT / "tests")
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env=environment,
        check=False,
    )


@contextmanager
def served(folder: Path, server: list[str]) -> Iterator[str]:
    """The address of a server over HTTP, which ends with the block."""
    words = [*server, "--transport", "http", "--port", "0", "--workspace", folder, "--state", folder / "state"]
    with (folder / "stdout").open("wb") as stdout:
        process = subprocess.Popen(
            [str(word) for word in words],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        )
    assert process.stderr
    try:
        for line in process.stderr:
            if found := re.search(r"serving on (\S+)", line):
                break
        else:
            raise AssertionError("the server did not start")
        # what it logs from here on must not fill the pipe
        with subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL) as drain:
            yield found[1]
            process.terminate()
            assert process.wait(PATIENCE_S) == 128 + 15
            drain.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert (folder / "stdout").read_bytes() == b""


def conformance(folder: Path, url: str, expected_failures: list[str]) -> dict[str, bool]:
    """Whether each scenario passed; the suite's own exit code says that those and only those failed."""
    listed = folder / "expected.yml"
    listed.write_text("server:\n" + "".join(f"  - {name}\n" for name in expected_failures))
    out = folder / "results"
    done = run(folder, program("conformance"), "server", "--url", url, "-o", out, "--expected-failures", listed)
    lines = re.findall(r"^([✓✗]) ([\w-]+): \d+ passed, \d+ failed", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout[-4000:]
    return {name: mark == "✓" for mark, name in lines}


def test_the_suite_passes_but_for_what_the_server_does_not_offer(tmp_path):
    program("conformance")
    with served(tmp_path, FIXTURES) as url:
        found = conformance(tmp_path, url, NOT_OFFERED)
    assert {name for name, passed in found.items() if not passed} == set(NOT_OFFERED)
    assert len(found) >= 30


def test_the_servers_own_build_fails_only_where_a_fixture_is_asked_for(tmp_path):
    program("conformance")
    with served(tmp_path, FAKE) as url:
        found = conformance(tmp_path, url, NOT_OFFERED + FIXED_NAMES)
    assert {name for name, passed in found.items() if not passed} == {*NOT_OFFERED, *FIXED_NAMES}
    assert {name for name, passed in found.items() if passed} >= {
        "server-initialize",
        "ping",
        "tools-list",
        "prompts-list",
    }


@pytest.fixture(params=["stdio", "http"])
def inspect(request, tmp_path) -> Iterator[Any]:
    """Run the inspector's command line against the server over one transport: (method and options) -> what it did."""
    inspector = program("mcp-inspector")
    pins = ["--tpu", "v5e", "--workload", "8p_GEMM"]
    if request.param == "http":
        with served(tmp_path, [*FAKE, *pins]) as url:
            yield lambda *words: run(tmp_path, inspector, "--cli", url, "--transport", "http", *words)
        return
    config = tmp_path / "servers.json"
    words = [*FAKE[1:], *pins, "--workspace", str(tmp_path), "--state", str(tmp_path / "state")]
    entry = {"type": "stdio", "command": FAKE[0], "args": words, "env": {"PYTHONPATH": str(ROOT / "tests")}}
    config.write_text(json.dumps({"mcpServers": {"hawkeye": entry}}))
    yield lambda *words: run(tmp_path, inspector, "--cli", "--config", config, "--server", "hawkeye", *words)


def answered(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_calls_and_reads(inspect, era):
    of = ("--protocol-era", era)
    tools = answered(inspect(*of, "--method", "tools/list", "--strict"))[
        "tools"
    ]  # exit 6 for a schema that is not portable
    assert {"evaluate_kernel", "profile", "job"} <= {tool["name"] for tool in tools}
    called = ("--method", "tools/call", "--tool-name", "evaluate_kernel", "--tool-arg", "source=# kernel")
    assert answered(inspect(*of, *called))["structuredContent"]["status"] == "correct"
    resources = answered(inspect(*of, "--method", "resources/list"))["resources"]
    assert "workload://8p_GEMM" in [resource["uri"] for resource in resources]
    read = answered(inspect(*of, "--method", "resources/read", "--uri", "workload://8p_GEMM"))
    assert "8p_GEMM" in read["contents"][0]["text"]
    prompts = answered(inspect(*of, "--method", "prompts/list"))["prompts"]
    assert [prompt["name"] for prompt in prompts] == ["optimize_kernel"]
    prompt = answered(inspect(*of, "--method", "prompts/get", "--prompt-name", "optimize_kernel"))
    assert "8p_GEMM" in json.dumps(prompt)


def test_the_inspector_tells_an_error_of_a_tool_from_a_failure(inspect):
    done = inspect("--method", "tools/call", "--tool-name", "evaluate_kernel", "--tool-arg", "sorce=x")
    assert done.returncode == 5
    assert "did you mean" in done.stdout + done.stderr


def test_under_load_every_call_is_answered(inspect):
    of = (
        "--method",
        "tools/call",
        "--tool-name",
        "read_workload",
        "--load",
        "--load-requests",
        "200",
        "--load-concurrency",
        "8",
    )
    found = answered(inspect(*of))
    assert (found["ok"], found["errors"], found["toolErrors"]) == (200, 0, 0)

"""Each registration in the real client: it reads our file, knows our limits, and starts our server.

A scratch home for each, so that nothing of the machine's own settings takes part; no model is called.
"""

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from client_runs import ROOT, installed

from hawkeye_mcp import clients

pytestmark = pytest.mark.clients

CONFIGS = ROOT / "agent_configs"
PLUGIN = CONFIGS / "claude_code_plugin/.claude-plugin"
LIMIT_MS = clients.CALL_LIMIT_S * 1000
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
}


class Client:
    """A client's program in a project and a home of its own, with `hawkeye-mcp` on its PATH."""

    def __init__(self, program: str, tmp_path: Path) -> None:
        self.home, self.project = tmp_path / "home", tmp_path / "project"
        for folder in (self.home, self.project):
            folder.mkdir()
        path = os.pathsep.join([str(Path(program).parent), str(ROOT / ".venv/bin"), os.environ["PATH"]])
        self._env = {"HOME": str(self.home), "PATH": path, "TERM": "dumb", **QUIET}

    def run(self, line: str, code: int = 0) -> str:
        """stdout and stderr of a shell line in the project, which is to end with the code."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.project,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def read(self, line: str) -> object:
        """The JSON that a shell line prints."""
        return json.loads(self.run(f"{line} 2>/dev/null"))


@pytest.fixture
def claude(tmp_path):
    return Client(installed("node_modules/.bin/claude"), tmp_path)


@pytest.fixture
def codex(tmp_path):
    return Client(installed("node_modules/.bin/codex"), tmp_path)


@pytest.fixture
def gemini(tmp_path):
    client = Client(installed("node_modules/.bin/gemini"), tmp_path)
    # Without it no server of the project is started.
    (client.home / ".gemini").mkdir()
    trusted = {str(client.project): "TRUST_FOLDER"}
    (client.home / ".gemini/trustedFolders.json").write_text(json.dumps(trusted))
    return client


def test_claude_code_reads_the_file_with_its_limit(claude):
    (claude.project / ".mcp.json").write_text((CONFIGS / "claude_code/.mcp.json").read_text())
    told = claude.run("claude mcp get hawkeye")
    assert "Command: hawkeye-mcp" in told
    assert "Args: --tpu v5e" in told
    assert f"Timeout: {LIMIT_MS}ms" in told


def test_claude_code_is_connected_by_the_one_line(claude):
    claude.run(clients.command("claude_code"))
    assert "hawkeye: hawkeye-mcp --tpu v5e - ✔ Connected" in claude.run("claude mcp list")


def test_the_plugin_would_be_taken_by_the_catalog(claude):
    told = claude.read(f"claude plugin validate --profile directory --json '{PLUGIN / 'plugin.json'}'")
    assert told["success"]
    assert told["manifest"]["errors"] == told["manifest"]["warnings"] == []
    assert [one["name"] for one in told["provides"]["mcpServers"]] == ["hawkeye"]
    assert [one["code"] for one in told["directory"]["findings"]] == ["ICON_MISSING"]  # a warning; it has none


def test_the_marketplace_is_valid_and_a_misspelt_key_would_not_be(claude):
    told = claude.read(f"claude plugin validate --strict --json '{PLUGIN / 'marketplace.json'}'")
    assert (told["success"], told["strict"], told["manifest"]["type"]) == (True, True, "marketplace")
    wrong = claude.project / ".claude-plugin/marketplace.json"
    wrong.parent.mkdir()
    wrong.write_text((PLUGIN / "marketplace.json").read_text().replace('"plugins"', '"plugin"'))
    assert "plugins" in claude.run(f"claude plugin validate --strict '{wrong}'", code=1)


def test_the_plugin_is_installed_and_connected_by_the_one_line(claude):
    claude.run(clients.command("claude_code_plugin", tpu="v6e", condition="none"))
    (plugin,) = [one for one in claude.read("claude plugin list --json") if one["id"] == "hawkeye@hawkeye"]
    assert plugin["enabled"]
    server = plugin["mcpServers"]["hawkeye"]
    assert server["args"] == ["--tpu", "v6e", "--condition", "none"]
    assert (server["timeout"], server["alwaysLoad"]) == (LIMIT_MS, True)
    assert "hawkeye-mcp --tpu v6e --condition none - ✔ Connected" in claude.run("claude mcp list")


def test_codex_reads_the_file_with_its_limits(codex):
    (codex.home / ".codex").mkdir()
    (codex.home / ".codex/config.toml").write_text((CONFIGS / "codex/config.toml").read_text())
    (server,) = codex.read("codex mcp list --json")
    assert (server["name"], server["enabled"]) == ("hawkeye", True)
    assert (server["transport"]["command"], server["transport"]["args"]) == ("hawkeye-mcp", ["--tpu", "v5e"])
    assert (server["startup_timeout_sec"], server["tool_timeout_sec"]) == (clients.START_LIMIT_S, clients.CALL_LIMIT_S)


def test_codex_knows_every_key_of_the_file(codex):
    """A provider without its key ends the run after the file is read, before anything is sent."""
    provider = (
        'model_providers.keyless={name="k",base_url="http://127.0.0.1:9",wire_api="responses",env_key="NO_SUCH_KEY"}'
    )
    line = f"codex exec --strict-config --skip-git-repo-check -c model_provider=keyless -c '{provider}' hello"
    text = (CONFIGS / "codex/config.toml").read_text()
    (codex.home / ".codex").mkdir()
    (codex.home / ".codex/config.toml").write_text(text.replace("required", "requird"))
    assert "unknown configuration field `mcp_servers.hawkeye.requird`" in codex.run(line, code=1)
    (codex.home / ".codex/config.toml").write_text(text)
    told = codex.run(line, code=1)
    assert "unknown configuration field" not in told
    assert "Missing environment variable: `NO_SUCH_KEY`" in told


def test_codex_takes_the_one_line(codex):
    codex.run(clients.command("codex"))
    written = tomllib.loads((codex.home / ".codex/config.toml").read_text())["mcp_servers"]["hawkeye"]
    assert written == {"command": "hawkeye-mcp", "args": ["--tpu", "v5e"]}


def test_gemini_cli_connects_to_what_the_file_says(gemini):
    (gemini.project / ".gemini").mkdir()
    (gemini.project / ".gemini/settings.json").write_text((CONFIGS / "gemini_cli/settings.json").read_text())
    told = gemini.run("gemini mcp list")
    assert "hawkeye: hawkeye-mcp --tpu v5e (stdio) - Connected" in told
    assert "invalid" not in told.lower()


def test_gemini_cli_writes_our_file_from_the_one_line(gemini):
    gemini.run(clients.command("gemini_cli"))
    written = json.loads((gemini.project / ".gemini/settings.json").read_text())
    assert written == json.loads((CONFIGS / "gemini_cli/settings.json").read_text())


def test_openhands_knows_every_key_of_the_file(tmp_path):
    """By the SDK's own model of a server, which refuses what it does not know."""
    openhands = Client(installed("openhands/bin/python"), tmp_path)
    (openhands.project / "read.py").write_text(
        "import json, sys\n"
        "from openhands.sdk.mcp.config import MCPServer\n"
        "found = MCPServer.model_validate(json.load(open(sys.argv[1]))['mcpServers']['hawkeye'])\n"
        "print(json.dumps([found.command, found.args]))\n"
    )
    told = openhands.run(f"python read.py '{CONFIGS / 'openhands/mcp.json'}'")
    assert json.loads(told.splitlines()[-1]) == ["hawkeye-mcp", ["--tpu", "v5e"]]

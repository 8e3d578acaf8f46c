import json
import runpy
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from hawkeye_mcp import clients, content, submissions
from hawkeye_mcp.tools import answering, arguments

ARGUMENTS = ["--tpu", "v5e"]
SERVER = {"command": "hawkeye-mcp", "args": ARGUMENTS}


def committed(client: str, file: str) -> Path:
    return content.folder("agent_configs") / client / file


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_committed_files_are_what_render_gives(client: str) -> None:
    folder = content.folder("agent_configs") / client
    assert {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()} == clients.render(client)


def test_every_folder_has_a_client() -> None:
    folders = [p.name for p in content.folder("agent_configs").iterdir() if p.is_dir()]
    assert sorted(folders) == sorted(clients.CLIENTS)


def test_claude_code_waits_and_shows_the_tools() -> None:
    server = json.loads(committed("claude_code", ".mcp.json").read_text())["mcpServers"]["hawkeye"]
    assert server == SERVER | {"type": "stdio", "env": {}, "timeout": 900_000, "alwaysLoad": True}


def test_codex_requires_the_server_and_waits() -> None:
    text = committed("codex", "config.toml").read_text()
    server = tomllib.loads(text)["mcp_servers"]["hawkeye"]
    assert server == SERVER | {"startup_timeout_sec": 60, "tool_timeout_sec": 900, "required": True}
    allowed = tomllib.loads(text.replace("# enabled_tools", "enabled_tools"))["mcp_servers"]["hawkeye"]
    assert "evaluate_kernel" in allowed["enabled_tools"]


def test_openhands_has_the_file_and_the_sdk_form() -> None:
    assert json.loads(committed("openhands", "mcp.json").read_text()) == {"mcpServers": {"hawkeye": SERVER}}
    assert runpy.run_path(str(committed("openhands", "agent.py")))["MCP_CONFIG"] == {"hawkeye": SERVER}


def test_cursor_and_vscode_differ_in_their_outer_key() -> None:
    assert json.loads(committed("cursor", "mcp.json").read_text()) == {"mcpServers": {"hawkeye": SERVER}}
    stdio = SERVER | {"type": "stdio"}
    assert json.loads(committed("vscode", "mcp.json").read_text()) == {"servers": {"hawkeye": stdio}}


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_readme_shows_each_client_and_its_one_line(client: str) -> None:
    readme = (content.folder("agent_configs") / "README.md").read_text(encoding="utf-8")
    assert f"```sh\n{clients.command(client)}\n```" in readme
    known = clients.CLIENTS[client]
    assert f"| {known.title} | `{client}/` | `{known.goes_to}` | {known.limit} |" in readme


def test_readme_tells_the_bounds_of_a_wait() -> None:
    readme = " ".join((content.folder("agent_configs") / "README.md").read_text(encoding="utf-8").split())
    assert f"({answering.DEFAULT_WAIT_S:g} s unless asked otherwise)" in readme
    assert (
        f"to {answering.CAUTIOUS_WAIT_S:g} s, and to {answering.LONGEST_WAIT_S:g} s for Claude Code and Codex" in readme
    )


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_command_passes_chip_and_condition_as_single_words(client: str) -> None:
    words = clients.command(client, tpu="7x", condition="taxonomy").replace('"', " ").replace(",", " ").split()
    assert [w.strip("[]{}'") for w in words if w.strip("[]{}'") in {"7x", "--condition", "taxonomy"}] == [
        *("7x", "--condition", "taxonomy")
    ]


def test_cursor_line_writes_the_file(tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", clients.command("cursor")], cwd=tmp_path, check=True)
    assert json.loads((tmp_path / ".cursor/mcp.json").read_text()) == {"mcpServers": {"hawkeye": SERVER}}


def test_vscode_line_passes_one_json_argument() -> None:
    *start, argument = shlex.split(clients.command("vscode"))
    assert start == ["code", "--add-mcp"]
    assert json.loads(argument) == SERVER | {"name": "hawkeye", "type": "stdio"}


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_condition_reaches_the_server_and_hides_its_tools(client: str) -> None:
    text = "".join(clients.render(client, tpu="v6e", condition="none").values())
    assert '"--condition"' in text
    assert '"v6e"' in text
    assert "taxonomy" not in text
    assert "pool" not in text


def test_unknown_client_names_the_known_ones() -> None:
    with pytest.raises(clients.UnknownClient, match="claude_code, codex, openhands, cursor, vscode"):
        clients.render("emacs")


def test_condition_left_out_is_the_servers_own_default() -> None:
    assert submissions.Settings().condition == clients.DEFAULT_CONDITION
    assert arguments.tpu(submissions.Settings(), "") == clients.DEFAULT_TPU

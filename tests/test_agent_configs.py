"""What clients are given to register the server: each file parsed as its client would, and the text around them."""

import json
import re
import runpy
import shlex
import subprocess
import tomllib
from pathlib import Path

import client_formats as formats
import pytest
from pydantic import TypeAdapter, ValidationError

from hawkeye_mcp import __version__, clients, conditions, content, submissions
from hawkeye_mcp.tools import answering, arguments

ARGUMENTS = ["--tpu", "v5e"]
SERVER = {"command": "hawkeye-mcp", "args": ARGUMENTS}
# Client and file to the format of the file.
FORMATS = {
    ("claude_code", ".mcp.json"): formats.ClaudeFile,
    ("claude_code_plugin", ".mcp.json"): formats.ClaudeFile,
    ("claude_code_plugin", ".claude-plugin/plugin.json"): formats.ClaudePlugin,
    ("claude_code_plugin", ".claude-plugin/marketplace.json"): formats.ClaudeMarketplace,
    ("codex", "config.toml"): formats.CodexFile,
    ("openhands", "mcp.json"): formats.OpenHandsFile,
    ("cursor", "mcp.json"): formats.CursorFile,
    ("vscode", "mcp.json"): formats.VSCodeFile,
    ("gemini_cli", "settings.json"): formats.GeminiFile,
}
# Files that no client parses, and a part of a program.
TEXTS = {("claude_code_plugin", "README.md"), ("openhands", "agent.py")}


def committed(client: str, file: str) -> Path:
    return content.folder("agent_configs") / client / file


def parsed(client: str, file: str, text: str) -> formats.Strict:
    """As the client reads it; a key that it does not know is an error."""
    data = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
    return FORMATS[client, file].model_validate(data)


def server(found: formats.Strict) -> formats.Program:
    """The only one in a client's file."""
    (servers,) = [value for name, value in found if name in ("mcpServers", "mcp_servers", "servers")]
    assert list(servers) == [clients.NAME]
    return servers[clients.NAME]


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_committed_files_are_what_render_gives(client: str) -> None:
    folder = content.folder("agent_configs") / client
    files = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.*")
        if path.is_file()
    }
    assert files == clients.render(client)


def test_every_folder_has_a_client_and_every_file_a_format() -> None:
    folders = [p.name for p in content.folder("agent_configs").iterdir() if p.is_dir()]
    assert sorted(folders) == sorted(clients.CLIENTS)
    files = {(client, file) for client in clients.CLIENTS for file in clients.render(client)}
    assert files == {*FORMATS, *TEXTS}


@pytest.mark.parametrize("condition", conditions.CONDITIONS)
@pytest.mark.parametrize(("client", "file"), FORMATS)
def test_each_file_parses_as_its_client_would_under_every_condition(client: str, file: str, condition: str) -> None:
    found = parsed(client, file, clients.render(client, tpu="v6e", condition=condition)[file])
    if isinstance(found, formats.ClaudePlugin | formats.ClaudeMarketplace):
        return
    chosen = ["--tpu", "v6e"] + (["--condition", condition] if condition != clients.DEFAULT_CONDITION else [])
    assert (server(found).command, server(found).args) == ("hawkeye-mcp", chosen)


@pytest.mark.parametrize("condition", conditions.CONDITIONS)
@pytest.mark.parametrize("client", clients.CLIENTS)
def test_no_file_names_a_tool_that_the_condition_withholds(client: str, condition: str) -> None:
    text = "\n".join(clients.render(client, condition=condition).values())
    every = {entry.value for entry in conditions.TABLE if entry.kind == "tool"}
    withheld = every - set(conditions.tools(conditions.parse(condition)))
    assert [name for name in withheld if re.search(rf"\b{name}\b", text)] == []


def test_a_key_that_a_client_does_not_know_is_an_error() -> None:
    """The formats themselves: without this, a misspelt limit would pass every test here."""
    for (client, file), model in FORMATS.items():
        text = clients.render(client)[file]
        known = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
        outer = known | {"timeOut": 1}
        with pytest.raises(ValidationError, match="timeOut"):
            model.model_validate(outer)
        for name in ("mcpServers", "mcp_servers", "servers"):
            if name in known:
                known[name][clients.NAME]["tool_timeout"] = 900
                with pytest.raises(ValidationError, match="tool_timeout"):
                    model.model_validate(known)


def test_each_client_that_can_be_told_waits_as_long_as_one_evaluation_may_take() -> None:
    found = {(client, file): parsed(client, file, committed(client, file).read_text()) for client, file in FORMATS}
    for client in ("claude_code", "claude_code_plugin"):
        claude = server(found[client, ".mcp.json"])
        assert (claude.timeout, claude.alwaysLoad) == (clients.CALL_LIMIT_S * 1000, True)
    codex = server(found["codex", "config.toml"])
    assert (codex.tool_timeout_sec, codex.startup_timeout_sec, codex.required) == (clients.CALL_LIMIT_S, 60, True)
    assert server(found["gemini_cli", "settings.json"]).timeout == clients.CALL_LIMIT_S * 1000
    assert clients.CALL_LIMIT_S > answering.LONGEST_WAIT_S
    for client, file in (("openhands", "mcp.json"), ("cursor", "mcp.json"), ("vscode", "mcp.json")):
        assert not any("timeout" in name for name in server(found[client, file]).model_fields_set)


def test_codex_can_be_given_a_part_of_the_tools() -> None:
    text = committed("codex", "config.toml").read_text()
    allowed = parsed("codex", "config.toml", text.replace("# enabled_tools", "enabled_tools"))
    assert server(allowed).enabled_tools == conditions.tools(conditions.parse(clients.DEFAULT_CONDITION))


def test_openhands_has_the_file_and_the_sdk_form() -> None:
    flat = runpy.run_path(str(committed("openhands", "agent.py")))["MCP_CONFIG"]
    assert flat == {"hawkeye": SERVER}
    assert TypeAdapter(dict[str, formats.OpenHandsServer]).validate_python(flat)
    assert json.loads(committed("openhands", "mcp.json").read_text())["mcpServers"] == flat


def test_the_plugin_is_offered_by_a_marketplace_in_its_own_folder() -> None:
    plugin = parsed(
        "claude_code_plugin", name := ".claude-plugin/plugin.json", committed("claude_code_plugin", name).read_text()
    )
    market = parsed(
        "claude_code_plugin",
        name := ".claude-plugin/marketplace.json",
        committed("claude_code_plugin", name).read_text(),
    )
    assert (plugin.name, plugin.version) == (clients.NAME, __version__)
    (offered,) = market.plugins
    assert (market.name, offered.name, offered.source) == (clients.NAME, plugin.name, "./")
    assert committed("claude_code_plugin", ".mcp.json").read_text() == committed("claude_code", ".mcp.json").read_text()
    # What the catalog of plugins asks for.
    assert len(committed("claude_code_plugin", "README.md").read_text().split()) >= 40


def readme() -> str:
    return (content.folder("agent_configs") / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_readme_shows_each_client_and_its_one_line(client: str) -> None:
    known = clients.CLIENTS[client]
    assert f"{known.title}:\n```sh\n{clients.command(client)}\n```" in readme()
    assert f"| {known.title} | `{client}/` | `{known.goes_to}` | {known.limit} |" in readme()


def test_readme_tells_the_bounds_of_a_wait() -> None:
    text = " ".join(readme().split())
    assert f"({answering.DEFAULT_WAIT_S:g} s unless asked otherwise)" in text
    assert (
        f"to {answering.CAUTIOUS_WAIT_S:g} s, and to {answering.LONGEST_WAIT_S:g} s for Claude Code and Codex" in text
    )


def test_readme_says_where_the_plugin_must_not_be() -> None:
    assert "Never install the plugin in the home of a benchmark's agent" in " ".join(readme().split())


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_command_passes_chip_and_condition_as_single_words(client: str) -> None:
    words = clients.command(client, tpu="7x", condition="taxonomy").replace('"', " ").replace(",", " ").split()
    assert [w.strip("[]{}'") for w in words if w.strip("[]{}'") in {"7x", "--condition", "taxonomy"}] == [
        *("7x", "--condition", "taxonomy")
    ]


def test_cursor_line_writes_the_file(tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", clients.command("cursor")], cwd=tmp_path, check=True)
    found = parsed("cursor", "mcp.json", (tmp_path / ".cursor/mcp.json").read_text())
    assert found == parsed("cursor", "mcp.json", committed("cursor", "mcp.json").read_text())


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
    with pytest.raises(clients.UnknownClient, match=f"'emacs'. Clients: {', '.join(clients.CLIENTS)}"):
        clients.render("emacs")


def test_condition_left_out_is_the_servers_own_default() -> None:
    assert submissions.Settings().condition == clients.DEFAULT_CONDITION
    assert arguments.tpu(submissions.Settings(), "") == clients.DEFAULT_TPU

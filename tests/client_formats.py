"""The files that MCP clients read, as their makers document them. A key that is not named here is an error, as most
clients drop it without a word.

Sources: code.claude.com/docs (mcp, plugins-reference, plugin-marketplaces), developers.openai.com/codex (config-reference),
docs.openhands.dev (mcp-settings) and the strict model of openhands-sdk 1.58, cursor.com/docs (mcp), code.visualstudio.com
(mcp configuration reference), the settings schema in @google/gemini-cli 0.61. Only servers on stdio.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(min_length=1)]
# As Claude Code takes it for names of plugins and marketplaces.
Kebab = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Program(Strict):
    command: Text
    args: list[Text] = []
    env: dict[str, str] = {}


class ClaudeServer(Program):
    """timeout: milliseconds of one call."""

    type: Literal["stdio"] = "stdio"
    timeout: Annotated[int, Field(ge=1000)] | None = None
    alwaysLoad: bool = False


class ClaudeFile(Strict):
    mcpServers: dict[str, ClaudeServer]


class Person(Strict):
    name: Text
    email: Text | None = None
    url: Text | None = None


class ClaudePlugin(Strict):
    """.claude-plugin/plugin.json; where its parts lie is left to the defaults."""

    name: Kebab
    version: Version | None = None
    description: Text | None = None
    author: Person | None = None
    homepage: Text | None = None
    repository: Text | None = None
    license: Text | None = None
    keywords: list[Text] = []


class ListedPlugin(Strict):
    name: Kebab
    source: Annotated[str, StringConstraints(pattern=r"^\./")]
    description: Text | None = None
    version: Version | None = None


class ClaudeMarketplace(Strict):
    """.claude-plugin/marketplace.json."""

    name: Kebab
    owner: Person
    plugins: list[ListedPlugin]
    description: Text | None = None


class CodexServer(Program):
    env_vars: list[str] = []
    cwd: Text | None = None
    enabled: bool = True
    required: bool = False
    startup_timeout_sec: Annotated[int, Field(ge=1)] = 10
    tool_timeout_sec: Annotated[int, Field(ge=1)] = 300
    enabled_tools: list[Text] | None = None
    disabled_tools: list[Text] | None = None


class CodexFile(Strict):
    mcp_servers: dict[str, CodexServer]


class OpenHandsServer(Program):
    transport: Literal["stdio"] = "stdio"
    cwd: Text | None = None
    description: Text | None = None
    enabled: bool = True


class OpenHandsFile(Strict):
    mcpServers: dict[str, OpenHandsServer]


class CursorServer(Program):
    type: Literal["stdio"] = "stdio"
    envFile: Text | None = None


class CursorFile(Strict):
    mcpServers: dict[str, CursorServer]


class VSCodeServer(Program):
    type: Literal["stdio"]
    cwd: Text | None = None
    envFile: Text | None = None


class VSCodeFile(Strict):
    servers: dict[str, VSCodeServer]
    inputs: list[dict[str, str]] = []


class GeminiServer(Program):
    """timeout: milliseconds of one request."""

    cwd: Text | None = None
    timeout: Annotated[int, Field(ge=1000)] = 600_000
    trust: bool = False
    description: Text | None = None
    includeTools: list[Text] | None = None
    excludeTools: list[Text] | None = None


class GeminiFile(Strict):
    """settings.json, of which it has many more parts that are not ours."""

    mcpServers: dict[str, GeminiServer]

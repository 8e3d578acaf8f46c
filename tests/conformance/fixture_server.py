"""`hawkeye-mcp` with the fake judge and, beside its own, the tools, resources and prompts whose names the public conformance
suite asks for: the same server object, middleware and way of serving. Takes the same arguments.
"""

import base64
import zlib
from typing import Any

from fake_judge import FakeJudge
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field

from hawkeye_mcp import server as serving


def _png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = (1).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    pixels = zlib.compress(b"\0\xff\0\0")
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return base64.b64encode(whole).decode()


PNG = _png()
WAV = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0"
).decode()


def _text(said: str) -> TextContent:
    return TextContent(type="text", text=said)


def _image() -> ImageContent:
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def _embedded(uri: str, said: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=said))


class _Answer(BaseModel):
    response: str = Field(description="User's response")


class _Defaults(BaseModel):
    name: str = Field("John Doe", description="User name")
    age: int = Field(30, description="User age")
    score: float = Field(95.5, description="User score")
    status: str = Field("active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(True, description="Verification status")


def add_fixtures(server: MCPServer[Any]) -> None:
    _add_tools(server)
    _add_talking_tools(server)
    _add_resources(server)
    _add_prompts(server)


def _add_tools(server: MCPServer[Any]) -> None:
    @server.tool(description="For the conformance suite.", structured_output=False)
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @server.tool(description="For the conformance suite.", structured_output=False)
    def test_image_content() -> CallToolResult:
        return CallToolResult(content=[_image()])

    @server.tool(description="For the conformance suite.", structured_output=False)
    def test_audio_content() -> CallToolResult:
        return CallToolResult(content=[AudioContent(type="audio", data=WAV, mime_type="audio/wav")])

    @server.tool(description="For the conformance suite.", structured_output=False)
    def test_embedded_resource() -> CallToolResult:
        return CallToolResult(content=[_embedded("test://embedded-resource", "This is an embedded resource content.")])

    @server.tool(description="For the conformance suite.", structured_output=False)
    def test_multiple_content_types() -> CallToolResult:
        document = _embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json")
        return CallToolResult(content=[_text("Multiple content types test:"), _image(), document])

    @server.tool(description="For the conformance suite.", structured_output=False)
    def test_error_handling() -> str:
        raise ToolError("This tool intentionally returns an error for testing")


def _add_talking_tools(server: MCPServer[Any]) -> None:
    """Tools that talk to the client before they answer."""

    @server.tool(description="For the conformance suite.", structured_output=False)
    async def test_tool_with_progress(ctx: Context[Any]) -> str:
        for at in (0, 50, 100):
            await ctx.report_progress(at, 100, f"Completed step {at} of 100")
        return "done"

    @server.tool(description="For the conformance suite.", structured_output=False)
    async def test_sampling(prompt: str, ctx: Context[Any]) -> str:
        asked = [SamplingMessage(role="user", content=_text(prompt))]
        found = await ctx.session.create_message(asked, max_tokens=100, related_request_id=ctx.request_id)
        return f"LLM response: {found.content}"

    @server.tool(description="For the conformance suite.", structured_output=False)
    async def test_elicitation(message: str, ctx: Context[Any]) -> str:
        found = await ctx.elicit(message, _Answer)
        return f"User response: action={found.action}, content={getattr(found, 'data', None)}"

    @server.tool(description="For the conformance suite.", structured_output=False)
    async def test_elicitation_sep1034_defaults(ctx: Context[Any]) -> str:
        found = await ctx.elicit("Please review and update the form fields with defaults", _Defaults)
        return f"Elicitation completed: action={found.action}, content={getattr(found, 'data', None)}"


def _add_resources(server: MCPServer[Any]) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'


def _add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt(description="For the conformance suite.")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="For the conformance suite.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="For the conformance suite.")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
        embedded = _embedded(resourceUri, "Embedded resource content for testing.")
        return [
            UserMessage(embedded),
            UserMessage(_text("Please process the embedded resource above.")),
        ]

    @server.prompt(description="For the conformance suite.")
    def test_prompt_with_image() -> list[Any]:
        return [
            UserMessage(_image()),
            UserMessage(_text("Please analyze the image above.")),
        ]


def main() -> None:
    own = serving.build_server

    def build(*args: Any, **kwargs: Any) -> MCPServer[Any]:
        server = own(*args, **kwargs)
        add_fixtures(server)
        return server

    serving.build_server = build
    serving.main(judge_factory=FakeJudge().open)


if __name__ == "__main__":
    main()

"""A program for the command agent: a short session over MCP, told in lines of JSON. What it does is fixed.

`python playing_client.py CONFIG MODEL`, in the workspace, with the key in PLAYING_KEY.
"""

import json
import os
import sys
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters


def tell(kind: str, **fields: object) -> None:
    print(json.dumps({"kind": kind, **fields}), flush=True)


async def main(config: str, model: str) -> None:
    server = json.loads(Path(config).read_text())["mcpServers"]["hawkeye"]
    tell("client", name="playing-client", version="1.0")
    async with Client(
        StdioServerParameters(command=server["command"], args=server["args"], env=server["env"])
    ) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}

        async def call(tool: str, **arguments: object) -> dict[str, object]:
            tell(
                "model",
                prompt_tokens=100,
                completion_tokens=7,
                cost_usd=0.25,
                message=f"{model} {os.environ['PLAYING_KEY']}",
            )
            tell("tool_call", tool=tool, arguments=arguments)
            result = await client.call_tool(tool, arguments)
            tell("tool_result", tool=tool, is_error=result.is_error, text=result.content[0].text)
            return result.structured_content or {}

        def write(text: str) -> None:
            Path("kernel.py").write_text(text)
            tell("edit", path="kernel.py")

        write("# fake: incorrect\n")
        if (await call("evaluate_kernel", path="kernel.py"))["status"] == "incorrect":
            write("# fake: speedup 1.5\n")
        await call("evaluate_kernel", path="kernel.py")
        if "read_taxonomy_cell" in tools:
            await call("read_taxonomy_cell", row="01_mxu_feed")
        write("# fake: speedup 3\n")
        await call("evaluate_kernel", path="kernel.py")
    print("a line for people", flush=True)


anyio.run(main, *sys.argv[1:])

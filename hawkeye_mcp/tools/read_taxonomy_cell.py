"""The read_taxonomy_cell tool: text only, because guides and kernels in escaped JSON are hard to read."""

import json
from typing import Annotated, Literal

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from hawkeye_mcp import taxonomy
from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.submissions import Settings
from hawkeye_mcp.tools import arguments

Part = Literal["all", "guide", "naive", "optimized"]

DESCRIPTION = (
    "Read one cell of the taxonomy: a technique for this TPU with a guide, a naive kernel, the optimized "
    "kernel and its configuration. Without a row: the list of all cells, one line each."
)


def listing(tpu: str) -> str:
    if not (cells := taxonomy.rows(tpu)):
        return f"There are no taxonomy cells for {tpu} yet. Go on without them."
    lines = [f"Taxonomy cells for {tpu} (read one by its row):"]
    lines += [f"- {cell.row}: {cell.title}. {cell.one_line}" for cell in cells]
    return "\n".join(lines)


def text(tpu: str, row: str, part: Part) -> str:
    """One cell, or one part of it, as Markdown.

    Raises:
        taxonomy.UnknownCell: with the nearest rows.
    """
    cell = taxonomy.cell(tpu, row)
    parts = {
        "guide": f"# {cell.title} ({cell.tpu}, {cell.row})\n\n{cell.guide.strip()}",
        "naive": f"## Naive kernel\n\n```python\n{cell.naive_kernel.strip()}\n```",
        "optimized": f"## Optimized kernel\n\n```python\n{cell.optimized_kernel.strip()}\n```",
        "config": f"## Configuration\n\n```json\n{json.dumps(cell.config, indent=1)}\n```",
    }
    return "\n\n".join(parts.values()) if part == "all" else parts[part]


def build(settings: Settings) -> arguments.FlatTool:
    def read_taxonomy_cell(
        row: Annotated[str, Field(description="Row of the cell; empty: list all.")] = "",
        part: Annotated[Part, Field(description="all (default), guide, naive or optimized.")] = "all",
    ) -> CallToolResult:
        tpu = settings.tpu or DEFAULT_TPU
        try:
            found = text(tpu, row, part) if row else listing(tpu)
        except taxonomy.UnknownCell as error:
            raise ToolError(str(error)) from None
        return CallToolResult(content=[TextContent(type="text", text=found)])

    return arguments.flat_tool(
        read_taxonomy_cell,
        title="Read a taxonomy cell",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )

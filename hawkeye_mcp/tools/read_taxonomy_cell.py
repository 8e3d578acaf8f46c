"""The read_taxonomy_cell tool: text only, because guides and kernels in escaped JSON are hard to read."""

import json
from collections.abc import Callable
from typing import Annotated, Literal

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from hawkeye_mcp import calllog, conditions, placebo, taxonomy
from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.conditions import Cells
from hawkeye_mcp.submissions import Settings
from hawkeye_mcp.taxonomy import Cell
from hawkeye_mcp.tools import arguments

Part = Literal["all", "guide", "naive", "optimized"]

DESCRIPTION = (
    "Read one cell of the taxonomy: a technique for this TPU with a guide, a naive kernel, the optimized "
    "kernel and its configuration. Without a row: the list of all cells, one line each."
)
DESCRIPTION_OF_LINES = (
    "Read the taxonomy: the techniques for this TPU, one line each. With a row: that one. Without: the list of all."
)

Row = Annotated[str, Field(description="Row of the cell; empty: list all.")]


def rows(tpu: str, shown: Cells) -> list[Cell]:
    """The chip's cells with the texts that are shown, in order."""
    return placebo.rows(tpu) if shown == "placebo" else taxonomy.rows(tpu)


def listing(tpu: str, shown: Cells) -> str:
    if not (cells := rows(tpu, shown)):
        return f"There are no taxonomy cells for {tpu} yet. Go on without them."
    more = "" if shown == "line" else " (read one by its row)"
    lines = [f"Taxonomy cells for {tpu}{more}:"]
    lines += [f"- {cell.row}: {cell.title}. {cell.one_line}" for cell in cells]
    return "\n".join(lines)


def text(tpu: str, row: str, part: Part, shown: Cells) -> str:
    """One cell, or one part of it, as Markdown; where lines are shown, whatever the part, its title and its line.

    Raises:
        taxonomy.UnknownCell: with the nearest rows.
    """
    cell = placebo.cell(tpu, row) if shown == "placebo" else taxonomy.cell(tpu, row)
    calllog.note(cell_read={"row": row, "part": part})
    heading = f"# {cell.title} ({cell.tpu}, {cell.row})"
    if shown == "line":
        return f"{heading}\n\n{cell.one_line}"
    parts = {
        "guide": f"{heading}\n\n{cell.guide.strip()}",
        "naive": f"## Naive kernel\n\n```python\n{cell.naive_kernel.strip()}\n```",
        "optimized": f"## Optimized kernel\n\n```python\n{cell.optimized_kernel.strip()}\n```",
        "config": f"## Configuration\n\n```json\n{json.dumps(cell.config, indent=1)}\n```",
    }
    return "\n\n".join(parts.values()) if part == "all" else parts[part]


def build(settings: Settings) -> arguments.FlatTool:
    shown = conditions.cells(settings.condition)

    def answer(row: str, part: Part) -> CallToolResult:
        tpu = settings.tpu or DEFAULT_TPU
        try:
            found = text(tpu, row, part, shown) if row else listing(tpu, shown)
        except taxonomy.UnknownCell as error:
            raise ToolError(str(error)) from None
        return CallToolResult(content=[TextContent(type="text", text=found)])

    return arguments.flat_tool(
        _of_lines(answer) if shown == "line" else _of_cells(answer),
        title="Read a taxonomy cell",
        description=DESCRIPTION_OF_LINES if shown == "line" else DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )


Answer = Callable[[str, Part], CallToolResult]


def _of_cells(answer: Answer) -> Callable[..., CallToolResult]:
    def read_taxonomy_cell(
        row: Row = "",
        part: Annotated[Part, Field(description="all (default), guide, naive or optimized.")] = "all",
    ) -> CallToolResult:
        return answer(row, part)

    return read_taxonomy_cell


def _of_lines(answer: Answer) -> Callable[..., CallToolResult]:
    """The same tool where a row has no parts: offering some would promise what is not there."""

    def read_taxonomy_cell(row: Row = "") -> CallToolResult:
        return answer(row, "all")

    return read_taxonomy_cell

"""The files of the cells of all chips, from the source of their rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hawkeye_mcp import content
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.taxonomy_check import source
from hawkeye_mcp.taxonomy_check.runner import chip_facts
from hawkeye_mcp.versions import versions


async def cells(rows: Sequence[str]) -> dict[Path, str]:
    """Every file of the rows' cells by its path.

    Raises:
        source.BrokenSource: a row's source cannot be read or rendered.
    """
    facts = await chip_facts(TPUS)
    root = content.folder("taxonomy")
    return {
        root / tpu / row / name: text
        for row in rows
        for tpu in TPUS
        for name, text in source.cell(row, facts[tpu], versions()).items()
    }


def left_over(texts: Mapping[Path, str]) -> list[Path]:
    """Cells that are there and have no source; texts: of all rows."""
    folders = {path.parent for path in texts}
    root = content.folder("taxonomy")
    return sorted(folder for tpu in TPUS for folder in (root / tpu).glob("*/") if folder not in folders)

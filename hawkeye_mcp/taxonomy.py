"""Taxonomy cells: one technique on one TPU generation each, read from plain files, without importing jax."""

import difflib
import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from hawkeye_mcp import content


class UnknownCell(ValueError):
    """No such cell; the message names the nearest rows and all of them, or the chips that have cells."""


class Cell(BaseModel):
    """One folder taxonomy/<tpu>/<row>/; the texts are the files as they stand."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    row: str
    tpu: str
    title: str
    one_line: str
    guide: str
    naive_kernel: str
    optimized_kernel: str
    config: dict[str, Any]


def rows(tpu: str) -> list[Cell]:
    """Every cell of a chip in row order; empty for a chip that has none."""
    return [_load(folder) for folder in _folders(tpu).values()]


def cell(tpu: str, row: str) -> Cell:
    """One cell.

    Raises:
        UnknownCell: no such row, or a chip without cells.
    """
    folders = _folders(tpu)
    if not folders:
        raise UnknownCell(f"The taxonomy has no cells for {tpu!r}. Chips with cells: {', '.join(tpus()) or 'none'}.")
    if row not in folders:
        near = difflib.get_close_matches(row, folders, n=3, cutoff=0.3)
        nearest = f" Nearest: {', '.join(near)}." if near else ""
        raise UnknownCell(f"{tpu} has no row {row!r}.{nearest} All: {', '.join(folders)}.")
    return _load(folders[row])


def tpus() -> list[str]:
    """Chips that have at least one cell."""
    return sorted({config.parent.parent.name for config in content.folder("taxonomy").glob("*/*/config.json")})


def _folders(tpu: str) -> dict[str, Path]:
    # Matching names that exist, not joining a path: a caller's text such as ".." cannot leave the taxonomy.
    found = sorted(config.parent for config in content.folder("taxonomy").glob("*/*/config.json"))
    return {folder.name: folder for folder in found if folder.parent.name == tpu}


@cache
def _load(folder: Path) -> Cell:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return Cell(
        row=folder.name,
        tpu=folder.parent.name,
        title=config["title"],
        one_line=config["one_line"],
        guide=(folder / "guide.md").read_text(encoding="utf-8"),
        naive_kernel=(folder / "naive_kernel.py").read_text(encoding="utf-8"),
        optimized_kernel=(folder / "optimized_kernel.py").read_text(encoding="utf-8"),
        config=config,
    )

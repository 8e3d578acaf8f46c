"""taxonomy/README.md: what is written by hand, with the table of what was verified, and its picture."""

from collections.abc import Sequence
from pathlib import Path

from hawkeye_mcp import content, state, taxonomy
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.taxonomy_check import heat_map, source
from hawkeye_mcp.taxonomy_check.report import Verified

_TABLE = "<!-- the table of cells -->\n"


def page_path() -> Path:
    return content.folder("taxonomy") / "README.md"


def write(found: Sequence[Verified]) -> list[Path]:
    """Write the page and its picture; found: every cell."""
    picture = page_path().with_name("cells.png")
    state.write_atomically(page_path(), page(found))
    state.write_atomically(picture, heat_map.png(found))
    return [page_path(), picture]


def page(found: Sequence[Verified]) -> str:
    written = (source.folder() / "README.md").read_text(encoding="utf-8")
    if _TABLE not in written:
        raise source.BrokenSource(f"{source.folder() / 'README.md'} has no line {_TABLE.strip()!r} for the table.")
    return written.replace(_TABLE, table(found))


def table(found: Sequence[Verified]) -> str:
    """A line for each row: its title, what it moves and its predicted speedup by chip."""
    header = ["row", "technique", "what it moves, least ratio over the chips", *TPUS]
    lines = [header, ["---"] * len(header)]
    for row in sorted({each.row for each in found}):
        cells = {each.tpu: each for each in found if each.row == row}
        title = taxonomy.cell(next(iter(cells)), row).title
        lines.append([row, title, _moved(list(cells.values())), *(_speedup(cells.get(tpu)) for tpu in TPUS)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _moved(cells: Sequence[Verified]) -> str:
    ratios: dict[tuple[str, str], list[float | None]] = {}
    for figure in (figure for cell in cells for figure in cell.counters):
        ratios.setdefault((figure.name, figure.direction), []).append(figure.ratio)
    told = []
    for (name, direction), found in ratios.items():
        known = [ratio for ratio in found if ratio is not None]
        how_much = f" {min(known):.3g}x" if known else (" from 0" if direction == "up" else " to 0")
        told.append(f"{name} {direction}{how_much}")
    return ", ".join(told)


def _speedup(cell: Verified | None) -> str:
    if cell is None or cell.predicted_speedup is None:
        return ""
    return f"{cell.predicted_speedup:.3g}" if cell.applies else f"does not apply ({cell.predicted_speedup:.3g})"

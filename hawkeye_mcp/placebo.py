"""Cells of the same rows, parts and lengths as the taxonomy's, whose texts name no technique and give no advice.

They are put together from the true and sourced statements in taxonomy/placebo/, the same ones each time: every row of a
chip starts at a place of its own, and each part ends with what brings it nearest to the length of the real part, in
characters. With them an effect of what the taxonomy says can be told from an effect of more text in context.
"""

import ast
import json
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple, TypeVar

from hawkeye_mcp import content, taxonomy
from hawkeye_mcp.taxonomy import Cell

_WIDTH = 120
_TERMS = "## Terms"
_TERMS_AT_LEAST = 200  # characters that the terms at the end of a guide are left, to come out at its length
_OPENINGS = ("Names and figures of", "Definitions of", "Terms, figures and sources of", "Reference on")

_Entry = TypeVar("_Entry")


@dataclass(frozen=True)
class Place:
    """Where a row starts in each list of statements: the rows of a chip apart, and each chip one further."""

    row: int
    rows: int
    chip: int

    def rotated(self, statements: Sequence[_Entry], part: float = 0.0) -> list[_Entry]:
        """All statements, beginning with this row's; part: how far into the row's share, of 1."""
        start = (int(len(statements) * (self.row + part) / self.rows) + self.chip) % len(statements)
        return [*statements[start:], *statements[:start]]


def rows(tpu: str) -> list[Cell]:
    """As taxonomy.rows, in its order."""
    return [cell(tpu, real.row) for real in taxonomy.rows(tpu)]


def cell(tpu: str, row: str) -> Cell:
    """As taxonomy.cell.

    Raises:
        UnknownCell: no such row, or a chip without cells.
    """
    real = taxonomy.cell(tpu, row)
    names = [other.row for other in taxonomy.rows(tpu)]
    return _cell(tpu, row, Place(names.index(row), len(names), taxonomy.tpus().index(tpu)), lengths(real))


class Lengths(NamedTuple):
    """Of a cell's parts as they are shown, in characters."""

    title: int
    one_line: int
    guide: int
    naive_kernel: int
    optimized_kernel: int
    config: int


def lengths(cell: Cell) -> Lengths:
    return Lengths(
        len(cell.title),
        len(cell.one_line),
        len(cell.guide.strip()),
        len(cell.naive_kernel.strip()),
        len(cell.optimized_kernel.strip()),
        len(json.dumps(cell.config, indent=1)),
    )


@cache
def _cell(tpu: str, row: str, place: Place, real: Lengths) -> Cell:
    title, line = _title(place, real.title), _one_line(place, real.one_line)
    return Cell(
        row=row,
        tpu=tpu,
        title=title,
        one_line=line,
        guide=_guide(place, f"# {row[:2]} {title} ({tpu})", real.guide),
        naive_kernel=_listing(place, 0.0, real.naive_kernel),
        optimized_kernel=_listing(place, 0.5, real.optimized_kernel),
        config=_config(place, title, line, real.config),
    )


# --- the statements


def _read(name: str) -> str:
    return (content.folder("taxonomy") / "placebo" / name).read_text(encoding="utf-8")


@cache
def _sections() -> list[str]:
    """Sections of prose and tables as Markdown; in the file each sentence is a line of its own."""
    return [_section(section.splitlines()) for section in _read("text.md").strip().split("\n\n")]


def _section(lines: list[str]) -> str:
    parts = [lines[0]]
    prose: list[str] = []
    for line in [*lines[1:], ""]:
        if line.startswith("|"):
            if prose:
                parts.append(_wrapped(prose))
                prose = []
            if not parts[-1].startswith("|"):
                parts.append(line)
            else:
                parts[-1] += f"\n{line}"
        elif line:
            prose.append(line)
    return "\n\n".join([*parts, _wrapped(prose)]) if prose else "\n\n".join(parts)


def _wrapped(sentences: list[str]) -> str:
    return textwrap.fill(" ".join(sentences), _WIDTH, break_long_words=False, break_on_hyphens=False)


@cache
def _glossary() -> list[str]:
    return _read("glossary.md").splitlines()


@cache
def _subjects() -> list[str]:
    return _read("subjects.txt").splitlines()


@cache
def _statements() -> list[str]:
    """The top-level statements of the listing that need nothing but each other's import."""
    text = _read("listing.py")
    body = [node for node in ast.parse(text).body if not isinstance(node, ast.Expr | ast.ImportFrom)]
    lines = text.splitlines()
    return ["\n".join(lines[_first_line(node) - 1 : node.end_lineno]) for node in body]


def _first_line(node: ast.stmt) -> int:
    decorated = node.decorator_list if isinstance(node, ast.ClassDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorated)])


# --- the parts


def _title(place: Place, length: int) -> str:
    return _of_length(length, place.rotated(_subjects()), lambda subjects: _capital(_listed(subjects)))


def _one_line(place: Place, length: int) -> str:
    opening = _OPENINGS[place.row % len(_OPENINGS)]
    return _of_length(length, place.rotated(_subjects(), 0.5), lambda subjects: f"{opening} {_listed(subjects)}.")


def _guide(place: Place, heading: str, length: int) -> str:
    left = length - len(f"{heading}\n\n\n\n{_TERMS}\n")
    chosen = list(_leading(place.rotated(_sections()), left - _TERMS_AT_LEAST, lambda section: len(section) + 2))
    left -= sum(len(section) + 2 for section in chosen)
    terms = _filled(place.rotated(_glossary()), left, lambda term: len(term) + 1)
    return "\n\n".join([heading, *chosen, "\n".join([_TERMS, "", *terms])]) + "\n"


def _listing(place: Place, part: float, length: int) -> str:
    subjects = place.rotated(_subjects(), part)
    head = f'"""{_capital(_listed(subjects[:3]))}: constants."""\n\nfrom dataclasses import dataclass'
    found = _filled(place.rotated(_statements(), part), length - len(head), lambda statement: len(statement) + 2)
    return "\n\n".join([head, *found]) + "\n"


def _config(place: Place, title: str, line: str, length: int) -> dict[str, object]:
    def shown(terms: Iterable[tuple[str, str]]) -> dict[str, object]:
        return {"title": title, "one_line": line, "terms": dict(terms)}

    def cost(term: tuple[str, str]) -> int:
        return len(f"  {json.dumps(term[0])}: {json.dumps(term[1])},\n")

    terms = [(name, meaning) for name, _, meaning in (_plain(entry).partition(": ") for entry in _glossary())]
    frame = len(json.dumps(shown([("", "")]), indent=1)) - cost(("", ""))
    return shown(_filled(place.rotated(terms, 0.5), length - frame, cost))


def _plain(entry: str) -> str:
    return entry.removeprefix("- ").replace("**", "")


# --- the lengths


def _leading(entries: Iterable[_Entry], length: int, cost: Callable[[_Entry], int]) -> Iterable[_Entry]:
    """The first entries, as many as fit."""
    for entry in entries:
        length -= cost(entry)
        if length < 0:
            return
        yield entry


def _filled(entries: Sequence[_Entry], length: int, cost: Callable[[_Entry], int]) -> list[_Entry]:
    """The first entries, as many as fit, and then the one or two others that come nearest to the length.

    Raises:
        ValueError: the entries all together are shorter.
    """
    chosen = list(_leading(entries, length, cost))
    rest = entries[len(chosen) :]
    if not rest:
        raise ValueError("the text in taxonomy/placebo/ is shorter than a part of a cell: add to it")
    left = length - sum(map(cost, chosen))
    endings: list[tuple[_Entry, ...]] = [(), *((entry,) for entry in rest), *combinations(rest[:40], 2)]
    return chosen + list(min(endings, key=lambda ending: abs(left - sum(map(cost, ending)))))


def _of_length(length: int, subjects: Sequence[str], phrase: Callable[[Sequence[str]], str]) -> str:
    """A phrase of this length about the first few of the subjects and one or two others, or else the nearest to it."""
    nearest = phrase(subjects[:1])
    fitting = next((few for few in range(len(subjects)) if len(phrase(subjects[: few + 1])) > length), 0)
    for few in range(fitting, -1, -1):
        for others in (*combinations(subjects[few:], 2), *combinations(subjects[few:], 1)):
            found = phrase([*subjects[:few], *others])
            if len(found) == length:
                return found
            if abs(len(found) - length) < abs(len(nearest) - length):
                nearest = found
    return nearest


def _listed(subjects: Sequence[str]) -> str:
    *first, last = subjects
    return f"{', '.join(first)} and {last}" if first else last


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]

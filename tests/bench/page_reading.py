"""A report's page read as a browser would, without one: its elements, its tables and its text by section."""

import base64
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

_BLOCKS = {"p", "b", "span", "li", "dt", "dd", "td", "th", "h1", "h2", "h3", "a", "summary", "text"}
_VOID = {"meta", "input", "br", "hr", "img", "link"}


class Document(HTMLParser):
    """elements: (name, attributes) of every start tag. text: by id of the section. rows: the cells of every table row
    by section."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.text: dict[str, str] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self.open: list[str] = []
        self._section = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag not in _VOID:
            self.open.append(tag)
        if tag in ("section", "main") and found.get("id"):
            self._section = str(found["id"])
        if tag == "tr":
            self.rows.setdefault(self._section, []).append([])
        if tag in ("td", "th"):
            self.rows[self._section][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()
        if tag in _BLOCKS:
            self.text[self._section] = self.text.get(self._section, "") + " "

    def handle_data(self, data: str) -> None:
        if {"script", "style"} & set(self.open):
            return
        self.text[self._section] = self.text.get(self._section, "") + data
        if "td" in self.open or "th" in self.open:
            self.rows[self._section][-1][-1] += data.strip("\n")

    def named(self, tag: str) -> list[dict[str, Any]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def words(self, section: str) -> str:
        """The text of a section with every run of white space as one blank."""
        return " ".join(self.text.get(section, "").split())


def read(path: Path) -> Document:
    return Document(path.read_text(encoding="utf-8"))


def run_pages(path: Path) -> dict[str, str]:
    """The HTML of each run's page, by its key."""
    found = re.findall(r'class="run-data" data-key="([^"]*)">([^<]*)<', path.read_text(encoding="utf-8"))
    return {key: zlib.decompress(base64.b64decode(encoded)).decode() for key, encoded in found}

"""CUDA C++ as a syntax tree by tree-sitter: parsed within bounds, walked without what is no code."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawkeye_mcp.intake.references.text import ReferenceUnreadable

if TYPE_CHECKING:
    from tree_sitter import Node

_PARSE_S = 10.0
_MOST_NODES = 400_000
_CHUNK_BYTES = 65_536
_NO_CODE = frozenset({"comment", "string_literal", "raw_string_literal", "char_literal", "system_lib_string"})
# Attributes that the grammar does not know; spaces of the same length keep every line and column.
_ATTRIBUTES = re.compile(
    rb"\b(?:__align__\s*\(\s*[\w:]+\s*\)|__(?:forceinline|noinline|grid_constant|managed|host)__\b"
    rb"|__maxnreg__\s*\(\s*\w+\s*\)"
    # macros that stand for launch bounds
    rb"|[A-Z][A-Z0-9_]{3,}\s*\((?:[^(){};]|\([^(){};]{0,60}\)){0,200}\)\s*(?=(?:(?:static|inline)\s+)?__global__)"
    rb"|(?<=__global__ void )\s*[A-Z][A-Z0-9_]{3,}\s*\((?:[^(){};]|\([^(){};]{0,60}\)){0,200}\)(?=\s*\w))"
)
_COMMENT_OR_STRING = re.compile(rb'"(?:\\.|[^"\\\n])*"|/\*.*?(?:\*/|$)|//[^\n]*', re.DOTALL)


@dataclass(frozen=True)
class Code:
    """A text with its tree. first_line: the line of the file on which the text begins."""

    source: bytes
    root: "Node"
    first_line: int = 1

    def text(self, node: "Node | None", longest: int = 400) -> str:
        """What a node spans, in one line and without comments; cut after `longest` bytes."""
        return "" if node is None else self.span(node.start_byte, min(node.end_byte, node.start_byte + longest))

    def span(self, start: int, end: int) -> str:
        """The text between two offsets, in one line and without comments."""
        code = _COMMENT_OR_STRING.sub(lambda found: found[0] if found[0][:1] == b'"' else b" ", self.source[start:end])
        return " ".join(code.replace(b"\\\n", b" ").decode("utf-8", "replace").split())

    def line(self, node: "Node") -> int:
        return self.first_line + node.start_point[0]

    def end_line(self, node: "Node") -> int:
        return self.first_line + node.end_point[0]


def parse(source: bytes, first_line: int = 1) -> Code:
    """The tree of a text; what is no CUDA is a node of type ERROR in it, and the rest is read all the same.

    Raises:
        ReferenceUnreadable: it takes too long or has too many parts.
    """
    import tree_sitter
    import tree_sitter_cuda

    blanked = _ATTRIBUTES.sub(lambda found: re.sub(rb"[^\n]", b" ", found[0]), source)
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
    give_up = time.monotonic() + _PARSE_S

    def read(offset: int, _: object) -> bytes:
        return blanked[offset : offset + _CHUNK_BYTES]

    try:
        tree = parser.parse(read, progress_callback=lambda *_: time.monotonic() > give_up)
    except ValueError:
        raise ReferenceUnreadable(
            "too_slow", f"could not be parsed within {_PARSE_S:g} s. Cut it down to the kernels and what they use."
        ) from None
    if tree.root_node.descendant_count > _MOST_NODES:
        raise ReferenceUnreadable(
            "too_complex", f"has more than {_MOST_NODES} parts. Cut it down to the kernels and what they use."
        )
    return Code(source, tree.root_node, first_line)


def walk(root: "Node") -> Iterator[tuple["Node", "Node | None"]]:
    """Every node with its parent in the order of the text, without comments, text literals and what `#if 0` leaves out.

    A node's own `parent` is looked for from the root, which takes long in a long text.
    """
    left: list[tuple[Node, Node | None]] = [(root, None)]
    while left:
        node, parent = left.pop()
        yield node, parent
        left.extend((child, node) for child in reversed(_children(node)) if child.type not in _NO_CODE)


def _children(node: "Node") -> list["Node"]:
    """The children that are compiled, as far as a number behind #if says so."""
    condition = node.child_by_field_name("condition") if node.type in ("preproc_if", "preproc_elif") else None
    if condition is None or condition.type != "number_literal":
        return node.children
    other = node.child_by_field_name("alternative")
    if condition.text == b"0":
        return [other] if other is not None else []
    return [child for child in node.children if other is None or child.id != other.id]

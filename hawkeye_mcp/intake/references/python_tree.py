"""Python as its syntax tree: names by what they were imported as, constants, functions, and texts of CUDA in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hawkeye_mcp.intake.references.expressions import Scope
from hawkeye_mcp.intake.references.model import Constant, Value
from hawkeye_mcp.intake.references.text import ReferenceUnreadable

_MOST_NODES = 400_000
_ROWS_SHOWN = 20
# Calls that compile CUDA given as text, and where the text is: keyword, else position.
_CUDA_TAKERS: dict[str, tuple[str, int | None]] = {
    "load_inline": ("cuda_sources", 2),
    "_get_custom_op": ("cuda_source", None),
    "RawKernel": ("code", 0),
    "RawModule": ("code", 0),
    "SourceModule": ("source", 0),
    "_compile_kernel": ("kernel_source", 0),
}


@dataclass
class Python:
    """A module. imported: local names to full ones; assigned: names to the expressions that they are set to at the top
    level, once; functions: by name, the last of each; around: the innermost function of each line, from line 0."""

    rows: list[bytes]
    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, ast.expr | None] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    around: list[ast.FunctionDef | None] = field(default_factory=list)
    scope: Scope = field(default_factory=lambda: Scope(c=False))

    def name(self, node: ast.AST | None) -> str:
        """The full dotted name of an expression, with what its first part was imported as; empty if it is none."""
        parts: list[str] = []
        for _ in range(12):
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
                continue
            if isinstance(node, ast.Name):
                parts.append(self.imported.get(node.id, node.id))
                return ".".join(reversed(parts))
            break
        return ""

    def text(self, node: ast.AST | None, longest: int = 300) -> str:
        """An expression in one line."""
        if node is None:
            return ""
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        parts = []
        for row in range(first, min(last, first + _ROWS_SHOWN) + 1):
            since = start if row == first else 0
            until = min(end, since + longest) if row == last else since + longest
            parts.append(self.rows[row - 1][since:until].decode("utf-8", "replace"))
        return " ".join(" ".join(parts).split())[:longest]

    def value(self, node: ast.AST | None, names: dict[str, int | str] | None = None) -> Value:
        text = self.text(node)
        return Value(text=text, value=(self.scope.inner(names) if names else self.scope).value(text))


def parse(source: str) -> Python:
    """
    Raises:
        ReferenceUnreadable: it is no Python, or has too many parts.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ReferenceUnreadable(
            "syntax", f"line {error.lineno} is no Python: {error.msg}. Mend it, or name the file by its type."
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise ReferenceUnreadable(
            "too_complex", "is nested too deeply to be read. Cut it down to the kernels."
        ) from None
    python = Python(re.split(rb"\r\n|\r|\n", source.encode()), tree)
    functions: list[ast.FunctionDef] = []
    for number, node in enumerate(ast.walk(tree)):
        if number > _MOST_NODES:
            raise ReferenceUnreadable("too_complex", f"has more than {_MOST_NODES} parts. Cut it down to the kernels.")
        if isinstance(node, ast.Import):
            for alias in node.names:
                python.imported[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                python.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.FunctionDef):
            python.functions[node.name] = node
            functions.append(node)
    python.around = _owners(functions, len(python.rows))
    for name, value in assignments(tree.body):
        python.assigned[name] = value if name not in python.assigned else None
        python.scope.names[name] = python.text(value) if python.assigned[name] is not None else "?"
    return python


def _owners(functions: list[ast.FunctionDef], rows: int) -> list[ast.FunctionDef | None]:
    owners: list[ast.FunctionDef | None] = [None] * (rows + 1)
    for function in sorted(functions, key=lambda one: (one.lineno, one.col_offset)):  # an inner one comes later
        for row in range(function.lineno, (function.end_lineno or function.lineno) + 1):
            owners[row] = function
    return owners


def assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Names that statements set, not looking into functions."""
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                yield target.id, _unwrapped(node.value)
            elif (
                isinstance(target, ast.Tuple)
                and isinstance(node.value, ast.Tuple)
                and len(target.elts) == len(node.value.elts)
            ):
                for one, value in zip(target.elts, node.value.elts, strict=True):
                    if isinstance(one, ast.Name):
                        yield one.id, value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, _unwrapped(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
            yield node.target.id, node.value  # it is set twice at least, so it is not settled
        elif isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
            for part in ("body", "orelse", "finalbody"):
                yield from assignments(getattr(node, part, []))


def _unwrapped(value: ast.expr) -> ast.expr:
    """`tl.constexpr(16)` is 16."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "constexpr":
        return value.args[0] if value.args else value
    return value


def constants(python: Python) -> list[Constant]:
    """Whole numbers that the module names."""
    found = []
    for name, value in python.assigned.items():
        if value is not None and (known := python.scope.value(python.text(value))) is not None:
            text = python.text(value)
            found.append(Constant(name=name, kind="python", text=text, value=known, line=value.lineno))
    return found


def within(node: ast.AST, loops_of: tuple[type[ast.AST], ...]) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Every node under one, with the innermost nodes of some types around it, the last is the innermost."""
    left: list[tuple[ast.AST, list[ast.AST]]] = [(node, [])]
    while left:
        at, loops = left.pop()
        yield at, loops
        inner = [*loops[-2:], at] if isinstance(at, loops_of) else loops
        left.extend((child, inner) for child in reversed(list(ast.iter_child_nodes(at))))


def cuda_texts(python: Python) -> Iterator[tuple[str, int, bool]]:
    """Texts of CUDA that calls in the module compile: text, the line on which it begins, whether its lines are the file's."""
    seen: set[int] = set()
    for node in ast.walk(python.tree):
        if not isinstance(node, ast.Call):
            continue
        name = python.name(node.func).rpartition(".")[2]
        if name not in _CUDA_TAKERS:
            continue
        keyword, position = _CUDA_TAKERS[name]
        given = next((k.value for k in node.keywords if k.arg == keyword), None)
        if given is None and position is not None and len(node.args) > position:
            given = node.args[position]
        for literal in _literals(python, given, 0):
            if id(literal) not in seen and isinstance(literal.value, str):
                seen.add(id(literal))
                rows = (literal.end_lineno or literal.lineno) - literal.lineno
                yield literal.value, literal.lineno, literal.value.count("\n") == rows


def _literals(python: Python, node: ast.expr | None, depth: int) -> Iterator[ast.Constant]:
    """The text literals that an expression is put together from."""
    if depth > 6 or node is None:
        return
    if isinstance(node, ast.Constant):
        yield node
    elif isinstance(node, ast.Name):
        found = python.assigned.get(node.id) or _local(python, node.id)
        yield from _literals(python, found, depth + 1)
    elif isinstance(node, ast.List | ast.Tuple):
        for one in node.elts[:20]:
            yield from _literals(python, one, depth + 1)
    elif isinstance(node, ast.BinOp):
        yield from _literals(python, node.left, depth + 1)
        yield from _literals(python, node.right, depth + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # text.replace(...), text.format(...)
        yield from _literals(python, node.func.value, depth + 1)


def _local(python: Python, name: str) -> ast.expr | None:
    for function in python.functions.values():
        for found, value in assignments(function.body):
            if found == name:
                return value
    return None

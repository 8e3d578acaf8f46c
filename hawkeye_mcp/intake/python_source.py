"""What a Python file defines, read from its text: it is never run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from hawkeye_mcp.intake.inside.source import numbers
from hawkeye_mcp.intake.parsing import parse


@dataclass
class PythonSource:
    """Names at the top level of a file, with the lines that bind them."""

    names: dict[str, int] = field(default_factory=dict)
    functions: dict[str, tuple[str, ...]] = field(default_factory=dict)  # with the names of their arguments
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # with their bases, as written
    constants: tuple[str, ...] = ()  # that are numbers, which `sizes` may replace
    imports: dict[str, int] = field(default_factory=dict)  # modules, imported anywhere
    imports_all: bool = False  # `from x import *`: it may define anything

    def defines(self, name: str) -> bool:
        return name in self.names or self.imports_all


def read(text: str) -> PythonSource:
    """What a file's text defines.

    Raises:
        NotPython: it has no syntax tree.
    """
    tree = parse(text)
    assert isinstance(tree, ast.Module)
    found = PythonSource(constants=tuple(numbers(tree)))
    for statement in _top(tree.body):
        _note(statement, found)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.imports.update({alias.name: node.lineno for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.imports.update({f"{node.module}.{alias.name}": node.lineno for alias in node.names})
    return found


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the file is imported, those in functions and classes aside."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try):
            for inner in ("body", "orelse", "finalbody"):
                yield from _top(getattr(statement, inner, []))
            for handler in getattr(statement, "handlers", []):
                yield from _top(handler.body)


def _note(statement: ast.stmt, found: PythonSource) -> None:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = statement.args
        found.functions[statement.name] = tuple(each.arg for each in (*arguments.posonlyargs, *arguments.args))
        found.names[statement.name] = statement.lineno
    elif isinstance(statement, ast.ClassDef):
        found.classes[statement.name] = tuple(ast.unparse(base) for base in statement.bases)
        found.names[statement.name] = statement.lineno
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            found.imports_all |= alias.name == "*"
            found.names[alias.asname or alias.name.split(".")[0]] = statement.lineno
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for name in (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)):
            found.names[name] = statement.lineno

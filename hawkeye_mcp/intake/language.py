"""What a source file is written in and what it offers, with the lines that say so. Files are read, never run."""

import ast
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp import kernels
from hawkeye_mcp.intake import python_source
from hawkeye_mcp.intake.parsing import NotPython, parse

Language = Literal[
    "cuda", "pytorch", "pytorch_with_inline_cuda", "triton", "pallas", "jax", "unknown", "unreadable"
]  # fmt: skip
INPUTS = "get_inputs"
_CONVENTIONAL = {"pytorch": "Model", "jax": "workload"}
_MOST_EVIDENCE = 12  # lines, of one file
_CUDA = {
    "__global__": re.compile(r"\b__global__\b"),
    "__device__": re.compile(r"\b__device__\b"),
    "__shared__": re.compile(r"\b__shared__\b"),
    "a launch <<<...>>>": re.compile(r"(?<!<)<<<[^;{}]{0,500}?>>>\s*\("),
}
# No pattern looks further than a bounded way ahead, or else takes what it looked at: each is linear in any text.
_GLOBAL = re.compile(r"\b__global__\b[^;{(]{0,500}?\b(\w+)\s*\(")
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^)]{0,200}\)")
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\[^\n]|[^'\\\n]){1,12}'", re.DOTALL)


class Evidence(BaseModel):
    """A line that says something."""

    model_config = ConfigDict(frozen=True)

    what: str
    line: int


class Source(BaseModel):
    """One file."""

    model_config = ConfigDict(frozen=True)

    path: str
    bytes: int = 0
    language: Language
    evidence: tuple[Evidence, ...] = Field((), description="What the language is told by.")
    entry_point: str | None = Field(None, description="Null: there is none, or it cannot be told which.")
    entry_points: tuple[Evidence, ...] = Field((), description="All that might be meant.")
    gives_inputs: bool = Field(False, description=f"Whether it defines {INPUTS}().")
    note: str = Field("", description="Why something is not known.")


def look(path: Path) -> Source:
    """What a file is."""
    try:
        if not path.is_file():
            return Source(path=str(path), language="unreadable", note="It is no regular file.")
        text = kernels.read(path)
    except (kernels.UnreadableKernel, OSError, ValueError) as error:
        return Source(path=str(path), language="unreadable", note=f"It {error}")
    size = len(text.encode("utf-8"))
    if path.suffix != ".py":
        return _c_source(path, text, size)
    try:
        return _python(path, text, size)
    except NotPython as error:
        return Source(path=str(path), bytes=size, language="unreadable", note=f"It is no Python: {error}.")


def _c_source(path: Path, text: str, size: int) -> Source:
    evidence = _cuda(text)
    if not evidence:
        note = "Nothing in it is of CUDA, and only CUDA is looked for in such a file."
        return Source(path=str(path), bytes=size, language="unknown", note=note)
    kernels_there = _kernels(text)
    return Source(
        path=str(path),
        bytes=size,
        language="cuda",
        evidence=tuple(evidence[:_MOST_EVIDENCE]),
        entry_points=tuple(kernels_there),
        entry_point=kernels_there[0].what if len(kernels_there) == 1 else None,
        note="" if len(kernels_there) == 1 else f"It has {len(kernels_there) or 'no'} kernels.",
    )


def _cuda(text: str, first_line: int = 1) -> list[Evidence]:
    """Marks of CUDA in C++ text, its comments and strings aside."""
    code = _code(text)
    lines = _lines(code)
    found = [
        Evidence(what=what, line=first_line + bisect(lines, match.start()))
        for what, mark in _CUDA.items()
        for match in mark.finditer(code)
    ]
    return sorted(found, key=lambda each: each.line)


def _kernels(text: str) -> list[Evidence]:
    code = _code(text)
    code = _BOUNDS.sub(lambda match: _blank(match.group()), code)
    found = {match.group(1): match.start() for match in _GLOBAL.finditer(code)}
    lines = _lines(code)
    return [Evidence(what=name, line=1 + bisect(lines, start)) for name, start in found.items()]


def _code(text: str) -> str:
    """The text with comments and strings blank, every line where it was."""
    return _NOT_CODE.sub(lambda match: _blank(match.group()), text)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _lines(text: str) -> list[int]:
    """Where its lines end."""
    return [match.start() for match in re.finditer("\n", text)]


def _python(path: Path, text: str, size: int) -> Source:
    """Raises NotPython."""
    tree, source = parse(text), python_source.read(text)
    marks = sorted(_marks(tree, source.imports), key=lambda each: each[1].line)
    told = {language for language, _ in marks}
    language, note = _language(told)
    entries: list[Evidence] = []
    if language.startswith("pytorch"):
        entries = _modules(tree)
    elif language == "jax":
        entries = _functions(tree)
    usual = _CONVENTIONAL.get(language.split("_")[0], "")
    names = [entry.what for entry in entries]
    chosen = usual if usual in names else names[0] if len(names) == 1 else None
    if not note and language in ("pytorch", "jax") and chosen is None:
        note = f"None of {', '.join(names)} is called {usual}." if names else "It defines nothing that could be meant."
    return Source(
        path=str(path),
        bytes=size,
        language=language,
        evidence=tuple(mark for _, mark in marks)[:_MOST_EVIDENCE],
        entry_point=chosen,
        entry_points=tuple(entries),
        gives_inputs=INPUTS in source.functions,
        note=note,
    )


def _language(told: set[str]) -> tuple[Language, str]:
    if {"pytorch", "jax"} <= told and not told & {"pallas", "triton", "cuda"}:
        return "unknown", "It imports both torch and jax."
    if "pallas" in told:
        return "pallas", ""
    if "triton" in told:
        return "triton", ""
    if "pytorch" in told:
        return ("pytorch_with_inline_cuda" if "cuda" in told else "pytorch"), ""
    if "jax" in told:
        return "jax", ""
    return "unknown", "It imports none of torch, triton and jax."


def _marks(tree: ast.AST, imports: dict[str, int]) -> Iterator[tuple[str, Evidence]]:
    """(language, line that tells of it)."""
    for name, line in imports.items():
        root = name.split(".")[0]
        if name.startswith("jax.experimental.pallas"):
            yield "pallas", Evidence(what=f"import {name}", line=line)
        elif root in ("torch", "triton", "jax"):
            yield "pytorch" if root == "torch" else root, Evidence(what=f"import {name}", line=line)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func) == "pallas_call":
            yield "pallas", Evidence(what="pallas_call(...)", line=node.lineno)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (inline := _cuda(node.value, node.lineno))
        ):
            yield "cuda", Evidence(what=f"{inline[0].what} in a string", line=inline[0].line)
        elif isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if ast.unparse(decorator).startswith("triton."):
                    yield "triton", Evidence(what=f"@{ast.unparse(decorator)}"[:80], line=decorator.lineno)


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _modules(tree: ast.AST) -> list[Evidence]:
    """Classes of torch modules that no other class of the file uses."""
    assert isinstance(tree, ast.Module)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    known: dict[str, ast.ClassDef] = {}
    for node in classes:  # in order, so that bases come first
        if any(_last(base) == "Module" or _last(base) in known for base in node.bases):
            known[node.name] = node
    return _unused(list(known.values()))


def _functions(tree: ast.AST) -> list[Evidence]:
    """Public functions that no other function of the file uses."""
    assert isinstance(tree, ast.Module)
    known = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith(("_", "get_", "create_"))
        and node.name not in ("main", "oracle")
    }
    return _unused(list(known.values()))


def _unused(known: Sequence[ast.ClassDef | ast.FunctionDef]) -> list[Evidence]:
    used = {
        inner.id for node in known for inner in ast.walk(node) if isinstance(inner, ast.Name) and inner.id != node.name
    }
    return [Evidence(what=node.name, line=node.lineno) for node in known if node.name not in used]

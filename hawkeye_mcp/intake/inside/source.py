"""The person's file: loaded with some of its constants replaced, and its faults told by its own lines."""

import ast
import contextlib
import errno
import hashlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import hawkeye_mcp
from hawkeye_mcp.intake.capture import CaptureFailed

_MESSAGE = 600
NO_MEMORY = ("can't allocate memory", "RESOURCE_EXHAUSTED", "out of memory", "bad_alloc")


def load(path: Path, constants: Mapping[str, float], name: str) -> ModuleType:
    """The file's module, with each constant set right after each statement of the file's top level that binds it.

    Raises:
        CaptureFailed: bad_sizes for a constant that the file does not have, source_fails for all else.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, str(path))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise CaptureFailed("source_fails", f"{path} cannot be read: {error}.", "Mend the file.") from None
    text = replaced(text, tree, constants, path.name)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses, for one, look their module up
    top = _top(path.parent)
    module.__package__ = ".".join(
        path.parent.relative_to(top).parts
    )  # so that `from .layers import` finds its own package
    for folder in (str(top), str(path.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)  # as for a script: its neighbours can be imported
    with told(path, "It cannot be imported"):
        exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def _top(folder: Path) -> Path:
    """The folder that packages around a file are imported from."""
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def imported(path: Path) -> dict[str, str]:
    """What of a person's own files beside the source was imported, as seen from its folder: SHA-256 of each."""
    installed = [Path(hawkeye_mcp.__file__).parent, *map(Path, sysconfig.get_paths().values())]
    files = {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    return {
        os.path.relpath(file, path.parent): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(files)
        if file != path and file.is_file() and not any(file.is_relative_to(folder) for folder in installed)
    }


def numbers(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that statements of the top level bind to numbers: literals, and arithmetic on such names and literals."""
    found: dict[str, ast.expr] = {}
    for statement in tree.body:
        for name, value in _bindings(statement):
            if _numeric(value, found):
                found[name] = value
            else:
                found.pop(name, None)
    return found


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value:
        targets, value = [statement.target], statement.value
    else:
        return
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from ((t.id, v) for t, v in zip(target.elts, value.elts, strict=True) if isinstance(t, ast.Name))


def _numeric(value: ast.expr, known: Mapping[str, ast.expr]) -> bool:
    match value:
        case ast.Constant(value=bool() | int() | float()):
            return True
        case ast.Name(id=name):
            return name in known
        case ast.UnaryOp(operand=operand):
            return _numeric(operand, known)
        case ast.BinOp(left=left, right=right):
            return _numeric(left, known) and _numeric(right, known)
    return False


def replaced(text: str, tree: ast.Module, constants: Mapping[str, float], name: str) -> str:
    """The text of a file with each constant set right after each statement of its top level that binds it, on the same line.

    tree: of the text. name: of the file, for people.

    Raises:
        CaptureFailed: bad_sizes, for a constant that the file does not have.
    """
    there = numbers(tree)
    if unknown := [constant for constant in constants if constant not in there]:
        known = ", ".join(f"{n} = {ast.unparse(v)}" for n, v in there.items()) or "none"
        raise CaptureFailed(
            "bad_sizes",
            f"`sizes` names {', '.join(unknown)}, but {name} has no such number at its top level; it has {known}.",
            "Name one of these in `sizes`, or give the file such a constant.",
        )
    lines = text.encode().splitlines(keepends=True)
    for statement in reversed(tree.body):  # so that places of those before stay what they are
        if names := dict.fromkeys(name for name, _ in _bindings(statement) if name in constants):
            assert statement.end_lineno and statement.end_col_offset
            line, end = lines[statement.end_lineno - 1], statement.end_col_offset  # which counts bytes
            new = "".join(f"; {name} = {constants[name]!r}" for name in names)
            lines[statement.end_lineno - 1] = line[:end] + new.encode() + line[end:]
    return b"".join(lines).decode()


def entry(module: ModuleType, name: str, path: Path, what: str) -> Any:
    """What the file calls `name`.

    Raises:
        CaptureFailed: no_entry_point.
    """
    if callable(found := getattr(module, name, None)):
        return found
    own = [
        key
        for key, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__ and not key.startswith("_")
    ]
    raise CaptureFailed(
        "no_entry_point",
        f"{path.name} has no {name} to call, which is to be {what}; it defines {', '.join(own) or 'nothing that can be called'}.",
        "Name the right one in the job file's `input`, or add it to the file.",
    )


@contextlib.contextmanager
def told(path: Path, what: str, fix: str = "Run the file by itself and mend it.") -> Iterator[None]:
    """Whatever the person's code raises in here becomes a CaptureFailed that names its line."""
    try:
        yield
    except CaptureFailed:
        raise
    except (Exception, SystemExit) as error:
        said = words(error, path)
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in NO_MEMORY):
            raise CaptureFailed(
                "too_big",
                f"{what}: there is not enough memory. {said}",
                "Give `sizes` smaller numbers, above all at `check`.",
            ) from None
        if isinstance(error, OSError) and error.errno == errno.EROFS:
            fix = "Let it write nothing but temporary files (tempfile): it is run where all else can only be read."
        if isinstance(error, ModuleNotFoundError) and error.name:
            fix = f"Install it: {sys.executable} -m pip install {error.name.split('.')[0]}"
        raise CaptureFailed("source_fails", f"{what}: {said}", fix) from None


def words(error: BaseException, path: Path) -> str:
    """What went wrong and where in the file, in one line or a few."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    where = f"{path.name} line {frames[-1].lineno}, in {frames[-1].name}: " if frames else ""
    if isinstance(error, SystemExit):
        return f"{where}it ends the process (sys.exit, code {error.code})."
    text = str(error).strip().split("\nThe error occurred while tracing")[0]  # what jax adds is about this package
    return f"{where}{type(error).__name__}: {text[:_MESSAGE]}".rstrip(": ")


Progress = Callable[[str], None]

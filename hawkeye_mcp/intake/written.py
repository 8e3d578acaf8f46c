"""Is a folder what `hawkeye job import` writes, and nothing else? Asked before a host judges by one that a client sent.

What passes may be loaded although nobody who is trusted wrote it: its functions draw numbers, take arrays from beside them
and call what `emitted` lists, on these alone. Nothing of it is run here. Imports no jax.
"""

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hawkeye_mcp import workloads
from hawkeye_mcp.intake import (
    approval,
    emitted,
    folder,
    inputs_source,
    parsing,
    written_arrays,
    written_inputs,
    written_program,
)
from hawkeye_mcp.intake.emitted import NotEmitted
from hawkeye_mcp.intake.written_program import Shapes
from hawkeye_mcp.workloads import Array, Workload

# What each file may have, in bytes. Of the programs in our tests the longest has 47,000; one of these 500,000 bytes is looked
# at in under 20 s.
LARGEST_BYTES = {
    "workload.py": 1 << 19,
    "workload.toml": 1 << 18,
    approval.ARRAYS: 64 << 20,
    approval.FILE: 1 << 16,
}
LONGEST_NAME = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names in names, which are never written; tomllib takes the square of their number of steps for them.
_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DOTTED = re.compile(rf"""(?<![\w"'\\-])(?:{_KEY}[ \t]*+\.[ \t]*+){{16}}""")
_FUNCTIONS = ("create_inputs", "workload", "oracle")


class NotImported(ValueError):
    """The folder holds something that an import never writes; the message says what, and where."""


def check(path: Path) -> list[str]:
    """The names of the files of an imported workload that a judgement by it needs.

    Raises:
        NotImported: it is no workload, or not one that `hawkeye job import` wrote.
    """
    try:
        if (path / "workload.toml").is_file():
            _flat(_read(path / "workload.toml").decode("utf-8", "replace"))
        declared = workloads.find(f"{path}/")
        _declaration(declared)
        kept = _python(_text(path / "workload.py"), declared)
        if kept:
            _not_too_large(path / approval.ARRAYS)
            written_arrays.check(path / approval.ARRAYS, _arrays(declared, kept))
        if declared.approval and (path / approval.FILE).exists():
            _not_too_large(path / approval.FILE)
    except RecursionError:
        raise NotImported("workload.py is nested more deeply than is ever written.") from None
    except (NotEmitted, workloads.UnknownWorkload, OSError) as error:
        raise NotImported(str(error)) from None
    except ValueError:  # Python's own, where a message or a text would say such a number
        raise NotImported("workload.py has a number of more digits than are ever written.") from None
    return [*approval.TEXTS, *([approval.ARRAYS] if kept else []), *([approval.FILE] if declared.approval else [])]


def _flat(toml: str) -> None:
    if _DOTTED.search(toml):
        raise NotEmitted("workload.toml has names within names within names.")


def _not_too_large(path: Path) -> None:
    if path.is_file() and path.stat().st_size > LARGEST_BYTES[path.name]:
        raise NotEmitted(f"{path.name} has more than {LARGEST_BYTES[path.name]} bytes.")


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST_BYTES[path.name] + 1)
    if len(data) > LARGEST_BYTES[path.name]:
        raise NotEmitted(f"{path.name} has more than {LARGEST_BYTES[path.name]} bytes.")
    return data


def _text(path: Path) -> str:
    """The text as Python will read it: no other encoding, no other ends of lines."""
    data = _read(path)
    if wrong := re.search(rb"[^ -~\n]", data):
        line = data.count(b"\n", 0, wrong.start()) + 1
        raise NotEmitted(f"Line {line} of {path.name} has a character that is never written.")
    return data.decode("ascii")


def _declaration(declared: Workload) -> None:
    """Names in it become parts of texts that the program is held against, and lengths become memory."""
    if declared.family != "imported":
        raise NotEmitted("workload.toml says that it is no imported workload.")
    arrays = (*declared.inputs, *declared.outputs)
    for name in (*declared.sizes["full"], *(array.name for array in arrays)):
        if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
            raise NotEmitted(f"{name[:50]!r} in workload.toml is no name.")
    if len({array.name for array in declared.inputs}) < len(declared.inputs):
        raise NotEmitted("workload.toml declares an input twice.")
    for array in arrays:
        if array.dtype not in emitted.DTYPES:
            raise NotEmitted(f"{array.dtype[:50]!r} in workload.toml is no dtype of an imported workload.")
    for size in inputs_source.SIZES:
        for shape, _ in declared.shapes(arrays, size):
            if math.prod(shape) > emitted.MOST_ELEMENTS:
                raise NotEmitted(f"workload.toml declares an array of more than {emitted.MOST_ELEMENTS} elements.")
    if not all(math.isfinite(number) for number in _floats(declared.model_dump())):
        raise NotEmitted("workload.toml holds a number that is not finite.")


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _floats(inner)


def _python(text: str, declared: Workload) -> dict[str, tuple[Array, workloads.Size]]:
    """What create_inputs takes from the arrays, by key."""
    start = next((head for kept in (True, False) if text.startswith(head := folder.head(kept=kept))), None)
    if start is None:
        raise NotEmitted("workload.py does not begin as an import writes it.")
    try:
        tree = parsing.parse(text[len(start) :])
    except parsing.NotPython as error:
        raise NotEmitted(f"workload.py is no Python: {str(error)[:200]}.") from None
    ast.increment_lineno(tree, start.count("\n"))
    body = tree.body if isinstance(tree, ast.Module) else []
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    if len(functions) < len(body) or tuple(node.name for node in functions) != _FUNCTIONS:
        raise NotEmitted(f"workload.py holds something else than the functions {', '.join(_FUNCTIONS)}, in this order.")
    draws, *programs = functions
    kept = written_inputs.check(draws, declared)
    if kept and start != folder.head(kept=True):
        raise NotEmitted("workload.py does not begin as an import writes it.")
    for node in programs:
        written_program.check(node, _shapes(declared))
    return kept


def _shapes(declared: Workload) -> Shapes:
    names = [array.name for array in declared.inputs]
    return {
        size: dict(zip(names, (shape for shape, _ in declared.shapes(declared.inputs, size)), strict=True))
        for size in inputs_source.SIZES
    }


def _arrays(
    declared: Workload, kept: dict[str, tuple[Array, workloads.Size]]
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each array that is kept."""
    shapes = _shapes(declared)
    for key, (array, _) in kept.items():
        if "/" not in key and shapes["full"][array.name] != shapes["check"][array.name]:
            raise NotEmitted(f"{array.name} is kept as one array, and workload.toml declares two shapes of it.")
    return {key: (shapes[size][array.name], array.dtype) for key, (array, size) in kept.items()}

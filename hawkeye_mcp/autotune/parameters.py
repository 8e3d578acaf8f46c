"""The integer constants of a kernel file, and the file with other values in their place and no other change."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\r|\n")  # as Python counts lines
_NAMING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class NoParameter(ValueError):
    """What was named cannot be varied; the message says why and what can be."""


@dataclass(frozen=True)
class Parameter:
    """A module-level line `NAME = 128`. start, end: where the number stands, in bytes of the UTF-8 text."""

    value: int
    start: int
    end: int


def constants(source: str) -> dict[str, Parameter]:
    """The module-level integer constants that are bound once, by name, in the file's order.

    Raises:
        NoParameter: the file is no Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NoParameter(f"the kernel file is not valid Python: {error}. Mend it first.") from None
    starts = [0, *(match.end() for match in _LINE_END.finditer(source.encode("utf-8", "surrogatepass")))]
    bound = Counter(_bound(tree))
    found = {}
    for statement in tree.body:
        name, value = _assigned(statement)
        number = None if value is None else _integer(value)
        if value is None or number is None or bound[name] > 1 or not value.end_lineno or value.end_col_offset is None:
            continue
        start = starts[value.lineno - 1] + value.col_offset
        found[name] = Parameter(number, start, starts[value.end_lineno - 1] + value.end_col_offset)
    return found


def values(source: str, names: Mapping[str, object]) -> dict[str, int]:
    """What the file itself gives each of these names.

    Raises:
        NoParameter: one of them is no constant that can be varied; the message names those that are.
    """
    known = constants(source)
    if missing := [name for name in names if name not in known]:
        there = ", ".join(f"{name} = {found.value}" for name, found in known.items())
        raise NoParameter(
            f"{', '.join(missing)}: the kernel file has no such module-level integer constant that is bound once. "
            + (
                f"It has {there}."
                if there
                else "It has none: write lines such as BLOCK_M = 128 at the top and use them."
            )
        )
    return {name: known[name].value for name in names}


def rewritten(source: str, wanted: Mapping[str, int]) -> str:
    """The file with these values; one that it has already is left as it is written.

    Raises:
        NoParameter: see `values`.
    """
    values(source, wanted)
    known, data = constants(source), source.encode("utf-8", "surrogatepass")
    changed = [(known[name], value) for name, value in wanted.items() if known[name].value != value]
    for parameter, value in sorted(changed, key=lambda change: -change[0].start):
        data = data[: parameter.start] + str(value).encode() + data[parameter.end :]
    text = data.decode("utf-8", "surrogatepass")
    assert values(text, wanted) == dict(wanted)
    return text


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """Name and value of `NAME = value` or `NAME: type = value`; no value if it is something else."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value:
        target, value = statement.target, statement.value
    else:
        return "", None
    return (target.id, value) if isinstance(target, ast.Name) else ("", None)


def _integer(value: ast.expr) -> int | None:
    """Of a literal, with a minus sign or without."""
    sign = 1
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        sign, value = -1, value.operand
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return sign * value.value
    return None


def _bound(tree: ast.Module) -> Iterator[str]:
    """Every binding of a name at module level, once for each time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names * 2  # a function changes it
        elif isinstance(node, ast.NamedExpr):
            yield node.target.id  # in a default or a decorator it binds outside
    pending: list[ast.AST] = [tree]
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                yield node.id
            elif isinstance(node, ast.alias):
                yield node.asname or node.name.split(".")[0]
            elif isinstance(node, _NAMING) and node.name:
                yield node.name
            elif isinstance(node, ast.MatchMapping) and node.rest:
                yield node.rest
            if not isinstance(node, _SCOPES):
                pending.append(node)

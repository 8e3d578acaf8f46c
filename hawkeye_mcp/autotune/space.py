"""Which points there are: values by name, and conditions on them that are read, never run."""

import ast
import itertools
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

MOST_POINTS = 20_000  # before conditions: they are all written down
_LARGEST = 2**53

Point = dict[str, int]

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ALLOWED = "Use names, integers, + - * // %, comparisons, and, or, not."


class BadSpace(ValueError):
    """The search space says nothing that can be searched; the message says why and what to write."""


Value = Annotated[int, Field(strict=True, ge=-_LARGEST, le=_LARGEST)]


class Space(BaseModel):
    """{"parameters": {"BLOCK_M": [128, 256]}, "constraints": ["BLOCK_M * BLOCK_K <= 65536"]}"""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parameters: dict[str, list[Value]] = Field(min_length=1, description="values by the name of the constant")
    constraints: list[str] = Field([], description="a point must fulfil all; over names of integer constants")

    @field_validator("parameters")
    @classmethod
    def _distinct(cls, given: dict[str, list[int]]) -> dict[str, list[int]]:
        if empty := [name for name, values in given.items() if not values]:
            raise ValueError(f"{', '.join(empty)}: give at least one value")
        return {name: list(dict.fromkeys(values)) for name, values in given.items()}


def parse(text: str) -> Space:
    """A space from JSON, in the form that the model shows, or its parameters alone.

    Raises:
        BadSpace: it is none.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSpace(f"The search space is no JSON: {error}. Write {Space.__doc__}.") from None
    return checked(given)


def checked(given: object) -> Space:
    """Raises: BadSpace."""
    if isinstance(given, dict) and not {"parameters", "constraints"} & set(given):
        given = {"parameters": given}
    try:
        return Space.model_validate(given)
    except ValidationError as error:
        wrong = "; ".join(": ".join((".".join(map(str, e["loc"])) or "space", e["msg"])) for e in error.errors()[:5])
        raise BadSpace(f"The search space is wrong: {wrong}. Write {Space.__doc__}.") from None


def points(space: Space, known: Mapping[str, int]) -> list[Point]:
    """Every point that fulfils all constraints, in the order of the lists, the last name fastest.

    known: other integer constants that constraints may name.

    Raises:
        BadSpace: too many, none, or a constraint that says nothing.
    """
    count = math.prod(len(values) for values in space.parameters.values())
    if count > MOST_POINTS:
        raise BadSpace(
            f"The search space has {count:,} points before constraints; {MOST_POINTS:,} may be. Shorten lists."
        )
    conditions = [_parsed(text, {*space.parameters, *known}) for text in space.constraints]
    every = [
        dict(zip(space.parameters, values, strict=True)) for values in itertools.product(*space.parameters.values())
    ]
    found = [point for point in every if all(_holds(node, {**known, **point}) for node in conditions)]
    if not found:
        raise BadSpace(
            f"None of the {count:,} points fulfils the constraints: {'; '.join(space.constraints)}. Loosen them."
        )
    return found


def _parsed(text: str, names: set[str]) -> ast.expr:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadSpace(f"The constraint {text[:200]!r} cannot be read. {_ALLOWED}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in names:
            raise BadSpace(
                f"The constraint {text[:200]!r} names {node.id}, which is none of {', '.join(sorted(names))}. Correct it."
            )
        if not _is_allowed(node):
            raise BadSpace(f"The constraint {text[:200]!r} may not hold {type(node).__name__}. {_ALLOWED}")
    if not isinstance(tree, ast.Compare | ast.BoolOp) and not _is_not(tree):
        raise BadSpace(f"The constraint {text[:200]!r} is neither true nor false. Compare it with something.")
    return tree


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    kinds = (ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.And, ast.Or, ast.Not, ast.USub)
    return isinstance(node, (*kinds, *_BINARY, *_COMPARED))


def _holds(node: ast.expr, point: Mapping[str, int]) -> bool:
    try:
        return bool(_value(node, point))
    except ZeroDivisionError:
        told = ", ".join(f"{name} = {value}" for name, value in point.items())
        raise BadSpace(
            f"The constraint {ast.unparse(node)!r} divides by zero at {told}. Leave such values out."
        ) from None
    except RecursionError:
        raise BadSpace(f"A constraint is nested too deeply. {_ALLOWED}") from None


def _value(node: ast.expr, point: Mapping[str, int]) -> int:
    """Of an expression that `_parsed` let through."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return point[name]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, point)
        case ast.UnaryOp(operand=operand):
            return -_value(operand, point)
        case ast.BinOp(left=left, op=kind, right=right):
            return _BINARY[type(kind)](_value(left, point), _value(right, point))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, point) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, point) for part in parts)
        case ast.Compare(left=left, ops=kinds, comparators=others):
            return _compared(_value(left, point), kinds, [_value(other, point) for other in others])
    raise AssertionError(ast.dump(node))


def _compared(first: int, kinds: Sequence[ast.cmpop], others: Sequence[int]) -> bool:
    pairs = zip([first, *others], kinds, others, strict=False)
    return all(_COMPARED[type(kind)](left, right) for left, kind, right in pairs)

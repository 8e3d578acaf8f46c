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
MOST_STEPS = 2_000_000  # points times parts of their conditions: some seconds
_LONGEST_CONSTRAINT = 500  # characters; also bounds the numbers that it can come to
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
    constraints: list[Annotated[str, Field(max_length=_LONGEST_CONSTRAINT)]] = Field(
        [], description="a point must fulfil all; over names of integer constants"
    )

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
        given = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise BadSpace(f"The search space is no JSON: {error}. Write {Space.__doc__}.") from None
    return checked(given)


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Raises: ValueError: a name stands twice, and one of its values would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{max(names, key=names.count)!r} stands there twice")
    return found


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
    steps = count * sum(isinstance(node, ast.expr) for condition in conditions for node in ast.walk(condition))
    if steps > MOST_STEPS:
        raise BadSpace(
            f"Checking {len(conditions)} constraints at {count:,} points takes {steps:,} steps; {MOST_STEPS:,} may be. Shorten "
            "the constraints or the lists."
        )
    holds = [_closure(condition) for condition in conditions]
    every = [
        dict(zip(space.parameters, values, strict=True)) for values in itertools.product(*space.parameters.values())
    ]
    found = [point for point in every if _fulfils({**known, **point}, conditions, holds)]
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


def _fulfils(point: Point, conditions: Sequence[ast.expr], holds: Sequence[Callable[[Point], int]]) -> bool:
    """holds: each condition's closure."""
    for condition, hold in zip(conditions, holds, strict=True):
        try:
            if not hold(point):
                return False
        except ZeroDivisionError:
            told = ", ".join(f"{name} = {value}" for name, value in point.items())
            raise BadSpace(
                f"The constraint {ast.unparse(condition)!r} divides by zero at {told}. Leave such values out."
            ) from None
    return True


def _closure(node: ast.expr) -> Callable[[Point], int]:
    """The value of an expression that `_parsed` let through, as a function of a point; none of its text is run."""
    match node:
        case ast.Constant(value=int(number)):
            return lambda point: number
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.UnaryOp(op=kind, operand=operand):
            of = _closure(operand)
            return (lambda point: not of(point)) if isinstance(kind, ast.Not) else (lambda point: -of(point))
        case ast.BinOp(left=left, op=kind, right=right):
            one, other, combine = _closure(left), _closure(right), _BINARY[type(kind)]
            return lambda point: combine(one(point), other(point))
        case ast.BoolOp(op=kind, values=values):
            parts, joined = [_closure(value) for value in values], all if isinstance(kind, ast.And) else any
            return lambda point: joined(part(point) for part in parts)
        case ast.Compare(left=left, ops=kinds, comparators=others):
            terms, compared = [_closure(term) for term in (left, *others)], [_COMPARED[type(kind)] for kind in kinds]
            return lambda point: _ordered([term(point) for term in terms], compared)
    raise AssertionError(ast.dump(node))


def _ordered(terms: Sequence[int], compared: Sequence[Callable[[int, int], bool]]) -> bool:
    return all(compare(*pair) for compare, pair in zip(compared, itertools.pairwise(terms), strict=True))

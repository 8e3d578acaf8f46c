"""Is a function of `workload.py` an emitted program of two sizes (`one_program`, `precise`)? Imports no jax.

Lengths in it are taken from arguments and computed with. With each length as the number that it is at one size, what is
left must be an emitted program, and is held against the same list.
"""

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import NoReturn

from hawkeye_mcp.intake import emitted, precise
from hawkeye_mcp.intake.emitted import NotEmitted
from hawkeye_mcp.workloads import Size

_POWERS = (0.5, -0.5, -1, 0.25, -0.25)  # those of `one_program`
_ARITHMETIC = (
    *(ast.Name, ast.Load, ast.BinOp, ast.UnaryOp),
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Pow, ast.USub),
)
_LARGEST = 2**64
_INSIDE = {"full": "at_full_size", "check": "at_check_size"}

Shapes = Mapping[Size, Mapping[str, tuple[int, ...]]]


def check(node: ast.FunctionDef, shapes: Shapes) -> None:
    """shapes: of the arguments by their names, in their order, at each size.

    Raises:
        NotEmitted: it is anything else. RecursionError: it is nested too deeply.
    """
    names = list(shapes["full"])
    if [argument.arg for argument in node.args.args] != names:
        raise NotEmitted(f"{node.name} takes other arguments than workload.toml declares.")
    if len(node.body) == 3 and all(isinstance(inner, ast.FunctionDef) for inner in node.body[:2]):
        *both, last = node.body
        _plain(node)
        for inner, size in zip(both, _INSIDE, strict=True):
            assert isinstance(inner, ast.FunctionDef)
            _program(inner, _INSIDE[size], names, shapes)
        if not any(same(last, _choice(names, name, shape)) for name, shape in shapes["full"].items()):
            refuse(last, "a choice between programs that no shape of an argument makes")
    else:
        _program(node, node.name, names, shapes)


def _choice(names: Sequence[str], argument: str, shape: tuple[int, ...]) -> str:
    given = ", ".join(names)
    return f"return at_full_size({given}) if {argument}.shape == {shape} else at_check_size({given})"


def _plain(node: ast.FunctionDef) -> None:
    """Nothing but plain arguments, as `emitted` asks of every function that it looks at."""
    bare = copy.copy(node)
    bare.body = [ast.Return(ast.Constant(0))]
    emitted.check_function(bare, node.name)


def _program(node: ast.FunctionDef, name: str, names: Sequence[str], shapes: Shapes) -> None:
    for given in shapes.values():
        if emitted.check_function(_at(node, given), name) != names:
            raise NotEmitted(f"{name} takes other arguments than workload.toml declares.")


def _at(node: ast.FunctionDef, shapes: Mapping[str, tuple[int, ...]]) -> ast.FunctionDef:
    """The function at one size, without what takes lengths, and what widens arguments and outputs."""
    changed, known = copy.deepcopy(node), set(shapes)
    body, lengths = changed.body, dict[str, int]()
    while len(body) > 1 and (found := _length(body[0], shapes)):
        emitted.define(body[0], found[0], known)
        lengths[found[0]] = found[1]
        del body[0]
    for name in shapes:
        if len(body) > 1 and same(body[0], f"{name} = lax.convert_element_type({name}, jnp.{precise.WIDE})"):
            del body[0]
    if isinstance(body[-1], ast.Return) and body[-1].value is not None:
        body[-1].value = _narrowed(body[-1].value)
    inside = _Lengths(lengths)
    changed.body = [inside.visit(one) for one in body]
    return changed


def _narrowed(node: ast.expr) -> ast.expr:
    """An output as it was before an oracle widens it; several are a tuple."""
    if isinstance(node, ast.Tuple):
        node.elts = [_narrowed(item) if isinstance(item, ast.Call) else item for item in node.elts]
    elif isinstance(node, ast.Call) and same(node.func, "lax.convert_element_type") and not node.keywords:
        if len(node.args) == 2 and same(node.args[1], f"jnp.{precise.WIDE}"):
            return node.args[0]
    return node


def _length(node: ast.stmt, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, int] | None:
    """The name and value of a line `T = x.shape[0]`; None if it is another."""
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)):
        return None
    target, axis = node.targets[0], node.value.slice
    if not (isinstance(target, ast.Name) and isinstance(axis, ast.Constant) and type(axis.value) is int):
        return None
    for name, shape in shapes.items():
        if axis.value in range(len(shape)) and same(node, f"{target.id} = {name}.shape[{axis.value}]"):
            return target.id, shape[axis.value]
    return None


class _Lengths(ast.NodeTransformer):
    """Numbers in the place of lengths and of what is computed of them alone. Everything else stays as it is."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        self._lengths = lengths
        self._taken = {*lengths, "float"}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            self._defines(node, node.id)
        elif node.id in self._lengths:
            return _number(node, self._lengths[node.id])
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self._defines(node, node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._defines(node, node.name)
        return self.generic_visit(node)

    def _defines(self, node: ast.AST, name: str) -> None:
        if name in self._taken:
            refuse(node, f"{name[:50]!r} defined twice")

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        of_lengths = self._of_lengths(node)
        self.generic_visit(node)
        return _computed(node) if of_lengths else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        of_lengths = isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1
        of_lengths = of_lengths and not node.keywords and self._of_lengths(node.args[0])
        self.generic_visit(node)
        if not of_lengths:
            return node
        return _number(node, _float(node, _value(node.args[0])))

    def _of_lengths(self, node: ast.expr) -> bool:
        """Whether it is arithmetic of lengths and numbers, and has a length in it."""
        inner = list(ast.walk(node))
        names = {one.id for one in inner if isinstance(one, ast.Name)}
        if not names or not names <= self._lengths.keys():
            return False
        return all(
            isinstance(one, _ARITHMETIC) or (isinstance(one, ast.Constant) and type(one.value) in (int, float))
            for one in inner
        )


def _computed(node: ast.BinOp) -> ast.Constant:
    """The number that an operation on two numbers gives."""
    left, right, kind = _value(node.left), _value(node.right), node.op
    try:
        if isinstance(kind, ast.Pow):
            if right not in _POWERS:
                refuse(node, "a power of a length that is no root of it")
            return _number(node, left**right)
        if type(left) is not int or type(right) is not int:
            refuse(node, "arithmetic of a length and a number that is not whole")
        if isinstance(kind, ast.FloorDiv):
            return _number(node, left // right)
        if isinstance(kind, ast.Mult):
            return _number(node, left * right)
        return _number(node, left + right if isinstance(kind, ast.Add) else left - right)
    except (ZeroDivisionError, OverflowError):
        refuse(node, "arithmetic of lengths that has no result")


def _value(node: ast.expr) -> int | float:
    sign = 1
    if isinstance(node, ast.UnaryOp):
        sign, node = -1, node.operand
    if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float):
        refuse(node, "arithmetic of a length and something else")
    return sign * node.value


def _float(node: ast.AST, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        refuse(node, "a length that is too large")


def _number(node: ast.AST, value: object) -> ast.Constant:
    if not isinstance(value, int | float) or abs(value) >= _LARGEST:
        refuse(node, "a length that is too large, or none")
    constant = ast.Constant(value)
    ast.copy_location(constant, node)
    return constant


def same(node: ast.AST, text: str) -> bool:
    """Whether a node is what this text is, however it is laid out. text: made of what was checked alone."""
    (wanted,) = ast.parse(text).body
    return ast.dump(node) == ast.dump(wanted.value if isinstance(wanted, ast.Expr) else wanted)


def refuse(node: ast.AST, what: str) -> NoReturn:
    """Raises NotEmitted."""
    raise NotEmitted(f"Line {getattr(node, 'lineno', 0)} has {what}, which is never written.")

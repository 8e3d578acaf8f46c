"""Is a function of `workload.py` an emitted program of two sizes (`one_program`, `precise`)? Imports no jax.

Lengths in it are taken from arguments and computed with. With each length as the number that it is at one size, what is
left must be an emitted program, and is held against the same list. All of it takes time that grows with the text alone.
"""

import ast
import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from hawkeye_mcp.intake import emitted, precise
from hawkeye_mcp.intake.emitted import NotEmitted
from hawkeye_mcp.workloads import Size

_POWERS = (0.5, -0.5, -1, 0.25, -0.25)  # those of `one_program`
_WHOLE: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_LARGEST = 2**64
_OF_LENGTHS = "of lengths"  # the kind of a constant that came of them; Python itself knows none but `u`
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
        _chooses(last, names, shapes["full"])
    else:
        _program(node, node.name, names, shapes)


def _plain(node: ast.FunctionDef) -> None:
    """Nothing but plain arguments, as `emitted` asks of every function that it looks at."""
    bare = copy.copy(node)
    bare.body = [ast.Return(ast.Constant(0))]
    emitted.check_function(bare, node.name)


def _chooses(node: ast.stmt, names: Sequence[str], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """`return at_full_size(x, w) if x.shape == (64, 32) else at_check_size(x, w)`."""
    given = ", ".join(names)
    value = node.value if isinstance(node, ast.Return) else None
    test = value.test if isinstance(value, ast.IfExp) else None
    name = _shape_of(test.left, shapes) if isinstance(test, ast.Compare) else None
    chosen = (
        f"return at_full_size({given}) if {name}.shape == {shapes[name]} else at_check_size({given})" if name else ""
    )
    if not chosen or not same(node, chosen):
        refuse(node, "a choice between programs that no shape of an argument makes")


def _shape_of(node: ast.expr, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    """The argument whose shape it is; None if it is something else."""
    if not (isinstance(node, ast.Attribute) and node.attr == "shape" and isinstance(node.value, ast.Name)):
        return None
    return node.value.id if node.value.id in shapes else None


def _program(node: ast.FunctionDef, name: str, names: Sequence[str], shapes: Shapes) -> None:
    for given in shapes.values():
        if emitted.check_function(_at(node, given), name) != names:
            raise NotEmitted(f"{name} takes other arguments than workload.toml declares.")


def _at(node: ast.FunctionDef, shapes: Mapping[str, tuple[int, ...]]) -> ast.FunctionDef:
    """The function at one size, without what takes lengths, and what widens arguments and outputs."""
    changed, known = copy.deepcopy(node), set(shapes)
    *body, last = changed.body
    lengths: dict[str, int] = {}
    begins = 0
    while begins < len(body) and (found := _length(body[begins], shapes)):
        emitted.define(body[begins], found[0], known)
        lengths[found[0]] = found[1]
        begins += 1
    for name in shapes:
        widens = f"{name} = lax.convert_element_type({name}, jnp.{precise.WIDE})"
        begins += begins < len(body) and same(body[begins], widens)
    if isinstance(last, ast.Return) and last.value is not None:
        last.value = _narrowed(last.value)
    inside = _Lengths(lengths)
    changed.body = [inside.visit(one) for one in (*body[begins:], last)]
    return changed


def _length(node: ast.stmt, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, int] | None:
    """The name and value of a line `T = x.shape[0]`; None if it is another."""
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)):
        return None
    target, axis, of = node.targets[0], node.value.slice, _shape_of(node.value.value, shapes)
    if of is None or not isinstance(target, ast.Name) or not isinstance(axis, ast.Constant):
        return None
    if type(axis.value) is not int or axis.value not in range(len(shapes[of])):
        return None
    return (target.id, shapes[of][axis.value]) if same(node, f"{target.id} = {of}.shape[{axis.value}]") else None


def _narrowed(node: ast.expr) -> ast.expr:
    """An output as it was before an oracle widens it; several are a tuple."""
    if isinstance(node, ast.Tuple):
        node.elts = [_narrowed(item) if isinstance(item, ast.Call) else item for item in node.elts]
    elif isinstance(node, ast.Call) and same(node.func, "lax.convert_element_type") and not node.keywords:
        if len(node.args) == 2 and same(node.args[1], f"jnp.{precise.WIDE}"):
            return node.args[0]
    return node


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

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        is_less = isinstance(node.op, ast.USub) and _is_of_lengths(node.operand)
        return _number(node, -_value(node.operand)) if is_less else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        sides = (node.left, node.right)
        return _computed(node) if any(_is_of_lengths(side) for side in sides) and all(map(_is_number, sides)) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "float"):
            return node
        if node.keywords or len(node.args) != 1 or not _is_of_lengths(node.args[0]):
            refuse(node, "float of something that is no length")
        return _number(node, float(_value(node.args[0])))


def _is_of_lengths(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.kind == _OF_LENGTHS


def _is_number(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _value(node: ast.expr) -> int | float:
    """Of what `_is_number`."""
    sign, value = (-1, node.operand) if isinstance(node, ast.UnaryOp) else (1, node)
    assert isinstance(value, ast.Constant)
    assert isinstance(value.value, int | float)
    return sign * value.value


def _computed(node: ast.BinOp) -> ast.Constant:
    """The number that an operation on two numbers gives."""
    left, right, kind = _value(node.left), _value(node.right), type(node.op)
    if kind is ast.Pow and right in _POWERS:
        operation = operator.pow
    elif kind in _WHOLE and type(left) is int and type(right) is int:
        operation = _WHOLE[kind]
    else:
        refuse(node, "arithmetic of lengths")
    try:
        return _number(node, operation(left, right))
    except (ZeroDivisionError, OverflowError):
        refuse(node, "arithmetic of lengths that has no result")


def _number(node: ast.AST, value: object) -> ast.Constant:
    if not isinstance(value, int | float) or abs(value) >= _LARGEST:  # of a complex one, a root of a negative
        refuse(node, "a length that is too large, or none")
    found = ast.Constant(value, _OF_LENGTHS)
    ast.copy_location(found, node)
    return found


def same(node: ast.AST, text: str) -> bool:
    """Whether a node is what this text is, however it is laid out. text: made of what was checked alone."""
    (wanted,) = ast.parse(text).body
    return _alike(node, wanted.value if isinstance(wanted, ast.Expr) else wanted)


def _alike(node: Any, wanted: Any) -> bool:
    """Looks no further than the first difference: a long node may be held against many short texts."""
    if type(node) is not type(wanted):
        return False
    if isinstance(wanted, ast.AST):
        return all(_alike(getattr(node, field, None), getattr(wanted, field, None)) for field in wanted._fields)
    if isinstance(wanted, list):
        return len(node) == len(wanted) and all(map(_alike, node, wanted))
    return bool(node == wanted)


def refuse(node: ast.AST, what: str) -> NoReturn:
    """Raises NotEmitted."""
    raise NotEmitted(f"Line {getattr(node, 'lineno', 0)} has {what}, which is never written.")

"""What an integer expression comes to, if the text alone says so: names, arithmetic, and functions of one expression.

Bounded in length, depth and steps, so that no text takes long.
"""

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

_LONGEST = 400  # characters
_DEEPEST = 40
_LARGEST = 1 << 62
_MOST_STEPS = 5_000  # of one expression, those of the functions that it calls included
_SIZES = {"char": 1, "int8_t": 1, "uint8_t": 1, "bool": 1, "half": 2, "__half": 2, "__nv_bfloat16": 2, "bfloat16": 2,
          "short": 2, "int": 4, "unsigned": 4, "unsigned int": 4, "float": 4, "int32_t": 4, "uint32_t": 4, "half2": 4,
          "__half2": 4, "double": 8, "float2": 8, "int2": 8, "int64_t": 8, "uint64_t": 8, "long long": 8,
          "float4": 16, "int4": 16, "uint4": 16, "double2": 16, "unsigned char": 1, "unsigned short": 2}  # fmt: skip
_CAST = re.compile(
    r"\(\s*(?:const\s+)?(?:unsigned\s+|signed\s+)?(?:int|long|size_t|unsigned|u?int(?:32|64)_t|dim3)(?:\s+(?:int|long))*\s*\)(?=\s*[\w(])"
)
_TEMPLATE_CAST = re.compile(r"\bstatic_cast\s*<[^<>]*>\s*(?=\()")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)(?:[uUlL]+|[zZ][uU]?)\b")
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*([\w ]+?)\s*\)")
_SCOPED = re.compile(r"\b\w+\s*::\s*(?=\w)")

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}


class _Unknown(Exception):
    """The text does not settle it."""


@dataclass
class Scope:
    """Names that an expression may use. names: to a value or the text of one; functions: to parameters and body.

    c: `/` divides whole numbers towards zero, as in C; in Python only `//` does.
    """

    names: dict[str, int | str] = field(default_factory=dict)
    functions: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    c: bool = True
    _known: dict[str, int | None] = field(default_factory=dict)
    _steps: list[int] = field(default_factory=lambda: [0])

    def inner(self, names: dict[str, int | str]) -> "Scope":
        """This scope with more names, which hide those of the same name."""
        return Scope({**self.names, **names}, self.functions, self.c, _steps=self._steps)

    def value(self, text: str) -> int | None:
        """What an expression comes to; None where it is not settled."""
        self._steps[0] = 0
        try:
            return self._text(text, 0)
        except (_Unknown, SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def _text(self, text: str, depth: int) -> int:
        if len(text) > _LONGEST or depth > _DEEPEST:
            raise _Unknown
        text = " ".join(text.split())
        if self.c:
            text = _SIZEOF.sub(lambda found: str(_SIZES.get(found[1], "unknown")), text)
            text = _SUFFIX.sub(r"\1", _TEMPLATE_CAST.sub("", _CAST.sub("", text)))
            text = _SCOPED.sub("", text)
        return self._node(ast.parse(text, mode="eval").body, depth)

    def _name(self, name: str, depth: int) -> int:
        if name not in self._known:
            self._known[name] = None  # of a name that is defined by itself nothing is known
            found = self.names.get(name)
            if isinstance(found, str):
                try:
                    found = self._text(found, depth + 1)
                except (_Unknown, SyntaxError, ValueError):
                    found = None
            self._known[name] = found
        value = self._known[name]
        if value is None:
            raise _Unknown
        return value

    def _node(self, node: ast.expr, depth: int) -> int:
        self._steps[0] += 1
        if depth > _DEEPEST or self._steps[0] > _MOST_STEPS:
            raise _Unknown
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return _bounded(int(node.value))
        if isinstance(node, ast.Name):
            return self._name(node.id, depth)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._node(node.operand, depth + 1)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            return _bounded(self._binary(node, depth))
        if isinstance(node, ast.Call) and not node.keywords:
            return self._call(node, depth)
        raise _Unknown

    def _binary(self, node: ast.BinOp, depth: int) -> int:
        left, right = self._node(node.left, depth + 1), self._node(node.right, depth + 1)
        if function := _BINARY.get(type(node.op)):
            return function(left, right)
        if isinstance(node.op, ast.LShift | ast.RShift) and 0 <= right < 63:
            return left << right if isinstance(node.op, ast.LShift) else left >> right
        if right and (isinstance(node.op, ast.FloorDiv) or (self.c and isinstance(node.op, ast.Div))):
            return left // right if not self.c or left * right >= 0 else -(-left // right)
        if right and isinstance(node.op, ast.Mod):
            return left % right if not self.c or left * right >= 0 else -(-left % right)
        if isinstance(node.op, ast.Pow) and 0 <= right < 63 and abs(left) <= 2:
            return int(left**right)
        raise _Unknown

    def _call(self, node: ast.Call, depth: int) -> int:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        arguments = [self._node(argument, depth + 1) for argument in node.args]
        if name in self.functions:
            parameters, body = self.functions[name]
            if len(parameters) != len(arguments):
                raise _Unknown
            return self.inner(dict(zip(parameters, arguments, strict=True)))._text(body, depth + 1)
        if name in ("min", "max") and arguments:
            return min(arguments) if name == "min" else max(arguments)
        if name == "cdiv" and len(arguments) == 2 and arguments[1] > 0:
            return -(-arguments[0] // arguments[1])
        if name == "next_power_of_2" and len(arguments) == 1 and arguments[0] > 0:
            return 1 << (arguments[0] - 1).bit_length()
        raise _Unknown


def bytes_of(type_name: str, dims: list[int | None]) -> int | None:
    """Bytes of an array of a C type; None where its type or a dimension is not known."""
    size = _SIZES.get(" ".join(type_name.replace("const", "").split()).rpartition("::")[2])
    for dim in dims:
        size = None if size is None or dim is None or dim < 0 else size * dim
    return size


def _bounded(value: int) -> int:
    if abs(value) > _LARGEST:
        raise _Unknown
    return value

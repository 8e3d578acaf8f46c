"""An emitted program in a wider precision, products at the highest: the oracle in float32. Imports no jax."""

import ast
from collections.abc import Sequence

WIDE = "float32"
_PRODUCTS = {"dot_general", "ragged_dot_general", "conv_general_dilated"}


class NotWidened(ValueError):
    """The program means something else in float32; the message says which operation."""


def is_narrow(dtype: str, wide: str = WIDE) -> bool:
    """Whether a dtype is a floating-point type of less than 32 bits, or than another one has."""
    return "float" in dtype and dtype != wide


def widened(text: str, arrays: Sequence[str], name: str = "oracle", to: str = WIDE) -> str:
    """The source of the oracle, from that of a checked program.

    arrays: the dtypes of the program's arguments. to: the dtype of every float in it, `float64` where it is to be run with
    64 bits. Numbers keep their values: what bfloat16 makes of 0.1 stays that.

    Raises:
        NotWidened: it looks at the bits of a narrow type.
    """
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    widen = _Widen(to)
    function = widen.visit(function)
    function.name = name
    wide = [
        ast.parse(f"{argument.arg} = lax.convert_element_type({argument.arg}, jnp.{to})").body[0]
        for argument, dtype in zip(function.args.args, arrays, strict=True)
        if is_narrow(dtype, to)
    ]
    result = function.body[-1]
    assert isinstance(result, ast.Return) and result.value is not None
    outputs = result.value.elts if isinstance(result.value, ast.Tuple) else [result.value]
    texts = [f"lax.convert_element_type({ast.unparse(output)}, jnp.{to})" for output in outputs]
    returned = f"({', '.join(texts)})" if isinstance(result.value, ast.Tuple) else texts[0]
    function.body = [*wide, *function.body[:-1], *ast.parse(f"return {returned}").body]
    return ast.unparse(ast.fix_missing_locations(function)) + "\n"


class _Widen(ast.NodeTransformer):
    def __init__(self, to: str) -> None:
        self._to = to

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "jnp" and is_narrow(node.attr, self._to):
            return ast.copy_location(ast.Attribute(node.value, self._to, node.ctx), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if called == "bitcast_convert_type":
            raise NotWidened(
                f"line {node.lineno} takes the bits of a value ({ast.unparse(node)}), which in {self._to} are others. "
                "Write it without bitcast_convert_type"
            )
        self.generic_visit(node)
        if called in _PRODUCTS:
            highest = ast.parse("lax.Precision.HIGHEST", mode="eval").body
            others = [keyword for keyword in node.keywords if keyword.arg != "precision"]
            node.keywords = [*others, ast.keyword("precision", highest)]
        return node

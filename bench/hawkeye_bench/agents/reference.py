"""What a reference computes, read from its syntax tree: a matmul with a tail, a row-wise operation, or
unknown.
"""

import ast
import re
from dataclasses import dataclass
from typing import Literal

# Calls that act on each element, and calls that need a whole last-axis row; by the last part of their name.
ELEMENTWISE = frozenset(
    "abs add clip divide erf exp gelu leaky_relu log log1p logistic maximum minimum multiply negative relu "
    "rsqrt sigmoid silu softplus sqrt square subtract swish tanh where".split()
)
ROW_REDUCTIONS = frozenset("max mean min sum var".split())
ROW_FUNCTIONS = frozenset("log_softmax softmax".split())
MATMULS = frozenset("dot matmul".split())


class UnknownFamily(ValueError):
    """The reference is not of a family the builtin optimiser knows; the message says what it met."""


@dataclass(frozen=True)
class Array:
    """One input or output at full size."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Recipe:
    """A known computation.

    lhs and rhs: the multiplied inputs, both None for a row-wise operation. main: the name that `tail` gives
    the blocked value (the product, or the row-wise input). operands: the tail's other inputs; "row" is one
    value per column, "full" has the output's shape. tail: statements ending in a return, all in float32,
    empty when the product is the result. needs_rows: the tail reduces over the last axis. prelude: imports,
    constants and helpers.
    """

    parameters: tuple[str, ...]
    lhs: str | None
    rhs: str | None
    main: str
    operands: tuple[tuple[str, Literal["row", "full"]], ...]
    tail: str
    needs_rows: bool
    prelude: str
    out_dtype: str

    @property
    def family(self) -> str:
        if self.lhs is None:
            return "row-wise operation"
        if not self.tail:
            return "matmul"
        return f"matmul with {'a row-wise' if self.needs_rows else 'an elementwise'} tail"


def recognise(code: str, inputs: list[Array], outputs: list[Array]) -> Recipe:
    """Reads the reference's `workload`.

    Raises:
        UnknownFamily: it is neither one matmul of two inputs with a tail nor a row-wise operation on one
        input.
    """
    module = ast.parse(code)
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    if "workload" not in functions:
        raise UnknownFamily("the reference has no function `workload`")
    if len(outputs) != 1:
        raise UnknownFamily(f"the reference has {len(outputs)} outputs, and only one is handled")
    shapes = {array.name: array.shape for array in inputs}
    work = functions.pop("workload")
    parameters = tuple(argument.arg for argument in work.args.args)
    reader = _Reader(functions, set(parameters))
    statements = [reader.visit(node) for node in work.body if not _is_docstring(node)]
    _only_assignments_and_return(statements)
    used = {node.id for s in statements for node in ast.walk(s) if isinstance(node, ast.Name)}
    lhs: str | None = None
    rhs: str | None = None
    if reader.product:
        lhs, rhs = reader.product
        if lhs in used or rhs in used:
            raise UnknownFamily("an input of the matmul is used again after it")
        if len(shapes[rhs]) != 2 or shapes[lhs][-1] != shapes[rhs][0]:
            raise UnknownFamily(f"a product of shapes {shapes[lhs]} and {shapes[rhs]}")
        main, out_shape = "product", (*shapes[lhs][:-1], shapes[rhs][1])
    else:
        out_shape = outputs[0].shape
        alike = [name for name in parameters if shapes[name] == out_shape]
        if not alike:
            raise UnknownFamily("no matmul, and no input has the shape of the output")
        main = alike[0]
    if out_shape != outputs[0].shape:
        raise UnknownFamily(f"the tail changes the shape from {out_shape} to {outputs[0].shape}")
    others = [name for name in parameters if name not in (lhs, rhs, main)]
    return Recipe(
        parameters=parameters,
        lhs=lhs,
        rhs=rhs,
        main=main,
        operands=tuple((name, _operand_kind(name, shapes[name], out_shape)) for name in others),
        tail="" if _is_plain_product(statements) else "\n".join(ast.unparse(s) for s in statements),
        needs_rows=reader.needs_rows,
        prelude=_prelude(module, reader),
        out_dtype=outputs[0].dtype,
    )


class _Reader(ast.NodeTransformer):
    """Checks every expression, takes the one matmul out, and drops casts: the kernel computes the tail in
    float32.
    """

    def __init__(self, functions: dict[str, ast.FunctionDef], parameters: set[str]) -> None:
        self.functions = functions
        self.parameters = parameters
        self.product: tuple[str, str] | None = None
        self.needs_rows = False
        self.helpers: dict[str, ast.FunctionDef] = {}

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.MatMult):
            return self._take_matmul(node.left, node.right)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        # bias[None, :] only aligns a row with the columns, which the kernel's (1, n) block does already.
        if isinstance(node.value, ast.Name) and ast.unparse(node.slice) == "(None, slice(None, None, None))":
            return node.value
        if isinstance(node.value, ast.Name) and ast.unparse(node.slice) in ("None, :", "(None, :)"):
            return node.value
        raise UnknownFamily(f"indexing: {ast.unparse(node)}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        raise UnknownFamily(f"an attribute: {ast.unparse(node)}")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func).split(".")[-1]
        if isinstance(node.func, ast.Attribute) and name == "astype":
            if re.search("int|bool", ", ".join(map(ast.unparse, node.args))):
                raise UnknownFamily(f"a cast that changes values: {ast.unparse(node)}")
            result: ast.AST = self.visit(node.func.value)
            return result
        if name in MATMULS and len(node.args) == 2:
            return self._take_matmul(*node.args)
        if name in self.functions:
            self._take_helper(name)
        elif name in ROW_FUNCTIONS or name in ROW_REDUCTIONS:
            self._check_row_call(node, name)
        elif name not in ELEMENTWISE:
            raise UnknownFamily(f"a call of {ast.unparse(node.func)}")
        if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
            node.func.value = self.visit(node.func.value)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [k for k in node.keywords if k.arg not in ("dtype", "preferred_element_type")]
        return node

    def _check_row_call(self, node: ast.Call, name: str) -> None:
        self.needs_rows = True
        keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
        on_last = keywords.get("axis", "-1" if name in ROW_FUNCTIONS else None) == "-1"
        if not on_last or (name in ROW_REDUCTIONS and keywords.get("keepdims") != "True"):
            raise UnknownFamily(f"a reduction that is not over the last axis with keepdims: {ast.unparse(node)}")

    def _take_helper(self, name: str) -> None:
        if name in self.helpers:
            return
        node = self.functions[name]
        if any(isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.MatMult) for inner in ast.walk(node)):
            raise UnknownFamily(f"a matmul inside the helper {name}")
        product = self.product
        node.body = [self.visit(inner) for inner in node.body if not _is_docstring(inner)]
        if self.product != product:
            raise UnknownFamily(f"a matmul inside the helper {name}")
        self.helpers[name] = node

    def _take_matmul(self, left: ast.expr, right: ast.expr) -> ast.AST:
        if self.product:
            raise UnknownFamily("more than one matmul")
        names = [ast.unparse(_without_casts(side)) for side in (left, right)]
        if not set(names) <= self.parameters:
            raise UnknownFamily(f"a matmul of {names[0]} and {names[1]}, which are not both inputs")
        self.product = (names[0], names[1])
        return ast.Name("product", ast.Load())


def _without_casts(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
        node = node.func.value
    return node


def _is_module(node: ast.expr) -> bool:
    return ast.unparse(node).split(".")[0] in ("jax", "jnp", "lax", "nn")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_plain_product(statements: list[ast.stmt]) -> bool:
    last = statements[-1]
    if len(statements) == 1:
        return isinstance(last, ast.Return) and ast.unparse(last) == "return product"
    first = ast.unparse(statements[0])
    return len(statements) == 2 and first.endswith("= product") and ast.unparse(last) == f"return {first.split()[0]}"


def _only_assignments_and_return(statements: list[ast.stmt]) -> None:
    for node in statements[:-1]:
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
            raise UnknownFamily(f"the statement: {ast.unparse(node)}")
    if not statements or not isinstance(statements[-1], ast.Return):
        raise UnknownFamily("the reference does not end in a return")


def _operand_kind(name: str, shape: tuple[int, ...], out: tuple[int, ...]) -> Literal["row", "full"]:
    if shape == out[-1:]:
        return "row"
    if shape == out:
        return "full"
    raise UnknownFamily(f"the input {name} of shape {shape} beside an output of shape {out}")


def _prelude(module: ast.Module, reader: _Reader) -> str:
    """The reference's jax imports, its constants and the helpers that its workload calls."""
    keep: list[ast.stmt] = []
    for node in module.body:
        constant = isinstance(node, ast.Assign) and isinstance(node.value, (ast.Constant, ast.BinOp, ast.UnaryOp))
        helper = isinstance(node, ast.FunctionDef) and node.name in reader.helpers
        from_jax = isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jax"
        if constant or helper or from_jax:
            keep.append(node)
    return "\n".join(ast.unparse(node) for node in keep)

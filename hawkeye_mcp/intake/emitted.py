"""Is a text what `emit` writes, and nothing else? Asked before a trusted process loads it, and without running it.

For a port the text comes out of the sandbox, so it may be anything: what is not known here is refused. What passes can call
only the functions listed below, on its own arguments and on numbers; it cannot reach a file, a module or Python's builtins.
Imports no jax.
"""

import ast
import math
import re
from typing import NoReturn

from hawkeye_mcp.intake import parsing

MOST_BYTES = 4 << 20
MOST_STATEMENTS = 20_000
MOST_ELEMENTS = 1 << 36  # of one array that is made from nothing
_DEEPEST = 12  # nested brackets of one line, and functions in functions
_LARGEST = 2**64
_LONGEST_NAME = 200

CALLS = frozenset(
    """
    abs acos acosh add argmax argmin asin asinh atan atan2 atanh bessel_i0e bessel_i1e bitcast_convert_type bitwise_and
    bitwise_not bitwise_or bitwise_xor broadcast_in_dim broadcasted_iota cbrt ceil clamp clz concatenate cond
    conv_general_dilated convert_element_type cos cosh cumlogsumexp cummax cummin cumprod cumsum digamma div dot_general
    dynamic_slice dynamic_update_slice eq erf erf_inv erfc exp exp2 expm1 floor full gather ge gt igamma igammac integer_pow
    is_finite le lgamma log log1p logistic lt max min mul mulhi ne neg nextafter optimization_barrier pad polygamma
    population_count pow ragged_dot_general reduce reduce_and reduce_max reduce_min reduce_or reduce_precision reduce_prod
    reduce_sum reduce_window reduce_xor rem reshape rev round rsqrt scan scatter scatter_add scatter_max scatter_min
    scatter_mul scatter_sub select select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh slice sort
    split sqrt square squeeze stack sub switch tan tanh tile top_k transpose unstack while_loop zeta
    """.split()
)
_DESCRIPTIONS = frozenset(
    "ConvDimensionNumbers GatherDimensionNumbers RaggedDotDimensionNumbers ScatterDimensionNumbers".split()
)
_TYPES = frozenset(
    """
    bool_ int2 int4 int8 int16 int32 uint2 uint4 uint8 uint16 uint32 bfloat16 float16 float32 float8_e3m4 float8_e4m3
    float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn
    """.split()
)
DTYPES = (_TYPES - {"bool_"}) | {"bool"}  # as arrays call them
_VALUES = frozenset(
    {f"jnp.{name}" for name in (*_TYPES, "inf", "nan")}
    | {f"lax.Precision.{name}" for name in ("DEFAULT", "HIGH", "HIGHEST")}
    | {f"lax.GatherScatterMode.{name}" for name in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS", "ONE_HOT")}
    | {f"lax.RoundingMethod.{name}" for name in ("AWAY_FROM_ZERO", "TO_NEAREST_EVEN")}
    | {f"lax.{name}" for name in ("add", "mul", "max", "min")}  # the computation of a reduction
)
_NAMED = frozenset(
    """
    allow_negative_indices axis batch_group_count collapsed_slice_dims dimension dimension_numbers dot_dimension_numbers
    feature_group_count fill_value indices_are_sorted inserted_window_dims is_stable length lhs_dilation lhs_ragged_dimensions
    lhs_spec mode num_keys offset_dims operand_batching_dims out_spec padding precision preferred_element_type reverse
    rhs_dilation rhs_group_dimensions rhs_spec scatter_dims_to_operand_dims scatter_indices_batching_dims start_index_map
    start_indices_batching_dims unique_indices unroll update_window_dims window_strides
    """.split()
)
_MADE = {"full": 0, "broadcast_in_dim": 1, "broadcasted_iota": 1, "reshape": 1, "tile": 1}  # where the lengths are
_SCANNED = 3  # unnamed arguments of a scan: its step, what it begins with, what it goes through
_MOST_UNROLLED = 64
_LAYOUT = re.compile(r"[A-Z]{2,6}")
_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_TAKEN = {"jax", "jnp", "lax", "np"}
_COMMENT = re.compile(r"# [a-z0-9_]+\[[0-9, ]*\](, [a-z0-9_]+\[[0-9, ]*\])*")


class NotEmitted(ValueError):
    """The text holds something that `emit` never writes; the message says what and on which line."""


def check(text: str, name: str = "workload") -> list[str]:
    """The names of the arguments of the one function that the text defines.

    Raises:
        NotEmitted: the text is anything but one function of straight-line jax.lax calls.
    """
    if len(text) > MOST_BYTES:
        raise NotEmitted(f"The emitted program has {len(text)} characters, more than {MOST_BYTES}.")
    if not text.isascii():
        raise NotEmitted("The emitted program holds characters that are not ASCII.")
    _lines(text)
    try:
        tree = parsing.parse(text)
    except parsing.NotPython as error:
        raise NotEmitted(f"The emitted program is no Python: {str(error)[:200]}.") from None
    if not isinstance(tree, ast.Module) or len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise NotEmitted("The emitted program must be one function.")
    try:
        return check_function(tree.body[0], name)
    except NotEmitted:
        raise
    except ValueError:  # Python's own, where a message would say such a number
        raise NotEmitted("The emitted program has a number of more digits than are ever emitted.") from None


def check_function(node: ast.FunctionDef, name: str) -> list[str]:
    """As `check`, of a function that was parsed already; for the depth of its lines the caller answers.

    Raises:
        NotEmitted, RecursionError; ValueError of Python, of a number that has too many digits to be said.
    """
    if node.name != name:
        raise NotEmitted(f"The emitted function must be called {name}.")
    if sum(isinstance(inner, ast.stmt) for inner in ast.walk(node)) > MOST_STATEMENTS:
        raise NotEmitted(f"The emitted program has more than {MOST_STATEMENTS} statements.")
    return _function(node, set(), 0)


def _lines(text: str) -> None:
    """Comments say dtypes and shapes and nothing else, and brackets are not nested more deeply than is ever needed."""
    for number, line in enumerate(text.split("\n"), 1):
        code, hash_, comment = line.partition("#")
        if hash_ and not _COMMENT.fullmatch(hash_ + comment):
            raise NotEmitted(f"Line {number} of the emitted program has a comment that is no dtype and shape.")
        depth = 0
        for character in code:
            depth += (character in "([{") - (character in ")]}")
            if depth > _DEEPEST:
                raise NotEmitted(f"Line {number} of the emitted program is nested too deeply.")
        if depth:
            raise NotEmitted(f"Line {number} of the emitted program does not close its brackets.")


def _refuse(node: ast.AST, what: str) -> NoReturn:
    raise NotEmitted(f"Line {getattr(node, 'lineno', 0)} of the emitted program has {what}, which is never emitted.")


def _function(node: ast.FunctionDef, known: set[str], depth: int) -> list[str]:
    """known: names that are defined where the function is."""
    given = node.args
    others = (given.posonlyargs, given.kwonlyargs, given.vararg, given.kwarg, given.defaults, given.kw_defaults)
    of_types = getattr(node, "type_params", None)  # from Python 3.12 on
    if (
        any(others)
        or of_types
        or node.decorator_list
        or node.returns
        or node.type_comment
        or any(a.annotation for a in given.args)
    ):
        _refuse(node, "a function with more than plain arguments")
    if depth > _DEEPEST:
        _refuse(node, "functions nested too deeply")
    inside = set(known)
    for argument in given.args:
        define(argument, argument.arg, inside)
    *body, last = node.body
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            _function(statement, inside, depth + 1)
            define(statement, statement.name, inside)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(statement.value, ast.Name) and isinstance(target, ast.Tuple):
                _operand(statement.value, inside)  # what a loop carries, taken apart
            else:
                _value(statement.value, inside)
            _assigned(target, inside)
        else:
            _refuse(statement, f"a statement of the kind {type(statement).__name__}")
    if not isinstance(last, ast.Return) or last.value is None:
        _refuse(last, "a function that does not end with a return")
    _operand(last.value, inside)
    return [argument.arg for argument in given.args]


def define(node: ast.AST, name: str, known: set[str]) -> None:
    """Add a name to those that are known. Raises NotEmitted: emit gives no such name, or it is known."""
    if not _NAME.fullmatch(name) or name in _TAKEN or len(name) > _LONGEST_NAME:
        _refuse(node, f"the name {name[:50]!r}")
    if name in known:
        _refuse(node, f"{name[:50]!r} defined twice")
    known.add(name)


def _assigned(target: ast.expr, known: set[str]) -> None:
    if isinstance(target, ast.Name):
        define(target, target.id, known)
    elif isinstance(target, ast.Tuple):
        for item in target.elts:
            _assigned(item, known)
    else:
        _refuse(target, f"an assignment to a {type(target).__name__}")


def _value(node: ast.expr, known: set[str]) -> None:
    """What a line may compute: a call, or one operator between a name and a name or number."""
    if isinstance(node, ast.Call):
        _call(node, known)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        _pair(node.left, node.right, known)
    elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
        if not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            _refuse(node, f"a comparison of the kind {type(node.ops[0]).__name__}")
        _pair(node.left, node.comparators[0], known)
    else:
        _refuse(node, f"an expression of the kind {type(node).__name__}")


def _pair(left: ast.expr, right: ast.expr, known: set[str]) -> None:
    for side in (left, right):
        if not isinstance(side, ast.Name):
            check_number(side)
        else:
            _operand(side, known)
    if not isinstance(left, ast.Name) and not isinstance(right, ast.Name):
        _refuse(left, "an operator between numbers")


def _call(node: ast.Call, known: set[str]) -> None:
    called = _dotted(node.func)
    module, _, name = called.partition(".")
    if module == "jnp" and (name in _TYPES or name == "array"):
        if node.keywords:
            _refuse(node, f"named arguments of {called}")
        for argument in node.args:
            _literal(argument)
        return
    if module != "lax" or name not in CALLS | _DESCRIPTIONS:
        _refuse(node, f"a call of {called[:80]!r}")
    for argument in node.args:
        _operand(argument, known)
    for keyword in node.keywords:
        if keyword.arg not in _NAMED:
            _refuse(node, f"an argument named {str(keyword.arg)[:50]!r}")
        _operand(keyword.value, known)
        if keyword.arg == "unroll" and not _at_most(keyword.value, _MOST_UNROLLED):
            _refuse(node, f"a loop unrolled more than {_MOST_UNROLLED} times")
    if name == "scan" and len(node.args) > _SCANNED:
        _refuse(node, "a scan whose length or unrolling is not named")
    if name in _MADE and len(node.args) > _MADE[name]:
        _bounded(node.args[_MADE[name]])


def _at_most(node: ast.expr, most: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value <= most


def _bounded(lengths: ast.expr) -> None:
    items = lengths.elts if isinstance(lengths, ast.Tuple | ast.List) else []
    if math.prod(i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, int)) > MOST_ELEMENTS:
        _refuse(lengths, f"an array of more than {MOST_ELEMENTS} elements")


def _operand(node: ast.expr, known: set[str]) -> None:
    """What a call may be given: a name defined before, a literal, a dtype or other listed value, or several of these."""
    if isinstance(node, ast.Name):
        if node.id not in known:
            _refuse(node, f"the name {node.id[:50]!r}, not defined before,")
    elif isinstance(node, ast.Tuple | ast.List):
        for item in node.elts:
            _operand(item, known)
    elif isinstance(node, ast.Call):
        called = _dotted(node.func)
        if called.removeprefix("lax.") not in _DESCRIPTIONS and called.removeprefix("jnp.") not in _TYPES:
            _refuse(node, f"a call of {called[:80]!r} within another")
        _call(node, known)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if not _LAYOUT.fullmatch(node.value):
            _refuse(node, "a text")
    elif isinstance(node, ast.Attribute) and _dotted(node) in _VALUES:
        pass
    else:
        check_number(node)


def _literal(node: ast.expr) -> None:
    """A number, a nested list of numbers, or a dtype."""
    if isinstance(node, ast.List):
        for item in node.elts:
            _literal(item)
    elif not (isinstance(node, ast.Attribute) and _dotted(node) in _VALUES):
        check_number(node)


def check_number(node: ast.expr) -> None:
    value = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    if isinstance(value, ast.Attribute) and _dotted(value) in ("jnp.inf", "jnp.nan"):
        return
    if not isinstance(value, ast.Constant) or type(value.value) not in (bool, int, float):
        _refuse(node, f"a {type(value).__name__} where a number belongs")
    if type(value.value) is int and value.value >= _LARGEST:
        _refuse(node, "a number of more than 64 bits")


def _dotted(node: ast.expr) -> str:
    """The name of an attribute of jnp or lax; anything else that is called is refused."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in ("jnp", "lax"):
        _refuse(node, f"a use of {ast.unparse(node)[:50]!r}")
    return ".".join([node.id, *reversed(names)])

"""The formulas that a specification may give: JAX expressions that can do nothing but arithmetic.

A formula is text of a job file, and job files are passed around. So what it may name is listed here; for whatever is not
there, a specification names a JAX file as its baseline instead.
"""

import ast

from hawkeye_mcp.intake.parsing import NotPython, parse

_ARITHMETIC = """
abs absolute add all amax amin any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort
around atleast_1d atleast_2d average broadcast_to cbrt ceil clip concatenate conj convolve copysign corrcoef cos cosh
cov cross cumprod cumsum deg2rad diag diagonal diff divide dot einsum equal exp exp2 expand_dims expm1 eye fabs flip
float_power floor floor_divide fmax fmin fmod full full_like greater greater_equal heaviside hypot identity inner
isclose isfinite isinf isnan kron less less_equal linspace log log10 log1p log2 logaddexp logaddexp2 logical_and
logical_not logical_or logical_xor matmul matrix_transpose max maximum mean median min minimum mod moveaxis
multiply nan_to_num nanmax nanmean nanmin nanstd nansum nanvar negative not_equal ones ones_like outer pad power prod
rad2deg ravel reciprocal remainder repeat reshape rint roll rot90 round searchsorted select sign sin sinc sinh sort
split sqrt square squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace transpose
tri tril triu true_divide trunc var vdot vecdot where zeros zeros_like
"""
_DTYPES = "bfloat16 bool_ float16 float32 float8_e4m3fn float8_e5m2 int16 int32 int8 uint32 uint8"
_CONSTANTS = "e inf nan newaxis pi"
_NN = """
celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax logsumexp mish one_hot
relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus sparse_sigmoid squareplus standardize swish tanh
"""
_LAX = """
abs acos acosh add argmax argmin asin asinh atan atan2 atanh batch_matmul broadcast broadcast_in_dim cbrt ceil clamp
concatenate conv conv_general_dilated convert_element_type cos cosh cummax cummin cumprod cumsum cumlogsumexp digamma
div dot dot_general dynamic_slice dynamic_update_slice eq erf erf_inv erfc exp exp2 expm1 expand_dims floor ge gt
integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg pad pow reciprocal rem reshape rev round rsqrt
select sign sin sinh slice slice_in_dim sort sqrt square squeeze stop_gradient sub tan tanh top_k transpose
"""
_ARRAY = "T astype dtype max mean min mT ndim reshape shape size std sum transpose var"

_jnp, _nn, _lax = (frozenset(names.split()) for names in (f"{_ARITHMETIC} {_DTYPES} {_CONSTANTS}", _NN, _LAX))
MODULES = {
    "jnp": _jnp,
    "jax.numpy": _jnp,
    "jax.nn": _nn,
    "lax": _lax,
    "jax.lax": _lax,
}
_ROOTS = frozenset(name.split(".")[0] for name in MODULES)
_METHODS = frozenset(_ARRAY.split())
_GRAMMAR = (
    *(ast.Expression, ast.Name, ast.Load, ast.Attribute, ast.Call, ast.keyword, ast.Constant, ast.Tuple, ast.List),
    *(ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.UAdd, ast.USub, ast.Invert),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_ELSEWHERE = "A JAX file named as `baseline` may use whatever it likes"


def problems(formula: str, names: frozenset[str]) -> list[str]:
    """What a formula over these names may not have; empty if it is good."""
    try:
        nodes = list(ast.walk(_tree(formula)))
    except NotPython as error:
        return [f"it is no Python expression: {error}"]
    dotted = {id(node): name for node in nodes if (name := _dotted(node))}
    # `jax.nn.silu` is one name: what it consists of is no name of its own
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and id(node) in dotted}
    found = [problem for node in nodes if id(node) not in inner for problem in _problem(node, dotted, names)]
    others = [type(node).__name__ for node in nodes if not isinstance(node, _GRAMMAR)]
    return list(dict.fromkeys(found)) or [f"it may not have {other}. {_ELSEWHERE}" for other in others]


def used(formula: str) -> frozenset[str]:
    """The names that a good formula uses, those of modules aside."""
    return frozenset(node.id for node in ast.walk(_tree(formula)) if isinstance(node, ast.Name)) - _ROOTS


def results(formula: str) -> int | None:
    """How many results a good formula has; None if only running it tells."""
    body = _tree(formula).body
    if isinstance(body, ast.Tuple):
        return len(body.elts)
    return 1 if isinstance(body, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Constant | ast.Name) else None


def _tree(formula: str) -> ast.Expression:
    tree = parse(formula.strip(), "eval")
    assert isinstance(tree, ast.Expression)
    return tree


def _dotted(node: ast.AST) -> str:
    """`jax.nn.silu` of such an attribute or name that begins with a module; otherwise empty."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) and node.id in _ROOTS else ""


def _problem(node: ast.AST, dotted: dict[int, str], names: frozenset[str]) -> list[str]:
    if id(node) in dotted:
        module, _, member = dotted[id(node)].rpartition(".")
        if member in MODULES.get(module, frozenset()):
            return []
        return [f"{dotted[id(node)]} is not among what it may name. {_ELSEWHERE}"]
    if isinstance(node, ast.Name):
        if node.id in names:
            return []
        return [f"{node.id} is no tensor that goes in, no constant and no size: those are {', '.join(sorted(names))}"]
    if isinstance(node, ast.Attribute):
        return [] if node.attr in _METHODS else [f".{node.attr} is not among what it may ask of an array. {_ELSEWHERE}"]
    if isinstance(node, ast.Constant):
        known = node.value is None or node.value is Ellipsis or isinstance(node.value, bool | int | float | str)
        return [] if known else [f"{node.value!r} is no number that it may name"]
    if isinstance(node, ast.keyword) and node.arg is None:
        return ["it may not have ** in a call"]
    if isinstance(node, ast.expr) and not isinstance(node, _GRAMMAR):
        return [_INSTEAD.get(type(node), f"it may not have {type(node).__name__}. {_ELSEWHERE}")]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ["it may not have `not`: say ~ of an array"]
    return []


_INSTEAD: dict[type[ast.AST], str] = {
    ast.IfExp: "it may not have `a if condition else b`: say jnp.where(condition, a, b)",
    ast.BoolOp: "it may not have `and` or `or`: say & and | of arrays",
}

"""Is a function of `workload.py` the `create_inputs` that `inputs_source` writes, for the inputs that are declared?

Everything in it follows from the declaration but the numbers of each draw, and which arrays are kept. Imports no jax.
"""

import ast
import json
from collections.abc import Iterator

from hawkeye_mcp.intake import emitted, inputs_source, precise
from hawkeye_mcp.intake.written_program import refuse, same
from hawkeye_mcp.workloads import Array, Size, Workload

_DRAWS = {"jax.random.normal": (), "jax.random.uniform": ("minval", "maxval")}


def check(node: ast.FunctionDef, declared: Workload) -> dict[str, tuple[Array, Size]]:
    """What it takes from `workload.npz`, by key: the input, and the size at which the array has its shape.

    declared: names and dtypes in it were checked.

    Raises:
        NotEmitted: it is anything else. RecursionError: it is nested too deeply.
    """
    plain = ast.arguments([], [ast.arg("key"), ast.arg("size")], None, [], [], None, [])
    more = (node.decorator_list, node.returns, getattr(node, "type_params", None))
    if ast.dump(node.args) != ast.dump(plain) or any(more) or node.name != "create_inputs":
        refuse(node, "a function that is no create_inputs(key, size)")
    *body, last = node.body
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        refuse(last, "an end that is no tuple of inputs")
    items = last.value.elts
    if len(items) != len(declared.inputs):
        refuse(last, f"{len(items)} inputs where workload.toml declares {len(declared.inputs)}")
    kept: dict[str, tuple[Array, Size]] = {}
    drawn = 0
    for item, array in zip(items, declared.inputs, strict=True):
        if taken := _kept(item, array):
            kept |= taken
        else:
            _drawn(item, array, drawn)
            drawn += 1
    _before(body, declared, drawn, bool(kept))
    return kept


def _before(body: list[ast.stmt], declared: Workload, drawn: int, kept: bool) -> None:
    """The lines before the return: keys, the file of arrays, and which of the two sizes it is."""
    if drawn:
        body = _without_first(body, [f"keys = jax.random.split(key, {drawn})"])
    if kept:
        body = _without_first(body, [f'kept = np.load(Path(__file__).with_name("{inputs_source.ARRAYS}"))'])
    if body:
        lengths = declared.sizes["full"].items()
        body = _without_first(body, [f"full = size[{json.dumps(name)}] == {length}" for name, length in lengths])
    if body:
        refuse(body[0], f"a statement of the kind {type(body[0]).__name__}")


def _without_first(body: list[ast.stmt], texts: list[str]) -> list[ast.stmt]:
    if not body or not any(same(body[0], text) for text in texts):
        where = body[0] if body else ast.Pass()
        refuse(where, "no line of those that create_inputs begins with")
    return body[1:]


def _kept(node: ast.expr, array: Array) -> dict[str, tuple[Array, Size]]:
    """The keys that an input is taken from; none if it is drawn."""
    one: dict[str, tuple[Array, Size]] = {array.name: (array, "full")}
    two: dict[str, tuple[Array, Size]] = {f"{size}/{array.name}": (array, size) for size in inputs_source.SIZES}
    for taken, where in ((one, f'"{array.name}"'), (two, f'"full/{array.name}" if full else "check/{array.name}"')):
        value = f"jnp.asarray(kept[{where}])"
        if precise.is_narrow(array.dtype):
            value = f"lax.bitcast_convert_type({value}, jnp.{array.dtype})"
        if same(node, value):
            return taken
    return {}


def _drawn(node: ast.expr, array: Array, index: int) -> None:
    given = inputs_source.draw_arguments(index, array.shape)
    if array.dtype != precise.WIDE:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "astype"):
            refuse(node, f"an input that is not made {array.dtype}")
        if len(node.args) != 1 or node.keywords or not same(node.args[0], f"jnp.{array.dtype}"):
            refuse(node, f"an input that is not made {array.dtype}")
        node = node.func.value
    for one in _branches(node):
        _distribution(one, given)


def _branches(node: ast.expr) -> Iterator[ast.expr]:
    """Both sides of `A if full else B`; of anything else, itself."""
    if isinstance(node, ast.IfExp) and same(node.test, "full"):
        yield from (node.body, node.orelse)
    else:
        yield node


def _distribution(node: ast.expr, given: str) -> None:
    """A draw; of a normal one perhaps times a number, plus a number."""
    for kind in (ast.Add, ast.Mult):
        if isinstance(node, ast.BinOp) and isinstance(node.op, kind):
            _number(node.right)
            node = node.left
    if not isinstance(node, ast.Call):
        refuse(node, "an input that is neither drawn nor kept")
    named = next((names for name, names in _DRAWS.items() if same(node.func, name)), None)
    if named is None or tuple(keyword.arg for keyword in node.keywords) != named:
        refuse(node, "an input that is neither drawn nor kept")
    bare = ast.Call(ast.Name("f", ast.Load()), node.args, [])
    if not same(bare, f"f({given})"):
        refuse(node, "a draw of another shape than workload.toml declares, or by another key")
    for keyword in node.keywords:
        _number(keyword.value)


def _number(node: ast.expr) -> None:
    for one in _branches(node):
        emitted.check_number(one)

"""Whether workload.toml says what workload.py does; nothing is computed but shapes."""

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import jax
import numpy as np

from hawkeye_mcp.workloads import Workload

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def problems(declared: Workload, module: ModuleType) -> Iterator[str]:
    """What is declared wrongly, in words that say what is right."""
    for size, dims in declared.sizes.items():
        where = f"at the {size} size"
        given = _shapes(lambda dims=dims: module.create_inputs(jax.random.key(0), dict(dims)))
        yield from _differences(f"inputs {where}", declared.shapes(declared.inputs, size), _described(given))
        outputs = declared.shapes(declared.outputs, size)
        yield from _differences(f"outputs {where}", outputs, _described(_shapes(module.workload, *given)))
        precise = [(shape, "float32") for shape, _ in outputs]
        yield from _differences(f"the oracle's outputs {where}", precise, _described(_shapes(module.oracle, *given)))
    yield from _work(declared)
    yield from _reduced(declared, module)


def _shapes(function: Callable[..., Any], *inputs: Any) -> list[Any]:
    shapes: list[Any] = jax.tree.leaves(jax.eval_shape(function, *inputs))
    return shapes


def _described(arrays: list[Any]) -> list[tuple[tuple[int, ...], str]]:
    return [(tuple(array.shape), str(array.dtype)) for array in arrays]


def _differences(
    what: str, said: list[tuple[tuple[int, ...], str]], found: list[tuple[tuple[int, ...], str]]
) -> Iterator[str]:
    if said != found:
        yield f"{what} are declared as {_listed(said)} and are {_listed(found)}"


def _listed(arrays: list[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in arrays)


def _work(declared: Workload) -> Iterator[str]:
    arrays = declared.shapes((*declared.inputs, *declared.outputs), "full")
    total = sum(math.prod(shape) * jax.numpy.dtype(dtype).itemsize for shape, dtype in arrays)
    if declared.least_bytes + declared.unread_bytes != total:
        yield (
            f"least_bytes and unread_bytes are {declared.least_bytes:.0f} and {declared.unread_bytes:.0f}; together they "
            f"must be the {total} bytes of inputs and outputs at the full size"
        )
    formula = declared.flops_formula.split(",")[0]
    try:
        flops = evaluated(formula, declared.sizes["full"])
    except (SyntaxError, ValueError) as error:
        yield f"flops_formula cannot be computed: {error}"
        return
    if not np.isclose(flops, declared.flops, rtol=1e-12):
        yield f"flops is {declared.flops:.0f}, and {formula} at the full size is {flops:.0f}"


def evaluated(formula: str, dims: Mapping[str, int]) -> float:
    """A formula of numbers, dimensions and + - * / // **.

    Raises:
        SyntaxError, ValueError: it is something else.
    """

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Name) and node.id in dims:
            return dims[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        raise ValueError(f"{ast.unparse(node)!r} is neither a number nor a dimension of {', '.join(dims)}")

    return value(ast.parse(formula.strip(), mode="eval").body)


def _reduced(declared: Workload, module: ModuleType) -> Iterator[str]:
    """The baseline is compiled at two shorter sizes of one dimension, where the code must work too."""
    if declared.baseline is None:
        return
    axis, at, full = declared.baseline.axis, declared.baseline.at, declared.sizes["full"]
    if axis not in full or not 0 < at[0] < at[1] < full[axis]:
        yield f"[baseline] needs a dimension of the sizes as axis, and two increasing values below its full one, not {axis} {at}"
        return
    for value in at:
        dims = full | {axis: value}
        said = [tuple(dims[d] if isinstance(d, str) else d for d in array.shape) for array in declared.outputs]
        given = _shapes(lambda dims=dims: module.create_inputs(jax.random.key(0), dims))
        found = [tuple(array.shape) for array in _shapes(module.workload, *given)]
        if said != found:
            yield f"with {axis} = {value} the outputs are declared as {said} and are {found}"

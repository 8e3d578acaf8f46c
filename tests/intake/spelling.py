"""A program written otherwise: the same computation with other layouts, orders and spellings, drawn at random."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend.core import Literal

from hawkeye_mcp.intake.structure import _INLINED, COMMUTATIVE, ELEMENTWISE


def respelled(function: Callable[..., Any], shapes: Sequence[Any], seed: int) -> Callable[..., Any]:
    """The function, each of its operations written in another way that computes the same."""
    closed = jax.make_jaxpr(function)(*shapes)
    return lambda *given: _run(closed.jaxpr, closed.consts, given, random.Random(seed))


def _run(jaxpr: Any, consts: Sequence[Any], given: Sequence[Any], draw: random.Random) -> list[Any]:
    values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        if (inner := eqn.params.get(_INLINED.get(eqn.primitive.name, ""))) is not None:
            found = _run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands, draw)
        else:
            found = _otherwise(eqn, operands, draw)
        values |= dict(zip(eqn.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _otherwise(eqn: Any, operands: list[Any], draw: random.Random) -> list[Any]:
    name, shape = eqn.primitive.name, eqn.outvars[0].aval.shape
    ranked = [getattr(one, "ndim", 0) for one in operands]
    if name in ELEMENTWISE and len(shape) > 1 and all(rank in (0, len(shape)) for rank in ranked):
        if name in COMMUTATIVE and draw.random() < 0.5:
            operands = operands[::-1]
        return _elementwise(eqn, operands, shape, draw)
    if name in ("reduce_sum", "reduce_max", "reduce_min") and ranked[0] > 1:
        order = list(range(ranked[0]))
        draw.shuffle(order)
        axes = tuple(order.index(axis) for axis in eqn.params["axes"])
        found = eqn.primitive.bind(lax.transpose(operands[0], order), **{**eqn.params, "axes": axes})
        kept = [axis for axis in order if axis not in eqn.params["axes"]]
        return [lax.transpose(found, [kept.index(axis) for axis in sorted(kept)])]
    if name == "dot_general":
        return [_product(eqn, *operands, draw)]
    found = eqn.primitive.bind(*operands, **eqn.params)
    return list(found) if eqn.primitive.multiple_results else [found]


def _elementwise(eqn: Any, operands: list[Any], shape: Sequence[int], draw: random.Random) -> list[Any]:
    """In another order of axes, or as one axis."""
    same = all(getattr(one, "ndim", 0) == 0 or one.shape == tuple(shape) for one in operands)
    if same and draw.random() < 0.3:
        moved = [one if getattr(one, "ndim", 0) == 0 else lax.reshape(one, (one.size,)) for one in operands]
        return [lax.reshape(eqn.primitive.bind(*moved, **eqn.params), shape)]
    order = list(range(len(shape)))
    draw.shuffle(order)
    moved = [one if getattr(one, "ndim", 0) == 0 else lax.transpose(one, order) for one in operands]
    found = eqn.primitive.bind(*moved, **eqn.params)
    return [lax.transpose(found, [order.index(axis) for axis in range(len(shape))])]


def _product(eqn: Any, left: Any, right: Any, draw: random.Random) -> Any:
    """With its operands exchanged and their axes in another order."""
    ((of_left, of_right), (batch_left, batch_right)) = eqn.params["dimension_numbers"]
    order = list(range(left.ndim))
    draw.shuffle(order)
    left = lax.transpose(left, order)
    of_left, batch_left = [order.index(a) for a in of_left], [order.index(a) for a in batch_left]
    free_left = [order[a] for a in range(left.ndim) if a not in (*of_left, *batch_left)]
    free_right = [a for a in range(right.ndim) if a not in (*of_right, *batch_right)]
    params = {**eqn.params, "dimension_numbers": ((of_right, of_left), (batch_right, batch_left))}
    found = eqn.primitive.bind(right, left, **_plain(params))
    batch = len(batch_left)
    lefts = [batch + len(free_right) + free_left.index(axis) for axis in sorted(free_left)]
    return lax.transpose(found, [*range(batch), *lefts, *range(batch, batch + len(free_right))])


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    (one, other), (first, second) = params["dimension_numbers"]
    precision = params["precision"]
    if isinstance(precision, tuple):
        precision = precision[::-1]
    return {
        **params,
        "precision": precision,
        "dimension_numbers": ((tuple(one), tuple(other)), (tuple(first), tuple(second))),
    }

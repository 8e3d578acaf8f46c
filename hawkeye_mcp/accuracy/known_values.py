"""A program in which everything that follows from known values is computed before it is exported.

Kernels that take scalar prefetch get block indices, masks and even their grid from small arrays. Where these arrays
are known (group sizes of a benchmark, a causal mask), they are evaluated here, so that grids become static and the
arrays that a kernel prefetches can be read by a model of its transfers.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as jex_core
import numpy as np

MOST_ELEMENTS = 1 << 22  # of an array that is worth evaluating
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}  # fmt: skip


@dataclasses.dataclass
class Specialised:
    """A program with static grids. prefetched: of each kernel, in order, its scalar-prefetch arrays or None."""

    closed: Any
    prefetched: list[list[np.ndarray] | None]


def specialise(function: Callable[..., Any], shapes: Sequence[jax.ShapeDtypeStruct]) -> Specialised:
    """Trace a function of arrays with these shapes, with what is known evaluated.

    Raises:
        ValueError: a kernel's grid depends on the function's arguments.
    """
    traced = jax.make_jaxpr(function)(*shapes)
    prefetched: list[list[np.ndarray] | None] = []

    def run(*arguments: Any) -> Any:
        prefetched.clear()
        return _interpret(traced.jaxpr, traced.consts, arguments, prefetched)

    return Specialised(jax.make_jaxpr(run)(*shapes), prefetched)


def _interpret(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], prefetched: list[Any]) -> list[Any]:
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, map(_concrete, consts), strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return np.asarray(atom.val, atom.aval.dtype) if isinstance(atom, jex_core.Literal) else values[atom]

    for eqn in jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        name = eqn.primitive.name
        if name == "pallas_call":
            results = _pallas_call(eqn, inputs, prefetched)
        elif name in _CALLS:
            inner = eqn.params[_CALLS[name]]
            results = _interpret(inner.jaxpr, inner.consts, inputs, prefetched)
        elif all(map(_is_known, inputs)) and _small(eqn):
            with jax.ensure_compile_time_eval():
                results = [np.asarray(result) for result in _bind(eqn, inputs)]
        else:
            results = _bind(eqn, inputs)
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _bind(eqn: Any, inputs: Sequence[Any]) -> list[Any]:
    with eqn.ctx.manager:
        results = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
    return list(results) if eqn.primitive.multiple_results else [results]


def _pallas_call(eqn: Any, inputs: list[Any], prefetched: list[Any]) -> list[Any]:
    mapping = eqn.params["grid_mapping"]
    bounds, rest = inputs[: mapping.num_dynamic_grid_bounds], inputs[mapping.num_dynamic_grid_bounds :]
    params = eqn.params
    if bounds:
        if not all(map(_is_known, bounds)):
            raise ValueError("the grid depends on the arguments of the program")
        sizes = iter(int(bound) for bound in bounds)
        grid = tuple(dim if isinstance(dim, int) else next(sizes) for dim in mapping.grid)
        params = params | {"grid_mapping": dataclasses.replace(mapping, grid=grid)}
    indices = rest[: mapping.num_index_operands]
    prefetched.append([np.asarray(value) for value in indices] if all(map(_is_known, indices)) else None)
    return list(eqn.primitive.bind(*rest, **eqn.primitive.get_bind_params(params)))


def _concrete(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, jax.Array) and not _is_tracer(value) else value


def _is_tracer(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


def _is_known(value: Any) -> bool:
    return not _is_tracer(value)


def _small(eqn: Any) -> bool:
    return not eqn.effects and all(getattr(v.aval, "size", MOST_ELEMENTS) < MOST_ELEMENTS for v in eqn.outvars)

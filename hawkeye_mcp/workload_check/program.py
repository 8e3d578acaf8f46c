"""A jax function as a flat list of primitive operations that can be run again with some values replaced.

A fault in one operation then costs only the operations that depend on it, each of which jax has compiled already.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src import source_info_util

# Calls whose body is part of the program; loops and branches stay whole.
_INLINED = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2"}

Values = dict[int, Any]


@dataclass(frozen=True)
class Step:
    """One operation. Values are numbered; `line` is where the workload's code says it (0: nowhere)."""

    primitive: str
    equation: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    line: int

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        return bind(self.equation, arguments)


def bind(equation: Any, arguments: Sequence[Any], **replaced: Any) -> list[Any]:
    """Run one equation on other arguments, with some of its parameters replaced."""
    params = equation.primitive.get_bind_params({**equation.params, **replaced})
    found = equation.primitive.bind(*arguments, **params)
    return list(found) if equation.primitive.multiple_results else [found]


@dataclass(frozen=True)
class Program:
    """inputs and outputs are value numbers; constants are the values that depend on no input and no step."""

    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[int, Any]

    def run(self, inputs: Sequence[Any]) -> Values:
        """Every value of the program on these inputs."""
        values = dict(self.constants) | dict(zip(self.inputs, inputs, strict=True))
        for step in self.steps:
            values |= zip(step.outputs, step.run([values[i] for i in step.inputs]), strict=True)
        return values

    def again(self, values: Values, replaced: Values) -> list[Any]:
        """The outputs with some values replaced, given all values of an earlier run."""
        changed = dict(replaced)
        for step in self.steps:
            if any(i in changed for i in step.inputs) and not all(o in changed for o in step.outputs):
                found = step.run([changed.get(i, values[i]) for i in step.inputs])
                changed |= {o: v for o, v in zip(step.outputs, found, strict=True) if o not in changed}
        return [changed.get(o, values[o]) for o in self.outputs]


def flatten(function: Callable[..., Any], inputs: Sequence[Any]) -> Program:
    """Trace a function on inputs (arrays or shapes) and inline its calls."""
    closed = jax.make_jaxpr(function)(*inputs)
    constants: Values = {}
    steps: list[Step] = []
    count = 0

    def fresh() -> int:
        nonlocal count
        count += 1
        return count

    def constant(value: Any) -> int:
        number = fresh()
        constants[number] = value
        return number

    def inline(jaxpr: Any, consts: Sequence[int], arguments: Sequence[int]) -> list[int]:
        numbers = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

        def number_of(atom: Any) -> int:
            return constant(_literal(atom)) if hasattr(atom, "val") else numbers[atom]

        for equation in jaxpr.eqns:
            given = [number_of(atom) for atom in equation.invars]
            if equation.primitive.name in _INLINED:
                inner = equation.params.get("jaxpr") or equation.params["call_jaxpr"]
                body, held = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
                found = inline(body, [constant(value) for value in held], given)
            else:
                found = [fresh() for _ in equation.outvars]
                steps.append(Step(equation.primitive.name, equation, tuple(given), tuple(found), _line(equation)))
            numbers |= zip(equation.outvars, found, strict=True)
        return [number_of(atom) for atom in jaxpr.outvars]

    given = [fresh() for _ in closed.jaxpr.invars]
    outputs = inline(closed.jaxpr, [constant(value) for value in closed.consts], given)
    return Program(tuple(steps), tuple(given), tuple(outputs), constants)


def _literal(atom: Any) -> Any:
    return np.asarray(atom.val, atom.aval.dtype)


def _line(equation: Any) -> int:
    frame = source_info_util.user_frame(equation.source_info.traceback)
    return frame.start_line if frame and frame.file_name.endswith("workload.py") else 0

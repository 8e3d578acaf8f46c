"""From a traced program at each size to what is recorded of it."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hawkeye_mcp.intake.capture import CaptureFailed
from hawkeye_mcp.intake.emit import NotEmittable, emit
from hawkeye_mcp.intake.inside.flops import flops
from hawkeye_mcp.intake.inside.record import Array
from hawkeye_mcp.intake.structure import structure

Shaped = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Traced:
    """closed: a ClosedJaxpr whose inputs are the arguments in canonical order. used: which of them it depends on."""

    closed: Any
    used: tuple[bool, ...]

    @property
    def structure(self) -> dict[str, Any]:
        return structure(self.closed)

    @property
    def flops(self) -> float | None:
        return flops(self.closed.jaxpr)

    @property
    def outputs(self) -> list[Shaped]:
        return [(tuple(aval.shape), aval.dtype.name) for aval in self.closed.out_avals]

    def run(self, arguments: Sequence[Array]) -> list[Array]:
        """Its results, on the CPU."""
        import jax
        from jax.extend.core import jaxpr_as_fun

        found = jax.jit(jaxpr_as_fun(self.closed))(*arguments)
        return [np.asarray(each) for each in found]

    def without(self, dropped: Sequence[bool]) -> "Traced":
        """The program without those arguments, on which it does not depend."""
        jaxpr = self.closed.jaxpr
        kept = [var for var, drop in zip(jaxpr.invars, dropped, strict=True) if not drop]
        used = tuple(use for use, drop in zip(self.used, dropped, strict=True) if not drop)
        names = jaxpr.debug_info._replace(arg_names=None)
        return Traced(self.closed.replace(jaxpr=jaxpr.replace(invars=kept, debug_info=names)), used)


@dataclass(frozen=True)
class Written:
    """constants: arrays that the program takes after its arguments, by the names that it gives them."""

    program: str
    constants: dict[str, Array]


def trace(function: Callable[..., Any], arguments: Sequence[Shaped]) -> Traced:
    """function: takes the arguments one by one, gives a list of arrays. Raises whatever it raises."""
    import jax
    from jax.interpreters import partial_eval

    shaped = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in arguments]
    with warnings.catch_warnings():  # torch's 64 bits are jax's 32 here, which `record.narrowed` looks after
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        closed = jax.make_jaxpr(function)(*shaped)
    jaxpr, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), instantiate=True)
    _, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals))
    return Traced(closed.replace(jaxpr=jaxpr), tuple(used))


def narrow_floats(jaxpr: Any) -> set[str]:
    """Types of floats below float64 that any operation gives."""
    found = set[str]()
    for equation in jaxpr.eqns:
        names = {var.aval.dtype.name for var in equation.outvars if hasattr(var.aval, "dtype")}
        found |= {name for name in names if "float" in name and name != "float64"}
        for value in equation.params.values():
            for inner in value if isinstance(value, list | tuple) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    found |= narrow_floats(inner)
    return found


def write(traced: Traced, names: Sequence[str]) -> Written:
    """Raises CaptureFailed: not_convertible, where an operation has no public spelling."""
    try:
        emitted = emit(traced.closed, names)
    except NotEmittable as error:
        why = str(error).rstrip(".")
        raise CaptureFailed(
            "not_convertible",
            f"The traced program cannot be written down as plain jax.lax calls: {why}.",
            "Write the source without it, or, for PyTorch, set conversion.method to `port` and write the JAX yourself.",
        ) from None
    return Written(emitted.text, emitted.constants)

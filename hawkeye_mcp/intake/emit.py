"""From a jaxpr to Python: one function of straight-line jax.lax calls, a line an operation.

Calls inside the program (jit, custom_jvp, custom_vjp, remat) are written in their place; the bodies of scan, while and cond
become nested functions. What comes out means exactly what went in: the tests trace it again and compare.

Runs where jax does: in the process of a user's source and in the sandbox of a port, never in a trusted process.
"""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.intake import emit_values as values
from hawkeye_mcp.intake.emit_calls import Operand
from hawkeye_mcp.intake.emit_fold import folded
from hawkeye_mcp.intake.emit_lines import Function, Line, drop_unused, rendered
from hawkeye_mcp.intake.emit_rules import RULES, why_not
from hawkeye_mcp.intake.emit_values import NotEmittable

__all__ = ["Emitted", "NotEmittable", "emit"]

# An array of the program itself with more elements becomes an argument, so that whoever replaces the program has it too.
_INLINE_ELEMENTS = 16
CONSTANTS_BYTES = 8 << 20

_CALLS = {
    "jit", "pjit", "closed_call", "core_call", "core_closed_call", "custom_jvp_call", "custom_vjp_call",
    "custom_vjp_call_jaxpr", "checkpoint", "remat", "remat2", "composite",
}  # fmt: skip
_SAME = {"copy", "copy_p", "stop_gradient", "pvary", "name", "device_put", "sharding_constraint"}
_RESERVED = {"jax", "jnp", "lax", "np", "oracle", "create_inputs", "float", *keyword.kwlist}
_STEMS = {
    "add": "added", "add_any": "added", "sub": "difference", "mul": "product", "div": "quotient", "dot_general": "dot",
    "ragged_dot_general": "dot", "conv_general_dilated": "conv", "reduce_sum": "total", "reduce_max": "largest",
    "reduce_min": "smallest", "reduce_prod": "product", "convert_element_type": "cast", "broadcast_in_dim": "spread",
    "reshape": "reshaped", "transpose": "transposed", "squeeze": "squeezed", "select_n": "chosen", "max": "larger",
    "min": "smaller", "neg": "negative", "integer_pow": "power", "pow": "power", "eq": "is_equal", "ne": "differs",
    "lt": "is_less", "le": "is_at_most", "gt": "is_greater", "ge": "is_at_least", "and": "both", "or": "either",
    "not": "negated", "gather": "gathered", "slice": "part", "dynamic_slice": "part", "dynamic_update_slice": "updated",
    "concatenate": "joined", "pad": "padded", "sort": "ordered", "split": "part", "stack": "stacked", "unstack": "part", "tile": "tiled", "rev": "reversed_", "clamp": "clamped",
    "iota": "index", "logistic": "sigmoid", "reduce_window_max": "pooled", "reduce_window_sum": "pooled",
    "reduce_window_min": "pooled", "reduce_window": "pooled", "top_k": "top", "scan": "scanned", "while": "looped",
    "cond": "branch",
}  # fmt: skip
_OF_NAME = {"convert_element_type", "reshape", "transpose", "broadcast_in_dim", "squeeze"}


@dataclass(frozen=True)
class Emitted:
    """text: the function, without imports. constants: arrays of the program that it takes after its given arguments."""

    text: str
    constants: dict[str, NDArray[Any]]


def emit(closed_jaxpr: Any, arguments: Sequence[str], name: str = "workload") -> Emitted:
    """The source of a program as a function of `arguments`, one for each input of the jaxpr, in their order.

    Raises:
        NotEmittable: an operation or a dtype has no public spelling, or the program's own arrays are too big.
    """
    jaxpr = closed_jaxpr.jaxpr
    if len(arguments) != len(jaxpr.invars):
        raise ValueError(f"the program has {len(jaxpr.invars)} inputs and {len(arguments)} names are given")
    writer = _Writer(_RESERVED | {name})
    parameters = [writer.fresh(argument) for argument in arguments]
    main = Function(name, parameters)
    inputs = [writer.named(text, var.aval) for text, var in zip(parameters, jaxpr.invars, strict=True)]
    consts = [writer.constant(value, main.body) for value in closed_jaxpr.consts]
    outputs = writer.equations(jaxpr, consts, inputs, main.body)
    texts = [operand.text for operand in outputs]
    main.result = texts[0] if len(texts) == 1 else f"({', '.join(texts)})" if texts else "()"
    drop_unused(main.body, set(re.findall(r"\w+", main.result)))
    used = set(re.findall(r"\w+", "\n".join(rendered(main))))
    kept = {key: value for key, value in writer.constants.items() if key in used}
    main.parameters += kept
    return Emitted("\n".join(rendered(main)) + "\n", kept)


class _Writer:
    """Names for values, and the program's own arrays."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = set(taken)
        self.constants: dict[str, NDArray[Any]] = {}
        self._spread: dict[str, Operand] = {}  # what a bool was before it chose a branch as an int

    def fresh(self, stem: str) -> str:
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        return name

    @staticmethod
    def named(text: str, aval: Any) -> Operand:
        return Operand(text, text, aval)

    @staticmethod
    def scalar(value: Any, aval: Any) -> Operand:
        return Operand(values.typed(value, aval.dtype), values.number(value, aval.dtype), aval, value)

    def constant(self, value: Any, body: list[Line | Function]) -> Operand:
        """One of the program's own arrays: a number, a few of them, a repeated one, or a further argument."""
        import jax

        values.dtype(value.dtype)
        array = np.asarray(value)
        aval = jax.ShapeDtypeStruct(array.shape, array.dtype)
        if array.ndim == 0:
            return self.scalar(array[()], aval)
        first = array.reshape(-1)[:1]
        if array.size > _INLINE_ELEMENTS and not (array == first).all():
            name = self.fresh("constant")
            self.constants[name] = array
            if (total := sum(held.nbytes for held in self.constants.values())) > CONSTANTS_BYTES:
                raise NotEmittable(
                    "constant",
                    f"the program holds {total} bytes of arrays of its own, more than {CONSTANTS_BYTES}; "
                    "make them arguments or compute them",
                )
            return self.named(name, aval)
        name = self.fresh("constant")
        repeated = array.size > _INLINE_ELEMENTS
        number = values.number(first[0], array.dtype) if repeated else ""
        full = f"lax.full({values.ints(array.shape)}, {number}, {values.dtype(array.dtype)})"
        body.append(Line(name, full if repeated else values.array(array), values.described(aval)))
        return self.named(name, aval)

    def equations(
        self, jaxpr: Any, consts: Sequence[Operand], inputs: Sequence[Operand], body: list[Line | Function]
    ) -> list[Operand]:
        """Write the operations of a jaxpr; its outputs."""
        known: dict[Any, Operand] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))

        def read(atom: Any) -> Operand:
            if not hasattr(atom, "val"):
                return known[atom]
            if getattr(atom.aval, "shape", ()):
                return self.constant(np.asarray(atom.val, atom.aval.dtype), body)
            return self.scalar(np.asarray(atom.val, atom.aval.dtype)[()], atom.aval)

        for equation in jaxpr.eqns:
            found = self._equation(equation, [read(atom) for atom in equation.invars], body)
            known |= zip(equation.outvars, found, strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, operands: list[Operand], body: list[Line | Function]) -> list[Operand]:
        name, params = equation.primitive.name, equation.params
        if name in _CALLS:
            inner = next((params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params), None)
            if inner is None:
                raise NotEmittable(name, "its body is hidden")
            held = [self.constant(value, body) for value in getattr(inner, "consts", ())]
            return self.equations(getattr(inner, "jaxpr", inner), held, operands, body)
        if name in _SAME or self._changes_nothing(name, equation, operands):
            return operands
        if operands and all(operand.value is not None for operand in operands) and not equation.outvars[0].aval.shape:
            value = folded(name, [operand.value for operand in operands], equation.outvars[0].aval.dtype)
            if value is not None:
                return [self.scalar(value, equation.outvars[0].aval)]
        if name == "select_n" and operands[0].value is not None:
            return [operands[1 + int(operands[0].value)]]
        special = {"scan": self._scan, "while": self._while, "cond": self._cond}.get(name)
        if special:
            return special(equation, operands, body)
        rule = RULES.get(name)
        if rule is None:
            raise NotEmittable(name, why_not(name))
        avals = [var.aval for var in equation.outvars]
        return self._assigned(equation, operands, rule(params, operands, avals), body)

    @staticmethod
    def _changes_nothing(name: str, equation: Any, operands: list[Operand]) -> bool:
        """A reshape to the same shape, a conversion to the same dtype and the like."""
        if name not in ("reshape", "convert_element_type", "broadcast_in_dim", "squeeze") or len(operands) != 1:
            return False
        before, after = operands[0].aval, equation.outvars[0].aval
        kept = (tuple(before.shape), before.dtype) == (tuple(after.shape), after.dtype)
        return kept and equation.params.get("dimensions") in (None, ())

    def _assigned(
        self, equation: Any, operands: Sequence[Operand], expression: str, body: list[Line | Function]
    ) -> list[Operand]:
        """A line that gives the results of an operation names."""
        name = equation.primitive.name
        avals = [var.aval for var in equation.outvars]
        for aval in avals:
            values.dtype(aval.dtype)
        results = [self.named(self.fresh(self._stem(name, equation, operands)), aval) for aval in avals]
        texts = [result.text for result in results]
        many = equation.primitive.multiple_results and not name.startswith("reduce")  # whose calls give one array
        targets = f"({texts[0]},)" if many and len(texts) == 1 else ", ".join(texts)
        before = {values.described(operand.aval) for operand in operands if operand.is_name}
        after = [values.described(aval) for aval in avals]
        body.append(Line(targets, expression, "" if before == set(after) else ", ".join(after)))
        if name == "convert_element_type" and str(operands[0].aval.dtype) == "bool":
            self._spread[texts[0]] = operands[0]
        return results

    @staticmethod
    def _stem(name: str, equation: Any, operands: Sequence[Operand]) -> str:
        stem = _STEMS.get(name) or re.sub(r"\W", "_", name)
        if name in _OF_NAME and operands and operands[0].is_name and re.fullmatch(r"[a-zA-Z_]\w*", operands[0].text):
            base = re.sub(r"_(cast|reshaped|transposed|spread|squeezed)(_\d+)?$", "", operands[0].text)
            return f"{re.sub(r'_[0-9]+$', '', base)}_{stem}"
        return stem

    def _nested(
        self, name: str, jaxpr: Any, held: Sequence[Operand], parameters: list[Operand], written: list[str]
    ) -> tuple[Function, list[Operand]]:
        """A function of the body of a loop or branch: `held` come from outside it, `parameters` are its own."""
        function = Function(self.fresh(name), written)
        inside = getattr(jaxpr, "jaxpr", jaxpr)
        consts = [self.constant(value, function.body) for value in getattr(jaxpr, "consts", ())]
        return function, self.equations(inside, consts, [*held, *parameters], function.body)

    def _own(self, stem: str, variables: Sequence[Any]) -> list[Operand]:
        return [self.named(self.fresh(stem), var.aval) for var in variables]

    def _scan(self, equation: Any, operands: list[Operand], body: list[Line | Function]) -> list[Operand]:
        params = equation.params
        consts, carried = params["num_consts"], params["num_carry"]
        inside = params["jaxpr"].jaxpr
        carry = self._own("carry", inside.invars[consts : consts + carried])
        slices = self._own("item", inside.invars[consts + carried :])
        both = [self.fresh("carries"), self.fresh("items")]
        function, found = self._nested("step", params["jaxpr"], operands[:consts], [*carry, *slices], both)
        function.body[:0] = [Line(_tuple(carry), both[0])] * bool(carry) + [Line(_tuple(slices), both[1])] * bool(
            slices
        )
        function.result = f"({_tuple(found[:carried])}, {_tuple(found[carried:])})"
        named = {"length": str(params["length"])}
        if params["reverse"]:
            named["reverse"] = "True"
        if params["unroll"] not in (1, False):
            named["unroll"] = str(params["unroll"])
        given = f"{_tuple(operands[consts : consts + carried])}, {_tuple(operands[consts + carried :])}"
        call = f"lax.scan({function.name}, {given}, {', '.join(f'{k}={v}' for k, v in named.items())})"
        results = self._own("scanned", equation.outvars)
        body.append(function)
        body.append(Line(f"{_tuple(results[:carried])}, {_tuple(results[carried:])}", call, _shapes(results)))
        return results

    def _while(self, equation: Any, operands: list[Operand], body: list[Line | Function]) -> list[Operand]:
        params = equation.params
        of_cond, of_body = params["cond_nconsts"], params["body_nconsts"]
        held, start = (operands[:of_cond], operands[of_cond : of_cond + of_body]), operands[of_cond + of_body :]
        if params["cond_jaxpr"].out_avals[0].shape:
            raise NotEmittable("while", "each element of a batch decides for itself whether it goes on")
        functions = []
        for stem, key, outside in (("goes_on", "cond_jaxpr", held[0]), ("step", "body_jaxpr", held[1])):
            carry = self._own("carry", params[key].jaxpr.invars[len(outside) :])
            whole = self.fresh("carries")
            function, found = self._nested(stem, params[key], outside, carry, [whole])
            function.body.insert(0, Line(_tuple(carry), whole))
            function.result = found[0].text if stem == "goes_on" else _tuple(found)
            functions.append(function)
        results = self._own("looped", equation.outvars)
        body += functions
        call = f"lax.while_loop({functions[0].name}, {functions[1].name}, {_tuple(start)})"
        body.append(Line(_tuple(results), call, _shapes(results)))
        return results

    def _cond(self, equation: Any, operands: list[Operand], body: list[Line | Function]) -> list[Operand]:
        which, given = operands[0], operands[1:]
        functions = []
        for branch in equation.params["branches"]:
            function, found = self._nested("branch", branch, given, [], [])
            function.result = _tuple(found)
            functions.append(function)
        body += functions
        results = self._own("chosen", equation.outvars)
        of_bool = self._spread.get(which.text)
        if len(functions) == 2 and of_bool:
            call = f"lax.cond({of_bool.text}, {functions[1].name}, {functions[0].name})"
        else:
            call = f"lax.switch({which.text}, [{', '.join(function.name for function in functions)}])"
        body.append(Line(_tuple(results), call, _shapes(results)))
        return results


def _tuple(operands: Sequence[Operand]) -> str:
    texts = [operand.text for operand in operands]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _shapes(operands: Sequence[Operand]) -> str:
    return ", ".join(values.described(operand.aval) for operand in operands)

"""The structure of a traced program as plain data: its operations with every call inlined, what each takes and returns.

Runs beside the user's program, and beside a port in the sandbox, where the rest of this package is hidden: it imports
nothing of it, and jax only when called. What the data says is in `structure_facts`; what two of them have in common in
`compare_structure`.

    {"schema": "hawkeye.structure/1", "inputs": ["f32[8,128]"], "outputs": ["n3.0"], "types": ["f32[8,128]"],
     "nodes": [{"op": "reduce_sum", "in": ["a0"], "out": ["f32[8]"], "params": {"axes": [1]}}, ...]}

A reference is "a2" (argument 2), "n5.0" (output 0 of node 5), "c:f32:1e-05" (a scalar constant, as its own dtype prints
it) or "k:f32[4]:9f86d081884c7d65" (an array, by hash). A node with bodies (scan, while, cond, a kernel) has them in
"bodies", each such a dictionary without a schema, and in "times" how often the first runs, null where only a run can tell.

Left out, as it changes no result: calls (jit, custom_jvp, custom_vjp, remat, closed_call), whatever no output depends on,
what is computed twice, conversions to the same dtype, reshapes to the same shape, stop_gradient, the broadcasting of a
scalar to an operand. Operations on scalar constants are done.
"""

import hashlib
import json
import math
import re
from typing import Any

SCHEMA = "hawkeye.structure/1"
_INLINED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_lin": "call_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "composite": "jaxpr",
}
_PASSES_ON = {"stop_gradient", "copy", "copy_p", "optimization_barrier", "name", "sharding_constraint"}
# What does not change results, or is said by the types already.
_IGNORED = {
    "sharding", "out_sharding", "weak_type", "name", "inline", "layout", "unroll", "_split_transpose", "compiler_params",
    "debug", "debug_info", "cost_estimate", "name_and_src_info", "metadata", "linear", "new_dtype", "new_sizes", "shape",
    "preferred_element_type", "requires_low",
}  # fmt: skip
# Each element of their result hangs on the elements at its own place alone; a scalar operand stands for an array of it.
ELEMENTWISE = set(
    "neg sign floor ceil round is_finite exp exp2 log log1p expm1 tanh sin cos tan asin acos atan sinh cosh asinh acosh "
    "atanh sqrt rsqrt cbrt abs not population_count clz integer_pow pow square logistic erf erfc erf_inv lgamma digamma "
    "real imag conj complex add sub mul div rem max min and or xor eq ne lt le gt ge atan2 nextafter shift_left "
    "shift_right_logical shift_right_arithmetic select_n clamp convert_element_type reduce_precision add_any".split()
)
COMMUTATIVE = {"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne", "add_any"}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_NUMPY_INT = re.compile(r"np\.int64\((-?\d+)\)")  # of axes that jax computed with numpy, such as under vmap
_LONGEST_PARAM = 400


def structure(closed: Any) -> dict[str, Any]:
    """The structure of a `jax.core.ClosedJaxpr`."""
    return {"schema": SCHEMA, **_Graph().whole(closed.jaxpr, [_constant(value) for value in closed.consts])}


class _Graph:
    """One program, or one body, while it is taken down."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.numbers: dict[str, int] = {}
        self.scalars: dict[str, str] = {}  # of a value that is one scalar everywhere, that scalar

    def whole(self, jaxpr: Any, consts: list[str]) -> dict[str, Any]:
        """consts: references to, or values of, the body's own constants."""
        inputs = [f"a{number}" for number in range(len(jaxpr.invars))]
        outputs = self.inline(jaxpr, consts, inputs)
        self._prune(outputs)
        return {
            "inputs": [_type(var.aval) for var in jaxpr.invars],
            "outputs": outputs,
            "types": [_type(var.aval) for var in jaxpr.outvars],
            "nodes": self.nodes,
        }

    def inline(self, jaxpr: Any, consts: list[str], inputs: list[str]) -> list[str]:
        env: dict[Any, str] = {}
        for var, value in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True):
            env[var] = value

        def read(atom: Any) -> str:
            return _constant(atom.val, atom.aval.dtype) if hasattr(atom, "val") else env[atom]

        for eqn in jaxpr.eqns:
            found = self._equation(eqn, [read(atom) for atom in eqn.invars])
            for var, value in zip(eqn.outvars, found, strict=True):
                env[var] = value
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, eqn: Any, operands: list[str]) -> list[str]:
        name = eqn.primitive.name
        if name in _INLINED and _INLINED[name] in eqn.params:
            inner = eqn.params[_INLINED[name]]
            consts = [_constant(value) for value in getattr(inner, "consts", ())]
            return self.inline(getattr(inner, "jaxpr", inner), consts, operands)
        if name in _PASSES_ON and len(operands) == len(eqn.outvars):
            return operands
        types = [_type(var.aval) for var in eqn.outvars]
        whole = operands
        if name in ELEMENTWISE:
            operands = [self.scalars.get(ref, ref) for ref in operands]
        if len(types) == 1 and (known := self._known(eqn, operands, whole, types[0])) is not None:
            return [known]
        params: dict[str, Any] = {}
        bodies: list[dict[str, Any]] = []
        for key, value in sorted(eqn.params.items()):
            if inner := _bodies(value):
                bodies += [_body(one) for one in inner]
            elif key not in _IGNORED and (plain := _plain(value)) is not None:
                params[key] = plain
        if name in COMMUTATIVE:
            operands = sorted(operands)
        node: dict[str, Any] = {"op": name, "in": operands, "out": types}
        if params:
            node["params"] = params
        if bodies:
            node |= {"bodies": bodies, "times": eqn.params.get("length", 1 if name == "cond" else None)}
        if eqn.effects:
            node["effects"] = True
        number = self._add(node)
        return [f"n{number}.{position}" for position in range(len(types))]

    def _known(self, eqn: Any, operands: list[str], whole: list[str], kind: str) -> str | None:
        """What stands for the result of an equation that computes nothing, or only with constants.

        whole: the operands before scalars stood for arrays of them.
        """
        name = eqn.primitive.name
        if name in ELEMENTWISE and all(ref.startswith("c:") for ref in operands):
            folded = _folded(name, eqn, operands)
            if folded is not None:
                return self._filled(folded, kind)
        if name == "broadcast_in_dim" and eqn.invars[0].aval.ndim == 0:
            return self._filled(operands[0], kind)
        if name == "select_n" and operands[0].startswith("c:bool:"):
            chosen = 1 + (operands[0] == "c:bool:True")
            return whole[chosen] if len(whole) == 3 else None
        return _same(eqn, whole, kind)

    def _filled(self, scalar: str, kind: str) -> str:
        """The array of one type that is a scalar everywhere."""
        if kind.endswith("[]"):
            return scalar
        ref = f"n{self._add({'op': 'broadcast_in_dim', 'in': [scalar], 'out': [kind]})}.0"
        self.scalars[ref] = scalar
        return ref

    def _add(self, node: dict[str, Any]) -> int:
        """The number of a node, of the same one if it is there; what has effects is done as often as it is said."""
        number = len(self.nodes)
        if not node.get("effects"):
            number = self.numbers.setdefault(json.dumps(node, sort_keys=True), number)
        if number == len(self.nodes):
            self.nodes.append(node)
        return number

    def _prune(self, outputs: list[str]) -> None:
        """Drop what nothing depends on, number the rest anew and mend the references, those of `outputs` in place."""
        needed = {_node(ref) for ref in outputs}
        for number in reversed(range(len(self.nodes))):
            node = self.nodes[number]
            if number in needed or node.get("effects"):
                needed.add(number)
                needed |= {_node(ref) for ref in node["in"]}
        new = {old: at for at, old in enumerate(number for number in range(len(self.nodes)) if number in needed)}

        def mended(ref: str) -> str:
            at = _node(ref)
            return ref if at is None else f"n{new[at]}.{ref.partition('.')[2]}"

        self.nodes = [
            node | {"in": [mended(ref) for ref in node["in"]]} for at, node in enumerate(self.nodes) if at in new
        ]
        outputs[:] = [mended(ref) for ref in outputs]


def _node(ref: str) -> int | None:
    return int(ref[1:].partition(".")[0]) if ref.startswith("n") else None


def _type(aval: Any) -> str:
    return str(aval.str_short(short_dtypes=True))


def _constant(value: Any, dtype: Any = None) -> str:
    import numpy as np

    if hasattr(value, "dtype") and not isinstance(value, np.ndarray | np.generic):
        import jax

        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            value = jax.random.key_data(value)
    array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
    short = _short(array.dtype)
    if array.ndim == 0:
        return f"c:{short}:{array[()]!s}"
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    return f"k:{short}[{','.join(map(str, array.shape))}]:{digest}"


def _short(dtype: Any) -> str:
    from jax._src.dtypes import short_dtype_name

    return str(short_dtype_name(dtype))


def _bodies(value: Any) -> list[Any]:
    """The jaxprs of a parameter."""
    values = value if isinstance(value, tuple | list) else [value]
    return list(values) if values and all(hasattr(getattr(one, "jaxpr", one), "eqns") for one in values) else []


def _body(inner: Any) -> dict[str, Any]:
    consts = [_constant(value) for value in getattr(inner, "consts", ())]
    return _Graph().whole(getattr(inner, "jaxpr", inner), consts)


def _plain(value: Any) -> Any:
    """A parameter as JSON; None for what says nothing (None, False, functions, the default precision)."""
    import numpy as np

    if value is None or value is False or (callable(value) and not isinstance(value, type)):
        return None
    if isinstance(value, np.integer):  # of a shape that was computed with numpy
        return int(value)
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return _constant(value)
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        items = [_item(item) for item in value]
        if items and all(type(item).__name__ == "Precision" for item in value):
            return _plain(value[0]) if items[0] == items[-1] else items
        return items
    if type(value).__name__ == "Precision" and str(value) == "DEFAULT":
        return None
    text = _NUMPY_INT.sub(r"\1", _ADDRESS.sub("", str(value)))
    return text if len(text) <= _LONGEST_PARAM else "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _item(value: Any) -> Any:
    return value if value is None else _plain(value)


def _same(eqn: Any, operands: list[str], kind: str) -> str | None:
    """The operand that an equation only passes on."""
    name, params = eqn.primitive.name, eqn.params
    if name == "transpose" and list(params["permutation"]) != sorted(params["permutation"]):
        return None
    if name in ("convert_element_type", "reshape", "broadcast_in_dim", "transpose", "slice") and len(operands) == 1:
        return operands[0] if _type(eqn.invars[0].aval) == kind else None
    return None


def _folded(name: str, eqn: Any, operands: list[str]) -> str | None:
    """An operation on scalar constants, done; only those that every machine rounds in the same way."""
    import numpy as np

    exact = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "neg": np.negative,
        "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
        "not": np.logical_not, "and": np.bitwise_and, "or": np.bitwise_or, "sqrt": np.sqrt,
    }  # fmt: skip
    dtype = eqn.outvars[0].aval.dtype
    values = [_value(ref, atom.aval.dtype) for ref, atom in zip(operands, eqn.invars, strict=True)]
    with np.errstate(all="ignore"):
        if name == "convert_element_type":
            return _constant(values[0], dtype)
        if name == "div" and np.issubdtype(values[0].dtype, np.inexact):
            return _constant(np.divide(*values), dtype)
        if name == "not" and values[0].dtype != np.bool_:
            return None
        return _constant(exact[name](*values), dtype) if name in exact else None


def _value(ref: str, dtype: Any) -> Any:
    import numpy as np

    text = ref.split(":", 2)[2]
    return np.asarray(
        text == "True"
        if np.dtype(dtype) == np.bool_
        else np.array(float(text) if _floating(text) else int(text)).astype(dtype)
    )


def _floating(text: str) -> bool:
    return not re.fullmatch(r"[+-]?\d+", text)

"""What a program computes, without what its layout and its spelling add: a key for every value.

Two values with one key are the same computation of the same arguments, but for these differences, and no other:

- layout: transpose, reshape, squeeze, expand_dims and broadcast_in_dim. Axes keep their names through them (`axes`), so
  a reduction or contraction over another axis has another key, whatever the array's layout is;
- where a broadcast is done: before an elementwise operation or after it;
- the order and grouping of the terms of a sum and of the factors of a product in one dtype (rounding only), with
  a - b as a + (-b), square, integer_pow and pow with an exponent of 2 to 4 as products; factors of one;
- a / sqrt(b) and 1 / sqrt(b) as products with rsqrt(b): both are within two roundings of the true value and have the
  same NaN and infinities;
- division by a power of two as multiplication by its reciprocal: the same bits. By no other constant;
- the maximum with -infinity; a > b as b < a; widening a float and narrowing it back at once;
- the order of the two operands of a dot_general.

Not among them: constants of other values, other dtypes, other precisions, other axes, an operation left out or put in,
a constant added inside or outside a root, a quotient in place of a product with a rounded reciprocal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hawkeye_mcp.intake import axes, keyed
from hawkeye_mcp.intake.axes import Atom
from hawkeye_mcp.intake.graph import Graph, Node, dtype_and_shape, integers, pairs
from hawkeye_mcp.intake.keyed import Value
from hawkeye_mcp.intake.structure import COMMUTATIVE, ELEMENTWISE
from hawkeye_mcp.intake.structure_facts import CUMULATIVE, REDUCTIONS, describe, shown_constant

_MOST_TERMS = 64
_WIDER = {"bf16": {"f32", "f64"}, "f16": {"f32", "f64"}, "f32": {"f64"}}
_MIRRORED = {"gt": "lt", "ge": "le"}
_LARGEST_POWER = 4


@dataclass(frozen=True)
class Entry:
    """One operation as it counts: its line for a reader, and the keys it hangs on."""

    line: str
    operands: tuple[str, ...]


@dataclass
class Essence:
    """outputs: key and axes of each. entries: every operation by its key."""

    outputs: list[tuple[str, str, list[str]]] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        effects = [key for key, entry in self.entries.items() if entry.line.startswith("effect ")]
        return keyed.digest("outputs", self.outputs, effects)


def essence(graph: Graph) -> Essence:
    """Everything that the graph computes."""
    return _Reading(graph).whole()


class _Reading:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.found = graph, Essence()
        self.values: dict[str, Value] = {}
        for number, kind in enumerate(graph.inputs):
            dtype, shape = dtype_and_shape(kind)
            self.values[f"a{number}"] = Value(f"a{number}", dtype, axes.named(f"a{number}", shape or ()), f"a{number}")

    def whole(self) -> Essence:
        for number, node in enumerate(self.graph.nodes):
            for position, value in enumerate(self._node(node)):
                self.values[f"n{number}.{position}"] = value
        for ref in self.graph.outputs:
            value = self._value(ref)
            self.found.outputs.append((value.key, value.dtype, axes.texts(value.dims)))
        return self.found

    def _value(self, ref: str) -> Value:
        if ref in self.values:
            return self.values[ref]
        dtype, shape = dtype_and_shape(self.graph.type_of(ref))
        name = shown_constant(ref)
        if ref.startswith("c:f32:"):
            ref = f"c:f32:{keyed.single(ref.split(':', 2)[2])}"
        return Value(ref, dtype, axes.named(ref, shape or ()), name)

    def _node(self, node: Node) -> list[Value]:
        operands = [self._value(ref) for ref in node.operands]
        kinds = [dtype_and_shape(kind) for kind in node.out]
        dtype, shape = kinds[0] if len(kinds) == 1 else ("", None)
        if shape is None or node.bodies or node.effects or not operands and node.op != "iota":
            return self._opaque(node, operands)
        try:
            if (moved := keyed.layout(node, operands, shape)) is not None:
                return [moved]
        except (axes.Opaque, ArithmeticError, IndexError, KeyError, ValueError, TypeError):
            return self._opaque(node, operands)
        try:
            found = self._computed(node, operands, dtype, shape)
        except (
            ArithmeticError,
            IndexError,
            KeyError,
            TypeError,
            ValueError,
        ):  # parameters or shapes that no such operation has
            found = None
        return [found] if found else self._opaque(node, operands)

    def _computed(self, node: Node, operands: list[Value], dtype: str, shape: tuple[int, ...]) -> Value | None:
        """The value of an operation that is understood here."""
        if node.op in ELEMENTWISE:
            return self._elementwise(node, operands, dtype, shape)
        if node.op in REDUCTIONS | CUMULATIVE:
            return self._reduced(node, operands[0], dtype)
        if node.op == "dot_general":
            return self._product(node, operands, dtype)
        if node.op == "slice":
            return self._sliced(node, operands[0], dtype)
        return self._iota(node, dtype, shape) if node.op == "iota" else None

    def _add(self, node: Node, key: str, operands: Sequence[Value], op: str = "") -> str:
        names = ", ".join(dict.fromkeys(value.name for value in operands))
        line = f"{describe(self.graph, node)}{f'  ({op or node.op} of {names})' if names else ''}"
        if node.effects:
            line = f"effect {line}"
        self.found.entries.setdefault(key, Entry(line, tuple(value.key for value in operands)))
        return key

    def _opaque(self, node: Node, operands: list[Value]) -> list[Value]:
        bodies = [essence(body).digest for body in node.bodies]
        order = len(self.found.entries) if node.effects else 0
        inputs = [(value.key, axes.texts(value.dims)) for value in operands]
        key = keyed.digest(node.op, node.out, sorted(node.params.items()), inputs, bodies, node.times, order)
        self._add(node, key, operands)
        found = []
        for position, kind in enumerate(node.out):
            dtype, shape = dtype_and_shape(kind)
            found.append(Value(f"{key}.{position}", dtype, axes.named(f"{key}.{position}", shape or ()), node.op))
            self.found.entries.setdefault(f"{key}.{position}", self.found.entries[key])
        return found

    # --- elementwise

    def _elementwise(self, node: Node, operands: list[Value], dtype: str, shape: tuple[int, ...]) -> Value:
        op = node.op
        full = [keyed.filled(value, shape) for value in operands]
        if op in _MIRRORED:
            op, full = _MIRRORED[op], full[::-1]
        if op == "max" and (rest := [value for value in full if value.constant != -math.inf]) and len(rest) == 1:
            return rest[0]
        if op == "convert_element_type":
            return self._converted(node, full[0], dtype, shape)
        if op == "sqrt":
            return replace(self._plain(node, op, full, dtype, shape), root=full[0].bare)
        if op in ("add", "add_any", "sub"):
            if op == "sub":
                full = [full[0], self._plain(node, "neg", [full[1]], dtype, shape)]
            return self._terms(node, "add", full, dtype, shape)
        if (factors := self._factors(node, op, full, dtype, shape)) is not None:
            return self._terms(node, "mul", factors, dtype, shape)
        return self._plain(node, op, full, dtype, shape)

    def _factors(
        self, node: Node, op: str, full: list[Value], dtype: str, shape: tuple[int, ...]
    ) -> list[Value] | None:
        """The factors of what is a product under another name."""
        if op == "mul":
            return full
        if op == "square":
            return full * 2
        power = full[1].constant if op == "pow" else node.params.get("y") if op == "integer_pow" else None
        for whole in range(2, _LARGEST_POWER + 1):
            if power == whole:
                return full[:1] * whole
        if op == "div" and dtype[0] in "fb":
            above, below = full
            if below.root:
                return [above, self._plain(node, "rsqrt", [below.root], dtype, shape)]
            if below.constant and _power_of_two(below.constant):
                return [
                    above,
                    keyed.filled(Value(f"c:{dtype}:{1 / below.constant!r}", dtype, (), str(1 / below.constant)), shape),
                ]
        return None

    def _terms(self, node: Node, op: str, full: list[Value], dtype: str, shape: tuple[int, ...]) -> Value:
        flat: list[Value] = []
        for value in full:
            nested = value.terms[1] if value.terms and value.terms[0] == op and value.dtype == dtype else (value,)
            flat += nested
        if op == "mul":
            if len(others := [value for value in full if value.constant != 1]) == 1:
                return others[0]
            flat = [value for value in flat if value.constant != 1] or flat[:1]
        if len(flat) > _MOST_TERMS:
            flat = full
        if len(flat) == 1:
            return flat[0]
        return replace(self._plain(node, op, flat, dtype, shape), terms=(op, tuple(value.bare for value in flat)))

    def _converted(self, node: Node, value: Value, dtype: str, shape: tuple[int, ...]) -> Value:
        if value.narrow and value.narrow.dtype == dtype:
            return value.narrow
        found = self._plain(node, "convert", [value], dtype, shape)
        return replace(found, narrow=value) if dtype in _WIDER.get(value.dtype, ()) else found

    def _plain(self, node: Node, op: str, full: list[Value], dtype: str, shape: tuple[int, ...]) -> Value:
        """Any elementwise operation, of operands of the full shape."""
        if op in COMMUTATIVE:
            full = sorted(full, key=lambda value: value.order)
        places = [axes.aligned([value.dims[at] for value in full]) for at in range(len(shape))]
        varying = [[column for column in place if any(atom.label for atom in column)] for place in places]
        columns = keyed.distinct(column for place in varying for column in place)
        params = [] if op in ("mul", "neg", "rsqrt", "convert") else sorted(node.params.items())
        key = self._add(node, keyed.digest(op, dtype, params, [value.key for value in full], columns), full, op)

        dims = tuple(tuple(keyed.along(key, column) for column in place) for place in places)
        return Value(key, dtype, dims, op)

    # --- the rest

    def _reduced(self, node: Node, value: Value, dtype: str) -> Value:
        cumulative = node.op in CUMULATIVE
        over = (node.params["axis"],) if cumulative else integers(node.params["axes"])
        inside = axes.spelled(tuple(value.dims[axis] for axis in over))
        rest = axes.spelled(tuple(dim for at, dim in enumerate(value.dims) if at not in over))
        others = {name: one for name, one in node.params.items() if name not in ("axis", "axes")}
        key = self._add(node, keyed.digest(node.op, dtype, sorted(others.items()), value.key, inside, rest), [value])
        kept = [dim for at, dim in enumerate(value.dims) if cumulative or at not in over]
        return Value(key, dtype, tuple(keyed.new(key, dim) for dim in kept), node.op)

    def _product(self, node: Node, operands: list[Value], dtype: str) -> Value | None:
        numbers = pairs(node)
        if numbers is None or len(operands) != 2:
            return None
        left, right = operands
        contracted, batch = (list(zip(*one, strict=True)) for one in numbers)
        swapped = right.order < left.order

        def columns(of: list[tuple[int, int]]) -> list[list[tuple[Atom, ...]]]:
            found = [axes.aligned([left.dims[first], right.dims[second]]) for first, second in of]
            return [[column[::-1] if swapped else column for column in place] for place in found]

        inside, along = columns(contracted), columns(batch)
        free = [
            [
                value.dims[at]
                for at in range(len(value.dims))
                if at not in {pair[side] for pair in (*contracted, *batch)}
            ]
            for side, value in enumerate(operands)
        ]
        sides = [(value.key, axes.spelled(tuple(dims))) for value, dims in zip(operands, free, strict=True)]
        shapes = [keyed.distinct(column for place in of for column in place) for of in (inside, along)]
        precision = str(node.params.get("precision"))
        key = self._add(
            node, keyed.digest("dot", dtype, precision, sides[::-1] if swapped else sides, shapes), operands
        )
        dims = [tuple(keyed.along(key, column) for column in place) for place in along]
        for value, kept in zip(operands, free, strict=True):
            dims += [keyed.new(f"{key}{value.key}", dim) for dim in kept]
        return Value(key, dtype, tuple(dims), "dot_general")

    def _sliced(self, node: Node, value: Value, dtype: str) -> Value:
        starts, limits = integers(node.params["start_indices"]), integers(node.params["limit_indices"])
        strides = integers(node.params.get("strides")) or (1,) * len(starts)
        cuts, dims = [], []
        for dim, start, limit, stride in zip(value.dims, starts, limits, strides, strict=True):
            if (start, limit, stride) != (0, axes.size(dim), 1):
                cuts.append((axes.texts((dim,)), start, limit, stride))
        rest = axes.spelled(value.dims)
        key = self._add(node, keyed.digest("slice", dtype, value.key, sorted(cuts), rest), [value])
        for dim, start, limit, stride in zip(value.dims, starts, limits, strides, strict=True):
            if (start, limit, stride) == (0, axes.size(dim), 1):
                dims.append(keyed.new(key, dim))
            else:
                length = -(-(limit - start) // stride)
                dims.append(() if length == 1 else (Atom(keyed.digest(key, axes.texts((dim,))), length, length),))
        return Value(key, dtype, tuple(dims), "slice")

    def _iota(self, node: Node, dtype: str, shape: tuple[int, ...]) -> Value:
        at = node.params["dimension"]
        key = self._add(node, keyed.digest("iota", dtype, shape[at]), [])
        along = () if shape[at] == 1 else (Atom(key, shape[at], shape[at]),)
        return Value(
            key, dtype, tuple(along if axis == at else axes.broadcast(n) for axis, n in enumerate(shape)), "iota"
        )


def _power_of_two(number: float) -> bool:
    return math.isfinite(number) and number > 0 and math.frexp(number)[0] == 0.5

"""One array of a program, known by a key: what it is computed from, whatever its layout is."""

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hawkeye_mcp.intake import axes
from hawkeye_mcp.intake.axes import Atom
from hawkeye_mcp.intake.graph import Node, integers


@dataclass(frozen=True)
class Value:
    """One array. terms: (operation, operands) of a sum or product; root: of what it is the square root; narrow: what it
    was widened from. All of these have this value's shape; the first two are bare, so that what is shared is not moved
    again and again."""

    key: str
    dtype: str
    dims: axes.Dimensions
    name: str
    terms: tuple[str, tuple["Value", ...]] | None = None
    root: "Value | None" = None
    narrow: "Value | None" = None

    def moved(self, move: Callable[[axes.Dimensions], axes.Dimensions]) -> "Value":
        def of(one: "Value | None") -> "Value | None":
            return one.moved(move) if one else None

        terms = self.terms and (self.terms[0], tuple(term.moved(move) for term in self.terms[1]))
        return replace(self, dims=move(self.dims), terms=terms, root=of(self.root), narrow=of(self.narrow))

    @property
    def bare(self) -> "Value":
        return replace(self, terms=None, root=None, narrow=None)

    @property
    def order(self) -> tuple[str, list[str]]:
        return self.key, axes.texts(self.dims)

    @property
    def constant(self) -> float | None:
        if not self.key.startswith("c:"):
            return None
        try:
            return float(self.key.split(":", 2)[2])
        except ValueError:
            return None


def digest(*parts: Any) -> str:
    """The same for equal parts, of whatever plain data."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def new(key: str, dimension: axes.Dimension) -> axes.Dimension:
    """The axis of a result that goes along one of its operand's."""
    return tuple(along(key, (atom,)) for atom in dimension)


def along(key: str, column: Sequence[Atom]) -> Atom:
    """The atom of a result, named by `key`, that goes along these of its operands."""
    return axes.column_atom(digest(key, axes.column_text(column)), column)


def distinct(columns: Iterable[Sequence[Atom]]) -> list[list[str]]:
    """What axes meet, however they are cut."""
    return sorted({tuple(axes.column_text(column)): axes.column_text(column) for column in columns}.values())


def filled(value: Value, shape: tuple[int, ...]) -> Value:
    """An operand as an array of the full shape: a scalar is as good as one, and so is one element along an axis."""
    sizes = tuple(axes.size(dim) for dim in value.dims)
    if sizes == shape or not (len(sizes) == len(shape) or not sizes):
        return value

    def fill(dims: axes.Dimensions) -> axes.Dimensions:
        dims = dims or ((),) * len(shape)
        return tuple(dim or axes.broadcast(length) for dim, length in zip(dims, shape, strict=True))

    return value.moved(fill)


def layout(node: Node, operands: list[Value], shape: tuple[int, ...]) -> Value | None:
    """The operand with its axes moved; None for what is no layout."""
    if node.op == "transpose":
        return operands[0].moved(lambda dims: axes.transposed(dims, integers(node.params["permutation"])))
    if node.op == "broadcast_in_dim":
        at = integers(node.params.get("broadcast_dimensions"))
        return operands[0].moved(lambda dims: axes.broadcast_in_dim(dims, shape, at))
    if node.op in ("reshape", "squeeze", "expand_dims") and len(operands) == 1:
        return operands[0].moved(lambda dims: axes.reshaped(dims, shape))
    return None


def single(text: str) -> str:
    """A float32 written with all its digits, so that what is computed from it can be compared."""
    try:
        return repr(struct.unpack("f", struct.pack("f", float(text)))[0])
    except (ValueError, OverflowError):
        return text

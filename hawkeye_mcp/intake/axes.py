"""Axes of an array that keep their names wherever a program moves them: through transposes, reshapes and broadcasts.

An array has a list of dimensions, each a tuple of atoms. An atom is (part of) an axis that an operation made: its label
names that axis, `size` of its `whole` indices every `stride`. The empty label is a broadcast: the same at every index.
Dimensions of one element have no atoms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


class Opaque(ValueError):
    """The axes cannot be followed through this reshape."""


@dataclass(frozen=True)
class Atom:
    label: str
    size: int
    whole: int
    stride: int = 1

    @property
    def text(self) -> str:
        if not self.label:
            return f"*{self.size}"
        part = "" if self.size == self.whole else f"/{self.stride}%{self.size}"
        return f"{self.label}:{self.whole}{part}"


Dimension = tuple[Atom, ...]
Dimensions = tuple[Dimension, ...]


def named(label: str, sizes: Sequence[int]) -> Dimensions:
    """The dimensions of something new, each an axis of its own."""
    return tuple(() if size == 1 else (Atom(f"{label}.{at}", size, size),) for at, size in enumerate(sizes))


def broadcast(size: int) -> Dimension:
    return () if size == 1 else (Atom("", size, size),)


def texts(dimensions: Dimensions) -> list[str]:
    return ["+".join(atom.text for atom in dimension) for dimension in dimensions]


def spelled(dimensions: Dimensions) -> list[str]:
    """What axes these are together, however they are cut and ordered."""
    atoms = [atom for dimension in dimensions for atom in dimension]
    sizes: dict[tuple[str, int], int] = {}
    for atom in atoms:
        axis = (atom.label, atom.whole if atom.label else 0)
        sizes[axis] = sizes.get(axis, 1) * atom.size
    found = {
        f"{atom.label}:{atom.whole}" if sizes[atom.label, atom.whole] == atom.whole else atom.text
        for atom in atoms
        if atom.label
    }
    broadcasts = sizes.get(("", 0), 1)
    return sorted(found | ({f"*{broadcasts}"} if broadcasts > 1 else set()))


def column_text(column: Sequence[Atom]) -> list[str]:
    """Of atoms at one place of several operands, of one cut: the axes that they are of. Where the operands are cut
    differently, the atoms."""
    cut = {(atom.size, atom.whole, atom.stride) for atom in column if atom.label}
    if len(cut) == 1:
        return [f"{atom.label}:{atom.whole}" if atom.label else "*" for atom in column]
    return [atom.text for atom in column]


def column_atom(label: str, column: Sequence[Atom]) -> Atom:
    """The atom of the result at that place; `label` names the axis."""
    cut = {(atom.size, atom.whole, atom.stride) for atom in column if atom.label}
    if not cut:
        return Atom("", column[0].size, column[0].size)
    if len(cut) == 1:
        return Atom(label, *cut.pop())
    return Atom(label, column[0].size, column[0].size)


def size(dimension: Dimension) -> int:
    return math.prod(atom.size for atom in dimension)


def aligned(parts: Sequence[Dimension]) -> list[tuple[Atom, ...]]:
    """The atoms that lie at the same place, one of each of `parts`, which all have one size.

    They are cut until all are cut alike; where that cannot be, each part is taken as one.
    """
    waiting = [list(part) for part in parts]
    columns = []
    while any(waiting):
        smallest = min(part[0].size if part else 1 for part in waiting)
        if smallest <= 1 or any(part[0].size % smallest for part in waiting):
            return [tuple(joined(part) for part in parts)]
        columns.append(tuple(_outer(part, smallest) for part in waiting))
    return columns


def _outer(part: list[Atom], length: int) -> Atom:
    """Take the outermost atom of this length off the part."""
    atom = part.pop(0)
    if atom.size == length:
        return atom
    rest = atom.size // length
    part.insert(0, _part(atom, rest, 1))
    return _part(atom, length, rest)


def joined(dimension: Dimension) -> Atom:
    if len(dimension) == 1:
        return dimension[0]
    whole = size(dimension)
    if not any(atom.label for atom in dimension):
        return Atom("", whole, whole)
    return Atom(f"({'+'.join(atom.text for atom in dimension)})", whole, whole)


def transposed(dimensions: Dimensions, permutation: Sequence[int]) -> Dimensions:
    return tuple(dimensions[axis] for axis in permutation)


def broadcast_in_dim(dimensions: Dimensions, shape: Sequence[int], at: Sequence[int]) -> Dimensions:
    """at: where each of the dimensions goes."""
    found = [broadcast(length) for length in shape]
    for dimension, axis in zip(dimensions, at, strict=True):
        if dimension or shape[axis] == 1:
            found[axis] = dimension
    return tuple(found)


def reshaped(dimensions: Dimensions, shape: Sequence[int]) -> Dimensions:
    """Raises Opaque where a new dimension takes a part of an axis that no stride describes, and for empty arrays."""
    atoms = [atom for dimension in dimensions for atom in dimension]
    if 0 in shape or any(not atom.size for atom in atoms):
        raise Opaque
    found: list[Dimension] = []
    for length in shape:
        taken: list[Atom] = []
        missing = length
        while missing > 1:
            if not atoms:
                raise Opaque
            atom = atoms.pop(0)
            if missing % atom.size == 0:
                taken.append(atom)
                missing //= atom.size
            elif atom.size % missing == 0:
                rest = atom.size // missing
                taken.append(_part(atom, missing, rest))
                atoms.insert(0, _part(atom, rest, 1))
                missing = 1
            else:
                raise Opaque
        found.append(_recombined(taken))
    return tuple(found)


def _part(atom: Atom, length: int, stride: int) -> Atom:
    if not atom.label:
        return Atom("", length, length)
    return Atom(atom.label, length, atom.whole, atom.stride * stride)


def _recombined(atoms: Sequence[Atom]) -> Dimension:
    """Neighbours that were cut from one axis are one again."""
    found: list[Atom] = []
    for atom in atoms:
        last = found[-1] if found else None
        if last and not last.label and not atom.label:
            found[-1] = Atom("", last.size * atom.size, last.size * atom.size)
        elif last and last.label == atom.label and last.stride == atom.stride * atom.size:
            found[-1] = Atom(atom.label, last.size * atom.size, atom.whole, atom.stride)
        else:
            found.append(atom)
    return tuple(found)

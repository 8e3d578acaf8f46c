"""Programs of two sizes as one function, whose lengths come from its arguments' shapes.

Emitted texts that differ in numbers alone are one text, in which each differing number is said by the lengths of the
arguments: `B`, `B * S`, `H // 2`. A number that cannot be said so leaves two functions, and the shape of an argument
chooses between them. What is written is true at the two sizes; nothing is claimed of others. Imports no jax.
"""

import functools
import itertools
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hawkeye_mcp.workloads import Size

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\s+|.", re.DOTALL)
_MOST_FACTOR, _MOST_STEP, _MOST_ADDED = 64, 4, 16

_FACTORS = {1: None, 2: 20, 3: 8}  # how many of the lengths are tried in products of so many


class NotOne(ValueError):
    """Nothing about the arguments tells the two programs apart."""


@dataclass(frozen=True)
class Length:
    """A length that differs between the sizes. said: how the function gets it."""

    name: str
    full: int
    check: int
    said: str


def merged(
    texts: Mapping[Size, str],
    shapes: Mapping[Size, Sequence[tuple[int, ...]]],
    constants: Mapping[Size, Mapping[str, int]],
) -> str:
    """One function from those of both sizes, which have the same name.

    shapes: of the arguments, at each size. constants: named numbers of the sizes, whose names lengths get where they fit.

    Raises:
        NotOne: the programs differ and the shapes do not.
    """
    if texts["full"] == texts["check"]:
        return texts["full"]
    found = lengths(texts["full"], shapes, constants)
    together = _unified(texts["full"], texts["check"], found)
    return together if together is not None else _chosen(texts, shapes)


def are_one(
    texts: Mapping[Size, str],
    shapes: Mapping[Size, Sequence[tuple[int, ...]]],
    constants: Mapping[Size, Mapping[str, int]],
) -> bool:
    """Whether the programs of both sizes differ in nothing that does not follow from the lengths of the arguments."""
    if texts["full"] == texts["check"]:
        return True
    return _unified(texts["full"], texts["check"], lengths(texts["full"], shapes, constants)) is not None


def lengths(
    text: str, shapes: Mapping[Size, Sequence[tuple[int, ...]]], constants: Mapping[Size, Mapping[str, int]]
) -> list[Length]:
    """The lengths of the arguments that differ, each once."""
    arguments = _arguments(text)
    taken = {"jax", "jnp", "lax", "float", *re.findall(r"\w+", text)}
    found: dict[tuple[int, int], Length] = {}
    for argument, full, check in zip(arguments, shapes["full"], shapes["check"], strict=True):
        for axis, pair in enumerate(zip(full, check, strict=True)):
            if pair[0] != pair[1] and pair not in found:
                name = named(pair, constants) or f"{argument}_{axis}"
                while name in taken:
                    name += "_"
                taken.add(name)
                found[pair] = Length(name, *pair, f"{argument}.shape[{axis}]")
    return list(found.values())


def named(pair: tuple[int, int], constants: Mapping[Size, Mapping[str, int]]) -> str | None:
    """The constant that has this value at full size and that at the check size."""
    for name, value in constants["full"].items():
        if (value, constants["check"].get(name)) == pair:
            return name
    return None


def _arguments(text: str) -> list[str]:
    return [name.strip() for name in text[text.index("(") + 1 : text.index(")")].split(",") if name.strip()]


def _unified(full: str, check: str, found: Sequence[Length]) -> str | None:
    one, other = full.split("\n"), check.split("\n")
    if len(one) != len(other):
        return None
    lines = [_line(mine, theirs, found) for mine, theirs in zip(one, other, strict=True)]
    if None in lines:
        return None
    head, *body = [line for line in lines if line is not None]
    used = [length for length in found if re.search(rf"\b{length.name}\b", "\n".join(body))]
    return "\n".join([head, *(f"    {length.name} = {length.said}" for length in used), *body])


def _line(mine: str, theirs: str, found: Sequence[Length]) -> str | None:
    """A line that says what both do. A comment on one alone is left out: at the other size the shapes are equal by chance."""
    (code, sign, comment), (other_code, _, other_comment) = mine.partition("  # "), theirs.partition("  # ")
    said = _tokens(code, other_code, found)
    if said is None:
        return None
    told = _tokens(comment, other_comment, found) if comment and other_comment else None
    return f"{said}{sign}{told}" if told else said


def _tokens(mine: str, theirs: str, found: Sequence[Length]) -> str | None:
    one, other = _TOKEN.findall(mine), _TOKEN.findall(theirs)
    if len(one) != len(other):
        return None
    said = [a if a == b else _expression(a, b, tuple(found)) for a, b in zip(one, other, strict=True)]
    return None if None in said else "".join(filter(None, said))


@functools.lru_cache(maxsize=4096)
def _expression(mine: str, theirs: str, found: tuple[Length, ...]) -> str | None:
    """Two differing tokens as one expression of the lengths; None if they are no whole numbers, or it is not found."""
    try:
        full, check = float(mine), float(theirs)
    except ValueError:
        return None
    whole = full.is_integer() and check.is_integer()
    if whole:
        told = next((text for text, value in _candidates(int(full), int(check), found) if value), None)
        if told:
            return told if mine.isdigit() and theirs.isdigit() else f"float({told})"
    if mine.isdigit() or theirs.isdigit():
        return None
    return next((text for text, value in _powers(full, check, found) if value), None)


def _powers(full: float, check: float, found: Sequence[Length]) -> Iterator[tuple[str, bool]]:
    """Roots and reciprocals of lengths and of their parts, as scales of scores and means are."""
    for name, one, other in _products(found):
        for divisor in range(1, _MOST_FACTOR + 1):
            if one % divisor or other % divisor:
                continue
            said = name if divisor == 1 else f"({name} // {divisor})"
            said = f"({name})" if divisor == 1 and "*" in name else said
            for power in (0.5, -0.5, -1, 0.25, -0.25):
                alike = _alike((one // divisor) ** power, full) and _alike((other // divisor) ** power, check)
                yield f"({said}**{power:g})", alike


def _alike(value: float, said: float) -> bool:
    """Whether a number is what is said, once it is of float32 or of bfloat16."""
    if not math.isclose(value, said, rel_tol=0.01):
        return False
    (bits,) = struct.unpack("I", struct.pack("f", value))
    half = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return said in (struct.unpack("f", struct.pack("f", value))[0], struct.unpack("f", struct.pack("I", half))[0]) or (
        struct.pack("f", said) == struct.pack("f", value)
    )


def _candidates(full: int, check: int, found: Sequence[Length]) -> Iterator[tuple[str, bool]]:
    """Expressions, the simplest first, and whether they have these values at the two sizes."""
    products = list(_products(found))
    for name, one, other in products:
        yield name, (one, other) == (full, check)
    for name, one, other in products[: len(found)]:
        added = full - one
        sign = "+" if added > 0 else "-"
        yield f"{name} {sign} {abs(added)}", abs(added) <= _MOST_ADDED and other + added == check
    for name, one, other in products:
        factor, left = divmod(full, one)
        yield f"{factor} * {name}", not left and factor <= _MOST_FACTOR and factor * other == check
        divisor, left = divmod(one, full) if full > 0 else (0, 1)
        yield f"{name} // {divisor}", not left and other == divisor * check
    for name, one, other in products[: len(found)]:
        for step in range(2, _MOST_STEP + 1):
            for added in range(-_MOST_ADDED, _MOST_ADDED + 1):
                made = ((one + added) // step, (other + added) // step)
                yield f"({name} {'+' if added >= 0 else '-'} {abs(added)}) // {step}", made == (full, check)


def _products(found: Sequence[Length]) -> Iterator[tuple[str, int, int]]:
    """Each length, then the products of two and of three, with their values at the two sizes."""
    for count, most in _FACTORS.items():
        for several in itertools.combinations_with_replacement(found[:most], count):
            name = " * ".join(length.name for length in several)
            yield name, math.prod(length.full for length in several), math.prod(length.check for length in several)


def _chosen(texts: Mapping[Size, str], shapes: Mapping[Size, Sequence[tuple[int, ...]]]) -> str:
    """A function that holds that of each size."""
    arguments = _arguments(texts["full"])
    if arguments != _arguments(texts["check"]):
        raise NotOne("the programs of the two sizes hold different arrays of their own")
    both = zip(arguments, shapes["full"], shapes["check"], strict=True)
    argument, shape = next(((name, full) for name, full, check in both if full != check), ("", ()))
    if not argument:
        raise NotOne("the programs differ and the shapes of their arguments do not")
    given = ", ".join(arguments)
    name = texts["full"][: texts["full"].index("(")]
    parts = [f"{name}({given}):"]
    for size in ("full", "check"):
        inside = texts[size].replace(f"{name}(", f"def at_{size}_size(", 1).rstrip("\n")
        parts += [f"    {line}" for line in inside.split("\n")]
    parts.append(f"    return at_full_size({given}) if {argument}.shape == {shape} else at_check_size({given})\n")
    return "\n".join(parts)

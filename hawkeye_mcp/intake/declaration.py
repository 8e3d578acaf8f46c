"""The text of an imported workload's `workload.toml`. Imports no jax."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hawkeye_mcp.workloads import Size, Tolerance


@dataclass(frozen=True)
class Declared:
    """An array by its lengths at both sizes."""

    name: str
    full: tuple[int, ...]
    check: tuple[int, ...]
    dtype: str
    what: str = ""


@dataclass(frozen=True)
class Declaration:
    """What `workload.toml` says; the fields are those of `workloads.Workload`."""

    summary: str
    source: str
    changed: str
    inputs: Sequence[Declared]
    outputs: Sequence[Declared]
    constants: dict[Size, dict[str, int]]
    flops: float
    flops_what: str
    tolerance: Tolerance
    approval: bool = False

    def with_tolerance(self, tolerance: Tolerance) -> "Declaration":
        return replace(self, tolerance=tolerance)


def dimensions(
    arrays: Sequence[Declared], constants: Mapping[Size, Mapping[str, int]]
) -> tuple[dict[Size, dict[str, int]], dict[str, list[int | str]]]:
    """The named lengths at each size, and the shape of each array by these names.

    A length that is a constant of both sizes has its name, others that differ between the sizes that of the array and
    axis where they come first; a length that is the same at both is a number.
    """
    names: dict[tuple[int, int], str] = {}
    shapes: dict[str, list[int | str]] = {}
    for array in arrays:
        shape: list[int | str] = []
        for axis, pair in enumerate(zip(array.full, array.check, strict=True)):
            if pair[0] == pair[1]:
                shape.append(pair[0])
                continue
            if pair not in names:
                names[pair] = _constant(pair, constants, set(names.values())) or f"{array.name}_{axis}"
            shape.append(names[pair])
        shapes[array.name] = shape
    return {
        "full": {name: pair[0] for pair, name in names.items()},
        "check": {name: pair[1] for pair, name in names.items()},
    }, shapes


def _constant(pair: tuple[int, int], constants: Mapping[Size, Mapping[str, int]], taken: set[str]) -> str | None:
    for name, value in constants["full"].items():
        if (value, constants["check"].get(name)) == pair and name not in taken:
            return name
    return None


def text(declared: Declaration, least_bytes: int) -> str:
    """The whole file. least_bytes: of inputs and outputs at full size."""
    sizes, shapes = dimensions((*declared.inputs, *declared.outputs), declared.constants)
    lines = [
        'family = "imported"',
        f"summary = {_string(declared.summary)}",
        f"source = {_string(declared.source)}",
        f"changed = {_string(declared.changed)}",
        f"flops = {declared.flops:.0f}",
        f"flops_formula = {_string(f'{declared.flops:.0f}, {declared.flops_what}')}",
        f"least_bytes = {least_bytes}",
        *(['approval = "required"'] if declared.approval else []),
        "",
        "[sizes]",
        *(f"{size} = {_table(dims)}" for size, dims in sizes.items()),
    ]
    for kind, arrays in (("inputs", declared.inputs), ("outputs", declared.outputs)):
        for array in arrays:
            lines += ["", f"[[{kind}]]", f"name = {_string(array.name)}", f"shape = {json.dumps(shapes[array.name])}"]
            lines += [f"dtype = {_string(array.dtype)}", *([f"what = {_string(array.what)}"] if array.what else [])]
    told = declared.tolerance
    lines += [
        "",
        "# E: the norm of the error over that of the oracle less its mean over an axis; R: the worst row's error over its",
        "# norm. rtol and atol are told beside it and decide nothing.",
        "[tolerance]",
        f"metric = {_string(told.metric)}",
        f"limit = {told.limit:g}",
        f"rtol = {told.rtol:g}",
        f"atol = {told.atol:g}",
        f"axis = {told.axis}",
        f"reason = {_string(told.reason)}",
        "",
        "# A wrong program that the check cannot catch, if you know why that is no fault of the test:",
        "# [[survives]]",
        '# mutant = "add 1: operand 0 alone"',
        '# reason = "why"',
    ]
    return "\n".join(lines) + "\n"


def _table(values: dict[str, int]) -> str:
    return "{ " + ", ".join(f"{name} = {value}" for name, value in values.items()) + " }" if values else "{}"


def _string(value: str) -> str:
    """A basic string of TOML: what JSON writes, but for the character that only TOML forbids."""
    clean = value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")

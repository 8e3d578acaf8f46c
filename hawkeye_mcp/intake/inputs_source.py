"""The source of `create_inputs`: fresh values of each argument, or those that are kept. Imports no jax."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.intake import declaration, precise
from hawkeye_mcp.intake.capture import Draw, Normal, Uniform
from hawkeye_mcp.intake.declaration import Declared
from hawkeye_mcp.workloads import Size

SIZES: tuple[Size, ...] = ("full", "check")
ARRAYS = "workload.npz"  # pool.fingerprint covers workload.*


class NotWritten(Exception):
    """No workload can be made of the program; message: why. fix: what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"{message} {fix}")
        self.message, self.fix = message, fix


@dataclass(frozen=True)
class Argument:
    """An argument at both sizes. kept: where `workload.npz` has its values, by size; empty for what is drawn."""

    name: str
    role: str
    shapes: Mapping[Size, tuple[int, ...]]
    dtype: str
    draws: Mapping[Size, Draw | None]
    kept: Mapping[Size, NDArray[Any]]


def create_inputs(given: Sequence[Argument], constants: dict[Size, dict[str, int]]) -> str:
    """The function that draws inputs: fresh values, or those that are kept."""
    arrays = [Declared(a.name, a.shapes["full"], a.shapes["check"], a.dtype) for a in given]
    sizes, shapes = declaration.dimensions(arrays, constants)
    drawn = [argument for argument in given if not argument.kept]
    lines = ["def create_inputs(key, size):"]
    if drawn:
        lines.append(f"    keys = jax.random.split(key, {len(drawn)})")
    if is_kept(given):
        lines.append(f'    kept = np.load(Path(__file__).with_name("{ARRAYS}"))')
    if two_are_kept(given) or any(a.draws["full"] != a.draws["check"] for a in drawn):
        name, length = next(iter(sizes["full"].items()), ("", 0))
        if not name:
            raise NotWritten(
                "At the two sizes other values are drawn or kept, and no length of an argument tells which size it is.",
                "Change a length in `sizes`.",
            )
        lines.append(f'    full = size["{name}"] == {length}')
    lines.append("    return (")
    for argument in given:
        if argument.kept:
            where = f'"{argument.name}"'
            if two_are_kept([argument]):
                where = f'"full/{argument.name}" if full else "check/{argument.name}"'
            value = f"jnp.asarray(kept[{where}])"
            if precise.is_narrow(argument.dtype):
                value = f"lax.bitcast_convert_type({value}, jnp.{argument.dtype})"
        else:
            value = _drawn(argument, drawn.index(argument), shapes[argument.name])
        lines.append(f"        {value},  # {argument.name}")
    return "\n".join([*lines, "    )"]) + "\n"


def two_are_kept(given: Sequence[Argument]) -> bool:
    """Whether an array that is kept is another at the two sizes."""
    return any(a.kept and not np.array_equal(a.kept["full"], a.kept["check"]) for a in given)


def _drawn(argument: Argument, index: int, shape: Sequence[int | str]) -> str:
    value = _distribution(draw_arguments(index, shape), argument.draws["full"], argument.draws["check"])
    return value if argument.dtype == precise.WIDE else f"({value}).astype(jnp.{argument.dtype})"


def draw_arguments(index: int, shape: Sequence[int | str]) -> str:
    """What a draw is given: a key of its own, and the shape by the names of lengths."""
    lengths = [f'size["{length}"]' if isinstance(length, str) else str(length) for length in shape]
    said = f"({lengths[0]},)" if len(lengths) == 1 else f"({', '.join(lengths)})"
    return f"keys[{index}], {said}"


def _distribution(given: str, full: Draw | None, check: Draw | None) -> str:
    """An expression; where the two sizes differ in a number, `full` in it tells which it is."""
    if isinstance(full, Normal) and isinstance(check, Normal):
        scaled = f"jax.random.normal({given})"
        if (full.std, check.std) != (1, 1):
            scaled += f" * {_either(full.std, check.std)}"
        return scaled + (f" + {_either(full.mean, check.mean)}" if full.mean or check.mean else "")
    if isinstance(full, Uniform) and isinstance(check, Uniform):
        low, high = _either(full.low, check.low), _either(full.high, check.high)
        return f"jax.random.uniform({given}, minval={low}, maxval={high})"
    assert full and check
    return f"({_distribution(given, full, full)} if full else {_distribution(given, check, check)})"


def _either(full: float, check: float) -> str:
    return repr(full) if full == check else f"({full!r} if full else {check!r})"


def is_kept(given: Sequence[Argument]) -> bool:
    """Whether anything is."""
    return any(argument.kept for argument in given)

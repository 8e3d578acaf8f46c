"""From what was found at each size to what `capture.json` says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hawkeye_mcp.intake.capture import ArrayCapture, CaptureFailed, Draw, Kept, OutputCapture, SizeCapture
from hawkeye_mcp.intake.inside.draws import Choice, refitted
from hawkeye_mcp.intake.inside.program import Shaped, Traced, write
from hawkeye_mcp.intake.inside.record import Array, Record
from hawkeye_mcp.workloads import Size


@dataclass(frozen=True)
class Argument:
    """source: what the person's program calls it. name: an identifier."""

    source: str
    name: str
    role: Literal["input", "parameter", "buffer"]
    shape: tuple[int, ...]
    dtype: str

    @property
    def shaped(self) -> Shaped:
        return self.shape, self.dtype


@dataclass(frozen=True)
class Found:
    """The program at one size. values: of its arguments, by name, as far as they were made."""

    arguments: Sequence[Argument]
    outputs: Sequence[Shaped]
    traced: Traced | None
    values: Mapping[str, Array]


def same_at_every_seed(arguments: Sequence[Sequence[Argument]], others: Sequence[Any]) -> None:
    """others: what is among the arguments and no array. Raises CaptureFailed, source_fails, unless values alone differ."""
    try:
        same = all(other == others[0] for other in others)
    except Exception:  # objects that cannot be compared
        same = False
    if not same or any(list(other) != list(arguments[0]) for other in arguments):
        raise CaptureFailed(
            "source_fails",
            "At another seed the arguments have other shapes or types, or are other things than arrays and numbers.",
            "Give arrays and plain numbers, and let chance decide nothing but what is in the arrays.",
        )


def same_arguments(check: Sequence[Argument], full: Sequence[Argument]) -> None:
    """Raises CaptureFailed: bad_sizes, unless the two sizes differ in lengths alone."""
    one, other = ([(a.name, len(a.shape), a.dtype) for a in side] for side in (check, full))
    if one == other:
        return
    different = [a for a in one if a not in other] + [a for a in other if a not in one]
    named = ", ".join(f"{name} ({dtype}, {rank} axes)" for name, rank, dtype in different[:5])
    raise CaptureFailed(
        "bad_sizes",
        f"At `full` and at `check` the program does not take the same arguments; only one of them has {named}.",
        "Change lengths alone in `sizes`: a number of layers, for one, must be the same at both.",
    )


def unused(found: Sequence[Found]) -> list[bool]:
    """Which parameters and buffers no size depends on. Inputs stay, as does everything where nothing was traced."""
    traced = [each.traced for each in found]
    known = [each for each in traced if each]
    if len(known) < len(traced):
        return [False] * len(found[0].arguments)
    return [
        argument.role != "input" and not any(each.used[place] for each in known)
        for place, argument in enumerate(found[0].arguments)
    ]


def captured(
    size: Size, found: Found, dropped: Sequence[bool], choices: Mapping[str, Choice], record: Record, *, program: bool
) -> SizeCapture:
    """Adds arrays that are kept, and the program's own, to the record.

    program: whether the traced program is the workload's; else its structure alone is told.

    Raises:
        CaptureFailed: too_big, not_convertible.
    """
    arguments = [argument for argument, drop in zip(found.arguments, dropped, strict=True) if not drop]
    traced = found.traced.without(dropped) if found.traced else None
    written = write(traced, [argument.name for argument in arguments]) if traced and program else None
    arrays = tuple(
        ArrayCapture(
            name=argument.name,
            role=argument.role,
            shape=argument.shape,
            dtype=argument.dtype,
            draw=_draw(size, argument, choices[argument.name], found.values.get(argument.name), record),
        )
        for argument in arguments
    )
    return SizeCapture(
        arrays=arrays,
        outputs=tuple(OutputCapture(shape=shape, dtype=dtype) for shape, dtype in found.outputs),
        program=written.program if written else None,
        structure=traced.structure if traced else None,
        flops=traced.flops if traced else None,
        constants={
            name: record.add(f"{size}/constants/{name}", array)
            for name, array in (written.constants if written else {}).items()
        },
        constant_dtypes={name: array.dtype.name for name, array in (written.constants if written else {}).items()},
    )


def _draw(size: Size, argument: Argument, choice: Choice, value: Array | None, record: Record) -> Draw:
    if choice.draw:
        if size == "check" or value is None or argument.role == "input":
            return choice.draw
        return refitted(choice.draw, value)
    if value is None:
        raise CaptureFailed(
            "too_big",
            f"{argument.name} ({argument.dtype} {list(argument.shape)}) is kept as the program gives it, and at `{size}` "
            "there is not the memory to make it together with the arrays beside it.",
            f"Give `sizes` smaller numbers at `{size}`.",
        )
    return Kept(key=record.add(f"{size}/0/in/{argument.name}", value))

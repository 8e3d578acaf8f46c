"""`hawkeye references`: what kernels of others do, from their text; nothing of them is executed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawkeye_mcp.commands import options, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawkeye_mcp.intake.references.model import Facts, Value

EXIT_NO_KERNEL = 3


def references(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="CUDA (.cu and its headers), or Python with Triton, Pallas or inline CUDA."
        ),
    ],
    as_json: options.JsonOption = False,
) -> None:
    """Tell what kernels of others do, and what of it a TPU has: facts of the text with their lines.

    Kernels, launches, constants, on-chip memory, use of the matrix unit, and the means by which they are fast, each with
    its counterpart on a TPU or none. Files are read, never executed. With --json a list, one entry a file.

    Exit code: 0 kernels in every file, 2 a file cannot be read, 3 a file has no kernel.
    """
    from hawkeye_mcp.intake.references.read import facts
    from hawkeye_mcp.intake.references.text import ReferenceUnreadable

    found = []
    for file in files:
        try:
            found.append(facts(file))
        except ReferenceUnreadable as error:
            raise typer.BadParameter(str(error), param_hint="FILE") from None
    if as_json:
        running.print_json([one.model_dump(mode="json") for one in found])
    else:
        for one in found:
            typer.echo(running.visible("\n".join(_lines(one))))
    without = [one.path for one in found if not one.kernels]
    for path in without:
        typer.echo(f"{path}: no kernel found. Name the file that defines it.", err=True)
    if without:
        raise typer.Exit(EXIT_NO_KERNEL)


def _lines(found: "Facts") -> "Iterator[str]":
    yield f"{found.path}: {', '.join(found.languages) or 'no kernel'}, {found.lines} lines"
    for kernel in found.kernels:
        yield f"  kernel, lines {kernel.line}-{kernel.end_line}: {_short(kernel.signature)}"
    for launch in found.launches:
        grid = _dims(launch.grid) if launch.grid else launch.grid_text or "not given"
        block = f", block {_dims(launch.block) if launch.block else launch.block_text}" if launch.block_text else ""
        own = launch.shared_bytes if launch.shared_bytes and launch.shared_bytes.value != 0 else None
        shared = f", dynamic shared memory {_dims([own])} bytes" if own else ""
        yield f"  launch, line {launch.line}: {launch.kernel}, grid {grid}{block}{shared}"
    for array in found.memory:
        size = "size not known" if array.bytes is None else f"{array.bytes:,} bytes"
        name = " ".join(part for part in (array.type, array.name) if part)
        yield f"  {array.kind} memory, line {array.line}: {name}[{_dims(array.dims)}], {size}"
    for use in found.matrix_unit:
        yield f"  matrix unit, line {use.line}: {use.instruction} {use.shape or '(shape not in the text)'}"
    for mechanism in found.mechanisms:
        lines = ", ".join(str(place.line) for place in mechanism.places)
        more = ", ..." if mechanism.count > len(mechanism.places) else ""
        yield f"  {mechanism.name}, line {lines}{more}: on a TPU {mechanism.tpu_counterpart or 'none'}."
        yield f"    {mechanism.on_tpu}"
    for note in found.notes:
        yield f"  {note}"


def _dims(dims: "list[Value]") -> str:
    """An expression with what it comes to, if that is known and not what is written."""
    return ", ".join(
        dim.text if dim.value is None or dim.text == str(dim.value) else f"{dim.text} = {dim.value}" for dim in dims
    )


def _short(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:160]}..."

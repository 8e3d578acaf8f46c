"""`hawkeye taxonomy`: techniques by TPU generation, with kernels that show them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawkeye_mcp.chips import DEFAULT_TPU, TPUS
from hawkeye_mcp.commands import options, running

if TYPE_CHECKING:
    from hawkeye_mcp.taxonomy import Cell

app = typer.Typer(no_args_is_help=True, help="Techniques by TPU generation, with kernels that show them.")


@app.command("list")
def list_cells(
    tpu: Annotated[
        list[str] | None, typer.Option(metavar="CHIP", callback=options.tpus, help="Chip, repeatable; default: all.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the cells."""
    from hawkeye_mcp import display, taxonomy

    cells = [cell for chip in tpu or () for cell in taxonomy.rows(chip)]
    if as_json:
        running.print_json([{key: getattr(cell, key) for key in ("row", "tpu", "title", "one_line")} for cell in cells])
    else:
        display.cells(cells, running.console())


@app.command("show")
def show_cell(
    row: Annotated[str, typer.Argument(metavar="ROW", help="Its row, such as 01_mxu_feed.")],
    tpu: options.TpuOption = DEFAULT_TPU,
    part: Annotated[
        str, typer.Option(metavar="PART", callback=options.part, help=f"One of {', '.join(options.PARTS)}.")
    ] = "all",
    as_json: options.JsonOption = False,
) -> None:
    """Show one cell, or one part of it exactly as its file stands."""
    from hawkeye_mcp import taxonomy

    try:
        cell = taxonomy.cell(tpu, row)
    except taxonomy.UnknownCell as error:
        raise typer.BadParameter(str(error), param_hint="ROW") from None
    texts = _parts(cell)
    if as_json:
        chosen = {part: cell.config if part == "config" else texts[part]} if part != "all" else {}
        whole = cell.model_dump(mode="json")
        running.print_json(
            {key: whole[key] for key in ("row", "tpu", "title", "one_line")} | chosen if chosen else whole
        )
    elif part != "all":
        typer.echo(texts[part], nl=False)
    else:
        typer.echo(f"# {cell.title} ({cell.tpu}, {cell.row})\n\n{texts['guide'].strip()}")
        for title, kind, name in (("Naive kernel", "python", "naive"), ("Optimized kernel", "python", "optimized")):
            typer.echo(f"\n## {title}\n\n```{kind}\n{texts[name].strip()}\n```")
        typer.echo(f"\n## Configuration\n\n```json\n{texts['config'].strip()}\n```")


def _parts(cell: "Cell") -> dict[str, str]:
    return {
        "guide": cell.guide,
        "naive": cell.naive_kernel,
        "optimized": cell.optimized_kernel,
        "config": json.dumps(cell.config, indent=1) + "\n",
    }


@app.command("verify")
def verify_cells(
    tpu: Annotated[
        list[str] | None, typer.Option(metavar="CHIP", callback=options.tpus, help="Chip, repeatable; default: all.")
    ] = None,
    row: Annotated[list[str] | None, typer.Option(metavar="ROW", help="Row, repeatable; default: all.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Verify again what was verified by the same code.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Bring taxonomy/README.md and its picture up to date.")
    ] = False,
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="OUT", callback=options.picture, help="Also draw a heat map: a PNG file."),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Check what the cells claim with the compiler of each chip.

    Both kernels of a cell go through the judge, on three draws at each of two sizes, and are compiled and profiled for
    its chip; every claimed counter and the predicted speedup must be there. Results are kept: a stopped run goes on
    where it stopped. Exit code: 0 all hold, 1 one does not.
    """
    from hawkeye_mcp import taxonomy
    from hawkeye_mcp.taxonomy_check import heat_map, readme, runner, show, source
    from hawkeye_mcp.taxonomy_check.report import Verified

    wanted = [(chip, cell.row) for chip in tpu or () for cell in taxonomy.rows(chip) if not row or cell.row in row]
    if unknown := sorted(set(row or ()) - {name for _, name in wanted}):
        known = ", ".join(sorted({cell.row for chip in tpu or () for cell in taxonomy.rows(chip)}))
        raise typer.BadParameter(f"there is no row {unknown[0]!r}. All: {known}.", param_hint="--row")
    if write and len(wanted) < sum(len(taxonomy.rows(chip)) for chip in TPUS):
        raise typer.BadParameter("the page shows all cells: leave --tpu and --row out.", param_hint="--write")
    number = 0

    def done(found: Verified) -> None:
        nonlocal number
        number += 1
        typer.echo(f"[{number}/{len(wanted)}] {show.line(found)}", err=True)

    async def verify(progress: Callable[[str], None]) -> list[Verified]:
        return await runner.verify(wanted, fresh=fresh, done=done, progress=progress)

    try:
        found = running.judged(verify, passed_on=(source.BrokenSource,), stopped=running.KEPT)
    except source.BrokenSource as error:
        raise typer.BadParameter(str(error), param_hint="taxonomy/source") from None
    if as_json:
        running.print_json({"cells": [each.model_dump(mode="json") for each in found]})
    else:
        show.cells(found, running.console())
    if png:
        running.save(png, heat_map.png(found))
    if write:
        for path in readme.write(found):
            typer.echo(f"{path}: written", err=True)
    raise typer.Exit(0 if all(each.ok for each in found) else running.EXIT_OTHER_VERDICT)


@app.command("render")
def render_cells(
    row: Annotated[list[str] | None, typer.Option(metavar="ROW", help="Row, repeatable; default: all.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the cells instead of comparing them.")] = False,
) -> None:
    """Compare the cells of all chips with what taxonomy/source gives, or write them.

    Exit code: 1 if a cell is not current.
    """
    from hawkeye_mcp import content, state
    from hawkeye_mcp.taxonomy_check import render, source

    if unknown := sorted(set(row or ()) - set(source.rows())):
        raise typer.BadParameter(
            f"there is no row {unknown[0]!r}. All: {', '.join(source.rows())}.", param_hint="--row"
        )
    wanted = row or source.rows()

    async def rendered(progress: Callable[[str], None]) -> dict[Path, str]:
        return await render.cells(wanted)

    try:
        texts = running.judged(rendered, passed_on=(source.BrokenSource,))
    except source.BrokenSource as error:
        raise typer.BadParameter(str(error), param_hint="taxonomy/source") from None
    stale = [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    left = render.left_over(texts) if not row else []
    if write:
        for path in stale:
            state.write_atomically(path, texts[path])
            typer.echo(f"{path.relative_to(content.folder('taxonomy'))}: written")
    for path in left:
        typer.echo(f"{path.relative_to(content.folder('taxonomy'))}: has no source; remove it")
    if left or (stale and not write):
        for path in [] if write else stale:
            typer.echo(f"{path.relative_to(content.folder('taxonomy'))}: not current")
        typer.echo("Next: hawkeye taxonomy render --write", err=True)
        raise typer.Exit(running.EXIT_OTHER_VERDICT)

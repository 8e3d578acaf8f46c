"""`hawkeye-bench export`: the results of a folder in the formats of others."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from hawkeye_bench import results
from hawkeye_bench import runs as records
from hawkeye_bench.exports import files, inspect_logs, paper, tables

Format = Literal["csv", "markdown", "inspect"]


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the runs, as given to --out.")],
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files go; made if need be.")],
    to: Annotated[
        str,
        typer.Option(
            help="csv: runs, pairs, effects, success, fast_p and progress, a file each; markdown: a table for a paper; "
            "inspect: a log for each condition, for Inspect's viewer and readers."
        ),
    ] = "csv",
) -> None:
    """Write what `report` tells in a format of others: CSV, a Markdown table for a paper, or Inspect's logs.

    The same FOLDER again is brought up to date; a file that no export wrote is never replaced.
    """
    if to not in get_args(Format):
        raise typer.BadParameter(f"{to!r} is not one of {', '.join(get_args(Format))}.", param_hint="--to")
    try:
        found = results.read(folder)
    except records.Unreadable as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from None
    runs = results.finished(folder, found.plan)
    if to == "csv":
        texts = tables.csv_files(found, runs)
    elif to == "markdown":
        texts = {"table.md": paper.table(found, runs)}
    else:
        texts = inspect_logs.logs(folder, found, runs)
    try:
        written = files.write(target, texts)
    except files.NotOurs as error:
        raise typer.BadParameter(str(error), param_hint="FOLDER") from None
    except OSError as error:
        raise typer.BadParameter(f"{target} cannot be written: {error.strerror}.", param_hint="FOLDER") from None
    for path in written:
        typer.echo(path)

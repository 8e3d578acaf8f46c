"""`hawkeye workloads`: the computations there are to speed up."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawkeye_mcp.commands import options, running

if TYPE_CHECKING:
    from hawkeye_mcp.workload_check.report import Checked
    from hawkeye_mcp.workloads import Size, Workload

app = typer.Typer(no_args_is_help=True, help="The computations there are to speed up.")


@app.command("list")
def list_workloads(as_json: options.JsonOption = False) -> None:
    """List all workloads."""
    from hawkeye_mcp import display, workloads

    found = [workloads.load(name) for name in workloads.names()]
    if as_json:
        running.print_json(
            [{key: getattr(w, key) for key in ("name", "family", "summary", "flops", "least_bytes")} for w in found]
        )
    else:
        display.workloads(found, running.console())


@app.command("show")
def show_workload(
    name: Annotated[
        str, typer.Argument(metavar="NAME", callback=options.workload, help="Its name, or its folder's path.")
    ],
    as_json: options.JsonOption = False,
) -> None:
    """Show one problem as an agent reads it: what to compute, on what shapes, how it is judged."""
    from hawkeye_mcp import workloads

    found = workloads.find(name)
    statement = workloads.statement(found)
    if as_json:
        running.print_json(found.model_dump(mode="json", exclude={"folder"}) | {"statement": statement})
    else:
        typer.echo(statement)


@app.command("check")
def check_workloads(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", callback=options.workloads, help="Names, or paths of folders; default: all."
        ),
    ] = None,
    size: Annotated[
        str, typer.Option(metavar="SIZE", callback=options.size, help=f"One of {', '.join(options.SIZES)}.")
    ] = "check",
    fresh: Annotated[bool, typer.Option("--fresh", help="Check again what was checked from the same code.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Audit workloads: does each tell a right kernel from a wrong one?

    Wrong programs are made from each workload's own and must fail, right ones must pass. At --size full only right ones
    run, and the baseline is compiled for chips. Results are kept: a stopped check goes on where it stopped. Shipped
    baselines that are not current are a problem. Exit code: 0 all are ok, 1 one is not.
    """
    from hawkeye_mcp import workloads
    from hawkeye_mcp.workload_check import baselines, show

    wanted = [workloads.find(name) for name in names or ()]
    found = baselines.noticed(_checked(wanted, "full" if size == "full" else "check", fresh), wanted)
    if as_json:
        running.print_json({"workloads": [check.model_dump(mode="json") for check in found]})
    else:
        show.table(found, running.console())
    raise typer.Exit(0 if all(check.ok for check in found) else running.EXIT_OTHER_VERDICT)


def _checked(wanted: list["Workload"], size: "Size", fresh: bool) -> list["Checked"]:
    """Check workloads, each reported on stderr when it is done."""
    from hawkeye_mcp.workload_check import runner, show

    number = 0

    def done(found: "Checked") -> None:
        nonlocal number
        number += 1
        typer.echo(f"[{number}/{len(wanted)}] {show.line(found)}", err=True)

    async def check(progress: Callable[[str], None]) -> list["Checked"]:
        return await runner.check(wanted, size, fresh=fresh, done=done)

    return running.judged(check, stopped=running.KEPT)


@app.command("readme")
def workloads_readme(
    write: Annotated[bool, typer.Option("--write", help="Write the page instead of comparing it.")] = False,
) -> None:
    """Compare workloads/README.md with what a check of all workloads finds, or write it.

    Exit code: 1 if the page is not current, times over the roofline and figures at full size aside.
    """
    from hawkeye_mcp import state, workloads
    from hawkeye_mcp.workload_check import readme

    wanted = [workloads.load(name) for name in workloads.names()]
    shown = readme.path().read_text(encoding="utf-8") if readme.path().exists() else ""
    page = readme.render(wanted, _checked(wanted, "check", False), shown)
    if write:
        state.write_atomically(readme.path(), page)
        typer.echo(f"{readme.path()}: written")
        return
    if found := readme.differences(shown, page):
        typer.echo("\n".join(found))
        typer.echo("workloads/README.md is not current. Next: hawkeye workloads readme --write", err=True)
        raise typer.Exit(running.EXIT_OTHER_VERDICT)


@app.command("new")
def new_workload(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, which is its folder's.")],
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", file_okay=False, help="Where its folder is made.")
    ] = Path(),
) -> None:
    """Write a small workload of your own that passes the check, with comments that say what to change."""
    from hawkeye_mcp import workloads
    from hawkeye_mcp.workload_check import skeleton

    try:
        workloads.check_name(name)
    except workloads.UnknownWorkload as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from None
    running.write_all(folder / name, skeleton.files(name))
    typer.echo(f"Next: hawkeye workloads check {folder / name}/")

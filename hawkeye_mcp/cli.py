"""`hawkeye`: the judge and the content for people. What a command needs is imported when it runs, never jax.

stdout carries the result alone (one JSON object or list with --json); progress and faults go to stderr. Exit codes:
0 good (evaluate: correct), 1 any other verdict, 2 wrong usage, 3 the harness failed.
"""

import functools
import json
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hawkeye_mcp import __version__, clients, conditions, kernels
from hawkeye_mcp.chips import DEFAULT_TPU, TPUS

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from rich.console import Console

    from hawkeye_mcp.evaluation import Evaluation
    from hawkeye_mcp.profile import Profile
    from hawkeye_mcp.taxonomy import Cell
    from hawkeye_mcp.workload_check.report import Checked
    from hawkeye_mcp.workloads import Size, Workload

EXIT_OTHER_VERDICT, EXIT_HARNESS = 1, 3
PARTS = ("all", "guide", "naive", "optimized", "config")
SIZES = ("check", "full")
KEPT = "what was finished is kept, and the same command goes on from there"
_PLAIN_WIDTH = 120  # of tables that go into a file or a pipe

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain usage errors: one line that a program can read too
    pretty_exceptions_enable=False,
    help="Judge TPU Pallas kernels with the real TPU compiler. Times are predicted, and every result says so.",
)
workloads_app = typer.Typer(no_args_is_help=True, help="The computations there are to speed up.")
taxonomy_app = typer.Typer(no_args_is_help=True, help="Techniques by TPU generation, with kernels that show them.")
app.add_typer(workloads_app, name="workloads")
app.add_typer(taxonomy_app, name="taxonomy")


# --- options and arguments, checked before anything heavy starts


def _tpu(value: str) -> str:
    return _one_of(value, TPUS)


def _tpus(values: list[str] | None) -> list[str]:
    return list(dict.fromkeys(_tpu(value) for value in values or TPUS))


def _workload(name: str) -> str:
    from hawkeye_mcp import workloads

    try:
        return workloads.find(name).reference
    except workloads.UnknownWorkload as error:
        raise typer.BadParameter(str(error)) from None


def _workloads(names: list[str] | None) -> list[str]:
    from hawkeye_mcp import workloads

    return list(dict.fromkeys(_workload(name) for name in names or workloads.names()))


def _shipped(names: list[str] | None) -> list[str]:
    found = _workloads(names)
    if own := [name for name in found if "/" in name]:
        raise typer.BadParameter(f"{own[0]} is not shipped: its baseline is predicted when it is first needed.")
    return found


def _client(name: str) -> str:
    return _one_of(name, clients.CLIENTS)


def _condition(name: str) -> str:
    return _one_of(name, conditions.CONDITIONS)


def _part(name: str) -> str:
    return _one_of(name, PARTS)


def _size(name: str) -> str:
    return _one_of(name, SIZES)


def _picture(file: Path | None) -> Path | None:
    if file and (file.is_dir() or not file.parent.is_dir()):
        raise typer.BadParameter(f"{file} cannot be written: it must name a file in a folder that exists.")
    return file


def _one_of(value: str, legal: Sequence[str] | dict[str, clients.Client]) -> str:
    if value not in legal:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(legal)}.")
    return value


def read_kernel(name: str) -> str:
    """The text of a kernel file.

    Raises:
        typer.BadParameter: missing, unreadable, too large or not UTF-8.
    """
    try:
        return kernels.read(Path(name))
    except kernels.UnreadableKernel as error:
        raise typer.BadParameter(f"{name} {error}") from None


WorkloadOption = Annotated[
    str,
    typer.Option(
        "--workload",
        metavar="NAME",
        callback=_workload,
        help="What to compute: a name of `hawkeye workloads list`, or the path of a folder, such as ./mine/.",
    ),
]
KernelOption = Annotated[
    str,
    typer.Option("--kernel", parser=read_kernel, metavar="FILE", help="Python file that defines workload(...)."),
]
TpuOption = Annotated[str, typer.Option("--tpu", metavar="CHIP", callback=_tpu, help=f"Chip: {', '.join(TPUS)}.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hawkeye {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


# --- judging


@app.command()
def evaluate(
    workload: WorkloadOption, kernel: KernelOption, tpu: TpuOption = DEFAULT_TPU, as_json: JsonOption = False
) -> None:
    """Judge one kernel file: correct, and how fast?

    Exit code: 0 correct, 1 any other verdict, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp import display
    from hawkeye_mcp.workloads import find

    subject = find(workload)

    async def judge(progress: Callable[[str], None]) -> "Evaluation":
        from hawkeye_mcp.judge.evaluate import open_judge

        async with open_judge(warm=tpu) as opened:
            return await opened.evaluate(kernel, subject, tpu, progress=progress)

    found = _judged(judge)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        display.evaluation(found, _console())
    raise typer.Exit(_exit_code(found.status))


@app.command()
def profile(
    workload: WorkloadOption,
    kernel: KernelOption,
    tpu: TpuOption = DEFAULT_TPU,
    png: Annotated[
        Path | None, typer.Option("--png", metavar="OUT", callback=_picture, help="Also draw it: a PNG file to write.")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare", parser=read_kernel, metavar="OTHER", help="A second kernel file, to set beside the first."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """See where a kernel's predicted time goes.

    Counters, memory, roofline and findings from the compiler's own schedule; correctness is not checked. With --compare
    every figure of both kernels and their ratio, OTHER's over FILE's; --json is then {"this", "other", "ratios"}.

    Exit code: 0 profiled, 1 any other verdict, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp import comparison, profile_text
    from hawkeye_mcp.workloads import find

    subject = find(workload)

    async def judge(progress: Callable[[str], None]) -> "list[Profile]":
        from hawkeye_mcp.judge.evaluate import open_judge

        async with open_judge(warm=tpu) as opened:
            sources = [kernel] if compare is None else [kernel, compare]
            return [await opened.profile(source, subject, tpu, progress=progress) for source in sources]

    this, *others = found = _judged(judge)
    shown = comparison.compare(this, *others) if others else None
    if as_json:
        typer.echo((shown or this).model_dump_json(indent=2))
    elif shown:
        profile_text.comparison(shown, _console())
    else:
        profile_text.profile(this, _console())
    if png:
        _draw(found, png)
    raise typer.Exit(max(_exit_code(one.status) for one in found))


def _draw(found: "list[Profile]", file: Path) -> None:
    """Write the picture of what was profiled, one row for each."""
    from hawkeye_mcp import picture

    if any(one.status != "profiled" for one in found):
        typer.echo("No picture was drawn: there is nothing to see of a kernel that was not profiled.", err=True)
        return
    names = ["this", "other"] if len(found) > 1 else [""]
    _save(file, picture.png(list(zip(names, found, strict=True))))


def _save(file: Path, drawn: bytes) -> None:
    from hawkeye_mcp.state import write_atomically

    try:
        write_atomically(file, drawn)
    except OSError as error:
        typer.echo(f"The picture could not be written to {file}: {error.strerror}. Give --png another file.", err=True)
        raise typer.Exit(EXIT_HARNESS) from None


Outcome = TypeVar("Outcome")


def _judged(
    judge: Callable[[Callable[[str], None]], Awaitable[Outcome]],
    *,
    passed_on: tuple[type[Exception], ...] = (),
    stopped: str = "nothing was judged",
) -> Outcome:
    """Run one judgement with its stages shown; a fault of the harness or a signal ends the process.

    passed_on: faults that are the caller's to tell. stopped: what a signal leaves, in words.
    """
    import anyio

    try:
        with _stages() as progress:
            found = anyio.run(_until_signal, judge, progress)
    except Exception as error:
        from hawkeye_mcp.judge.verdict import leaves

        for leaf in leaves(ExceptionGroup("", [error])):
            if isinstance(leaf, passed_on):
                raise leaf from None
        traceback.print_exc()
        typer.echo("The harness failed: no fault of the kernel. `hawkeye doctor` says what is missing.", err=True)
        raise typer.Exit(EXIT_HARNESS) from None
    if isinstance(found, signal.Signals):
        typer.echo(f"Stopped by {found.name}; {stopped}.", err=True)
        raise typer.Exit(128 + found)
    return found


async def _until_signal(
    judge: Callable[[Callable[[str], None]], Awaitable[Outcome]], progress: Callable[[str], None]
) -> Outcome | signal.Signals:
    """The outcome, or the signal that came first; either way the judge's processes and folders are gone."""
    import anyio

    ended: list[Outcome | signal.Signals] = []
    async with anyio.create_task_group() as tasks:

        async def watch(*, task_status: "TaskStatus[None]") -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                task_status.started()
                async for number in signals:
                    ended.append(signal.Signals(number))
                    tasks.cancel_scope.cancel()

        await tasks.start(watch)
        ended.append(await judge(progress))
        tasks.cancel_scope.cancel()
    return ended[0]


def _exit_code(status: str) -> int:
    return {"correct": 0, "profiled": 0, "harness_error": EXIT_HARNESS}.get(status, EXIT_OTHER_VERDICT)


@contextmanager
def _stages() -> Iterator[Callable[[str], None]]:
    """Shows the latest stage on stderr while it lasts, if that is a terminal."""
    console = _console(stderr=True)
    if not console.is_terminal:
        yield lambda stage: None
        return
    with console.status("starting the judge") as status:
        yield lambda stage: status.update(stage)


def _console(*, stderr: bool = False) -> "Console":
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _PLAIN_WIDTH, highlight=False)


# --- content


@workloads_app.command("list")
def list_workloads(as_json: JsonOption = False) -> None:
    """List all workloads."""
    from hawkeye_mcp import display, workloads

    found = [workloads.load(name) for name in workloads.names()]
    if as_json:
        _print_json(
            [{key: getattr(w, key) for key in ("name", "family", "summary", "flops", "least_bytes")} for w in found]
        )
    else:
        display.workloads(found, _console())


@workloads_app.command("show")
def show_workload(
    name: Annotated[str, typer.Argument(metavar="NAME", callback=_workload, help="Its name, or its folder's path.")],
    as_json: JsonOption = False,
) -> None:
    """Show one problem as an agent reads it: what to compute, on what shapes, how it is judged."""
    from hawkeye_mcp import workloads

    found = workloads.find(name)
    statement = workloads.statement(found)
    if as_json:
        _print_json(found.model_dump(mode="json", exclude={"folder"}) | {"statement": statement})
    else:
        typer.echo(statement)


@workloads_app.command("check")
def check_workloads(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", callback=_workloads, help="Names, or paths of folders; default: all."),
    ] = None,
    size: Annotated[str, typer.Option(metavar="SIZE", callback=_size, help=f"One of {', '.join(SIZES)}.")] = "check",
    fresh: Annotated[bool, typer.Option("--fresh", help="Check again what was checked from the same code.")] = False,
    as_json: JsonOption = False,
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
        _print_json({"workloads": [check.model_dump(mode="json") for check in found]})
    else:
        show.table(found, _console())
    raise typer.Exit(0 if all(check.ok for check in found) else EXIT_OTHER_VERDICT)


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

    return _judged(check, stopped=KEPT)


@workloads_app.command("readme")
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
        raise typer.Exit(EXIT_OTHER_VERDICT)


@workloads_app.command("new")
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
    _write_all(folder / name, skeleton.files(name))
    typer.echo(f"Next: hawkeye workloads check {folder / name}/")


@taxonomy_app.command("list")
def list_cells(
    tpu: Annotated[
        list[str] | None, typer.Option(metavar="CHIP", callback=_tpus, help="Chip, repeatable; default: all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the cells."""
    from hawkeye_mcp import display, taxonomy

    cells = [cell for chip in tpu or () for cell in taxonomy.rows(chip)]
    if as_json:
        _print_json([{key: getattr(cell, key) for key in ("row", "tpu", "title", "one_line")} for cell in cells])
    else:
        display.cells(cells, _console())


@taxonomy_app.command("show")
def show_cell(
    row: Annotated[str, typer.Argument(metavar="ROW", help="Its row, such as 01_mxu_feed.")],
    tpu: TpuOption = DEFAULT_TPU,
    part: Annotated[str, typer.Option(metavar="PART", callback=_part, help=f"One of {', '.join(PARTS)}.")] = "all",
    as_json: JsonOption = False,
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
        _print_json({key: whole[key] for key in ("row", "tpu", "title", "one_line")} | chosen if chosen else whole)
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


@taxonomy_app.command("verify")
def verify_cells(
    tpu: Annotated[
        list[str] | None, typer.Option(metavar="CHIP", callback=_tpus, help="Chip, repeatable; default: all.")
    ] = None,
    row: Annotated[list[str] | None, typer.Option(metavar="ROW", help="Row, repeatable; default: all.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Verify again what was verified by the same code.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Bring taxonomy/README.md and its picture up to date.")
    ] = False,
    png: Annotated[
        Path | None, typer.Option("--png", metavar="OUT", callback=_picture, help="Also draw a heat map: a PNG file.")
    ] = None,
    as_json: JsonOption = False,
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
        found = _judged(verify, passed_on=(source.BrokenSource,), stopped=KEPT)
    except source.BrokenSource as error:
        raise typer.BadParameter(str(error), param_hint="taxonomy/source") from None
    if as_json:
        _print_json({"cells": [each.model_dump(mode="json") for each in found]})
    else:
        show.cells(found, _console())
    if png:
        _save(png, heat_map.png(found))
    if write:
        for path in readme.write(found):
            typer.echo(f"{path}: written", err=True)
    raise typer.Exit(0 if all(each.ok for each in found) else EXIT_OTHER_VERDICT)


@taxonomy_app.command("render")
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
        texts = _judged(rendered, passed_on=(source.BrokenSource,))
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
        raise typer.Exit(EXIT_OTHER_VERDICT)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


# --- this machine


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine can do and what it lacks.

    For each thing missing it prints the command that brings it. Exit code: 1 if something required is missing.
    """
    from hawkeye_mcp import doctor as checks

    with _stages() as progress:
        progress("asking the compiler for each TPU generation")
        found = checks.diagnose()
    if as_json:
        _print_json({"ok": checks.exit_code(found) == 0, "checks": [check.model_dump() for check in found]})
    else:
        checks.show(found, _console())
    raise typer.Exit(checks.exit_code(found))


@app.command()
def install(
    client: Annotated[
        str, typer.Argument(metavar="CLIENT", callback=_client, help=f"One of {', '.join(clients.CLIENTS)}.")
    ],
    tpu: TpuOption = DEFAULT_TPU,
    condition: Annotated[
        str,
        typer.Option(metavar="NAME", callback=_condition, help=conditions.HELP),
    ] = clients.DEFAULT_CONDITION,
    show: Annotated[bool, typer.Option("--print", help="Print the client's file instead of writing it.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", file_okay=False, help="Write the client's file here.")
    ] = None,
) -> None:
    """Register the MCP server with a coding agent.

    Prints the one command that does it; --print and --dir give the file that the client reads.

    Nothing is written without --dir, and no file that says something else is overwritten.
    """
    if show and folder:
        raise typer.BadParameter("give --print or --dir, not both.", param_hint="--print")
    about, files = clients.CLIENTS[client], clients.render(client, tpu=tpu, condition=condition)
    if show:
        for name, text in files.items():
            if len(files) > 1:
                typer.echo(f"{name}:", err=True)
            typer.echo(text, nl=False)
        return
    if folder:
        _write_all(folder, files)
    typer.echo(f"{about.title} reads {about.goes_to}. To register the server with one command instead:")
    typer.echo(f"  {clients.command(client, tpu=tpu, condition=condition)}")


def _write_all(folder: Path, files: dict[str, str]) -> None:
    """Write every file, or none if one exists with another text."""
    try:
        there = {
            name: (folder / name).read_text(encoding="utf-8", errors="replace")
            for name in files
            if (folder / name).exists()
        }
        if differing := [name for name, text in there.items() if text != files[name]]:
            for name in differing:
                typer.echo(f"{folder / name} exists and says something else; merge this into it:", err=True)
                typer.echo(files[name], err=True)
            raise typer.Exit(EXIT_OTHER_VERDICT)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            if name not in there:
                (folder / name).write_text(text, encoding="utf-8")
            typer.echo(f"{folder / name}: {'already so' if name in there else 'written'}")
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}", param_hint="--dir") from None


@app.command()
def baselines(
    tpu: Annotated[
        list[str] | None, typer.Option(metavar="CHIP", callback=_tpus, help="Chip, repeatable; default: all.")
    ] = None,
    workload: Annotated[
        list[str] | None, typer.Option(metavar="NAME", callback=_shipped, help="Workload, repeatable; default: all.")
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also profile each at two smaller sizes: minutes each, and gigabytes.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Compute nothing; exit 1 if one is missing or stale.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="First profile the small programs that estimates are held against.")
    ] = False,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="Compute nothing; print what XLA's estimates are worth.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the XLA baselines that are shipped.

    Writes workloads/baselines/<tpu>.json, one entry at a time, each in seconds; run again, it goes on where it
    stopped and keeps what is still current. Exit code: 1 if one cannot be predicted.
    """
    import anyio

    from hawkeye_mcp import display
    from hawkeye_mcp.judge import calibrate as calibrating
    from hawkeye_mcp.judge import shipping
    from hawkeye_mcp.versions import versions
    from hawkeye_mcp.workloads import find

    def say(text: str) -> None:
        typer.echo(text, err=True)

    if calibrate:
        anyio.run(calibrating.run, tpu or [], versions(), say)
    if calibration:
        found = calibrating.table(versions())
        _print_json(found) if as_json else display.calibration(found, _console())
        return
    wanted = [(chip, find(name)) for chip in tpu or () for name in workload or ()]
    if check:
        rows = shipping.rows(wanted, versions())
    else:
        rows = anyio.run(functools.partial(shipping.update, wanted, versions(), profile=profile, say=say))
    if as_json:
        _print_json({"baselines": [row.model_dump(mode="json") for row in rows]})
    else:
        display.baselines(rows, _console())
    raise typer.Exit(EXIT_OTHER_VERDICT if any(row.state != "current" for row in rows) else 0)


@app.command()
def fidelity(
    kernel: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One of the kernels, repeatable; default: all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Hold sampled cycles against the compiler's profile of the whole run.

    Takes some minutes. Exit code: 1 if one is off by more than 1 %.
    """
    import anyio

    from hawkeye_mcp import fidelity as check

    try:
        with _stages() as progress:
            found = anyio.run(check.fidelity, kernel or (), progress)
    except check.UnknownKernel as error:
        raise typer.BadParameter(str(error), param_hint="--kernel") from None
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        check.show(found, _console())
    raise typer.Exit(0 if found.good else EXIT_OTHER_VERDICT)


@app.command()
def accuracy(
    tpu: Annotated[
        list[str] | None, typer.Option("--chip", metavar="CHIP", callback=_tpus, help="Chip, repeatable; default: all.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also XLA's own attention and cross entropy: hundreds of rows more.")
    ] = False,
    fit: Annotated[bool, typer.Option("--fit", help="Print what the fit half gives for each chip.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Predict anew what the package has predictions of: hours on two cores.")
    ] = False,
    known: Annotated[bool, typer.Option("--known", help="Predict nothing: score what was predicted so far.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Keep the predictions and the intervals that follow in the package.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score predictions against published on-chip measurements.

    Predictions by the pinned versions are in the package. Whatever else is predicted is kept: run again, it goes on
    where it stopped.
    """
    import anyio

    from hawkeye_mcp.accuracy import collect, command, table

    rows = command.chosen(tpu or (), every=every)
    if write and (problem := command.not_writable(rows)):
        raise typer.BadParameter(problem, param_hint="--write")
    say = partial(typer.echo, err=True)
    features = anyio.run(partial(collect.collect, rows, say, fresh=fresh, known_only=known))
    if fit:
        models = command.fitted(rows, features)
        if as_json:
            _print_json({chip: vars(model) for chip, model in models.items()})
        else:
            table.show_models(models, _console())
        return
    found = command.scored(rows, features)
    if write:
        for path in command.write(rows, features, found):
            typer.echo(f"{path}: written", err=True)
    if as_json:
        typer.echo(found.model_dump_json(indent=2, by_alias=True))
    else:
        table.show(found, _console())


if __name__ == "__main__":
    app()

"""`hawkeye`: the judge and the content for people. What a command needs is imported when it runs, never jax.

stdout carries the result alone (one JSON object or list with --json); progress and faults go to stderr. Exit codes:
0 good (evaluate: correct), 1 any other verdict, 2 wrong usage, 3 the harness failed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawkeye_mcp import __version__, clients, conditions
from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.commands import (
    autotune,
    compare,
    figures,
    gates,
    hosts,
    ideas,
    job,
    options,
    references,
    remote,
    running,
    runs,
    sanitize,
    taxonomy,
    workloads,
)

if TYPE_CHECKING:
    from hawkeye_mcp.evaluation import Evaluation
    from hawkeye_mcp.profile import Profile

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain usage errors: one line that a program can read too
    pretty_exceptions_enable=False,
    help="Judge TPU Pallas kernels with the real TPU compiler. Times are predicted, and every result says so.",
)
app.add_typer(workloads.app, name="workloads")
app.add_typer(taxonomy.app, name="taxonomy")
app.add_typer(hosts.app, name="hosts")
app.add_typer(job.app, name="job")
app.add_typer(runs.app, name="runs")
app.add_typer(ideas.app, name="ideas")


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
    workload: options.WorkloadOption,
    kernel: options.KernelOption,
    tpu: options.TpuOption = DEFAULT_TPU,
    host: remote.HostOption = None,
    run: runs.RunOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Judge one kernel file: correct, and how fast?

    Exit code: 0 correct, 1 any other verdict, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp import display
    from hawkeye_mcp.workloads import find

    subject = find(workload)
    kept_in = runs.of_subject(run, subject, tpu)

    async def judge(progress: Callable[[str], None]) -> "Evaluation":
        from hawkeye_mcp.judge.evaluate import open_judge

        async with open_judge(warm=tpu) as opened:
            return await opened.evaluate(kernel, subject, tpu, progress=progress)

    if host:
        from hawkeye_mcp.hosts.remote import evaluate as there

        (found,) = remote.judged(host, subject, tpu, [kernel], there, as_json=as_json)
    else:
        found = running.judged(judge)
    runs.keep(kept_in, subject, kernel, found)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        display.evaluation(found, running.console())
    raise typer.Exit(running.exit_code(found.status))


@app.command()
def profile(
    workload: options.WorkloadOption,
    kernel: options.KernelOption,
    tpu: options.TpuOption = DEFAULT_TPU,
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="OUT", callback=options.picture, help="Also draw it: a PNG file to write."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            parser=options.read_kernel,
            metavar="OTHER",
            help="A second kernel file, to set beside the first.",
        ),
    ] = None,
    host: remote.HostOption = None,
    run: runs.RunOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """See where a kernel's predicted time goes.

    Counters, memory, roofline and findings from the compiler's own schedule; correctness is not checked. With --compare
    every figure of both kernels and their ratio, OTHER's over FILE's; --json is then {"this", "other", "ratios"}.

    Exit code: 0 profiled, 1 any other verdict, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp import comparison, profile_text
    from hawkeye_mcp.workloads import find

    subject = find(workload)
    kept_in = runs.of_subject(run, subject, tpu)
    sources = [kernel] if compare is None else [kernel, compare]

    async def judge(progress: Callable[[str], None]) -> "list[Profile]":
        from hawkeye_mcp.judge.evaluate import open_judge

        async with open_judge(warm=tpu) as opened:
            return [await opened.profile(source, subject, tpu, progress=progress) for source in sources]

    if host:
        from hawkeye_mcp.hosts.remote import profile as there

        found = remote.judged(host, subject, tpu, sources, there, as_json=as_json)
    else:
        found = running.judged(judge)
    for source, one in zip(sources, found, strict=True):
        runs.keep(kept_in, subject, source, one)
    this, *others = found
    shown = comparison.compare(this, *others) if others else None
    if as_json:
        typer.echo((shown or this).model_dump_json(indent=2))
    elif shown:
        profile_text.comparison(shown, running.console())
    else:
        profile_text.profile(this, running.console())
    if png:
        _draw(found, png)
    raise typer.Exit(max(running.exit_code(one.status) for one in found))


def _draw(found: "list[Profile]", file: Path) -> None:
    """Write the picture of what was profiled, one row for each."""
    from hawkeye_mcp import picture

    if any(one.status != "profiled" for one in found):
        typer.echo("No picture was drawn: there is nothing to see of a kernel that was not profiled.", err=True)
        return
    names = ["this", "other"] if len(found) > 1 else [""]
    running.save(file, picture.png(list(zip(names, found, strict=True))))


# --- this machine


@app.command()
def doctor(as_json: options.JsonOption = False) -> None:
    """Say what this machine can do and what it lacks.

    For each thing missing it prints the command that brings it. Exit code: 1 if something required is missing.
    """
    from hawkeye_mcp import doctor as checks

    with running.stages() as progress:
        progress("asking the compiler for each TPU generation")
        found = checks.diagnose()
    if as_json:
        running.print_json({"ok": checks.exit_code(found) == 0, "checks": [check.model_dump() for check in found]})
    else:
        checks.show(found, running.console())
    raise typer.Exit(checks.exit_code(found))


@app.command()
def install(
    client: Annotated[
        str, typer.Argument(metavar="CLIENT", callback=options.client, help=f"One of {', '.join(clients.CLIENTS)}.")
    ],
    tpu: options.TpuOption = DEFAULT_TPU,
    condition: Annotated[
        str,
        typer.Option(metavar="NAME", callback=options.condition, help=conditions.HELP),
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
        running.write_all(folder, files)
    typer.echo(f"{about.title} reads {about.goes_to}. To register the server with one command instead:")
    typer.echo(f"  {clients.command(client, tpu=tpu, condition=condition)}")


for _command in (
    autotune.autotune,
    compare.compare,
    references.references,
    sanitize.sanitize,
    gates.verify_port,
    gates.compare_structure,
    gates.reference_facts,
    figures.baselines,
    figures.fidelity,
    figures.accuracy,
):
    app.command()(_command)


if __name__ == "__main__":
    app()

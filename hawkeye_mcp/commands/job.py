"""`hawkeye job`: from a program of your own, or a description, to a workload."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawkeye_mcp.commands import options, running

if TYPE_CHECKING:
    from hawkeye_mcp.intake.imported import Imported
    from hawkeye_mcp.intake.job import Job
    from hawkeye_mcp.intake.plan import Plan

app = typer.Typer(no_args_is_help=True, help="Bring your own: a PyTorch module, a JAX function or a description.")

JobFile = Annotated[
    Path, typer.Argument(metavar="JOB.json", help="The job file; `hawkeye job schema` says what it holds.")
]


@app.command()
def validate(job: JobFile, as_json: options.JsonOption = False) -> None:
    """Say everything that is wrong with a job file. Nothing that it names is run.

    Exit code: 0 valid, 1 contradictory or no job, 2 a file that it names is missing.
    """
    from hawkeye_mcp.intake import rules, show

    report = rules.check(job)
    typer.echo(report.model_dump_json(indent=2) if as_json else show.report(report))
    raise typer.Exit(report.exit_code)


@app.command()
def plan(
    job: JobFile,
    record: Annotated[
        bool,
        typer.Option(
            "--capture", help="Run the program, in a process of its own, to tell its arguments and their shapes."
        ),
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Say what an import will do, before anything runs: steps, gates, files.

    With --capture also what arguments a port must take, in which order. Exit code: as `validate`; with 2 the plan is printed
    all the same.
    """
    from hawkeye_mcp.intake import rules, show

    report, declared = rules.read(job)
    planned = report.plan
    if report.errors or report.missing_paths:
        typer.echo(show.report(report), err=True)
    if record and planned and declared and not declared.needs_approval:  # where there is no program, tensors tell it
        planned = _recorded(planned, declared)
    if as_json:
        running.print_json(planned.model_dump(mode="json") if planned else None)
    elif planned:
        typer.echo(show.plan(planned))
    raise typer.Exit(report.exit_code)


def _recorded(planned: "Plan", job: "Job") -> "Plan":
    """The plan with the signature of the program, which is run for that unless it has been."""
    from hawkeye_mcp import state
    from hawkeye_mcp.intake import captures
    from hawkeye_mcp.intake.capture import CaptureFailed
    from hawkeye_mcp.intake.plan import recorded

    async def run(progress: Callable[[str], None]) -> "Plan":
        found, _ = await captures.captured(job, state.folder(), progress)
        return recorded(planned, found)

    failed = (CaptureFailed, captures.NothingToRecord)
    try:
        return running.judged(run, passed_on=failed, stopped="nothing was recorded")
    except failed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(running.EXIT_OTHER_VERDICT) from None


@app.command()
def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table for people instead.")] = False,
) -> None:
    """Print the JSON schema of job files."""
    from hawkeye_mcp.intake import fields
    from hawkeye_mcp.intake.job import Job

    if markdown:
        typer.echo(fields.markdown())
    else:
        running.print_json(Job.model_json_schema(by_alias=True))


@app.command()
def classify(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="Source files, or folders of them.")],
    write: Annotated[
        Path | None, typer.Option("--write", metavar="JOB.json", help="Also write the job file; none is overwritten.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Say what files are and what each is for, and propose a job file. Nothing is run.

    Exit code: 0 one file is the program, 1 the job file was not written, 3 it cannot be told which is, 4 no file can be read.
    """
    from hawkeye_mcp.intake import classify as classifying
    from hawkeye_mcp.intake import show

    folder = (write or Path("job.json")).absolute().parent
    try:
        found = classifying.classify(files, folder)
    except classifying.TooMany as error:
        raise typer.BadParameter(str(error), param_hint="FILES") from None
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        typer.echo(show.classification(found))
        if found.job and not write:
            typer.echo(f"\n{json.dumps(found.job, indent=2, ensure_ascii=False)}")
    if write and found.job:
        _write_new(write, json.dumps(found.job, indent=2, ensure_ascii=False) + "\n")
    elif write:
        typer.echo(f"{write} was not written: there is no job file to propose.", err=True)
        raise typer.Exit(found.exit_code or running.EXIT_OTHER_VERDICT)
    raise typer.Exit(found.exit_code)


def _write_new(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        typer.echo(f"{path} exists and stays as it is. Give --write another name, or remove it.", err=True)
        raise typer.Exit(running.EXIT_OTHER_VERDICT) from None
    except OSError as error:
        typer.echo(f"{path} cannot be written: {error.strerror}. Give --write another name.", err=True)
        raise typer.Exit(running.EXIT_OTHER_VERDICT) from None
    typer.echo(f"{path}: written. Next: give sizes.check smaller numbers, then hawkeye job plan {path}", err=True)


@app.command("import")
def import_job(
    job: JobFile,
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", file_okay=False, help="Where the workload's folder is made.")
    ] = Path(),
    as_json: options.JsonOption = False,
) -> None:
    """Make a workload folder of a job, through gates that a wrong one does not pass.

    Exit code: 0 imported, 1 a gate stopped it or the job is not valid, 2 a file that the job names is missing, 3 the harness
    failed. Whatever stops it, nothing half-made stays.
    """
    from hawkeye_mcp.intake import importing, report, rules, show
    from hawkeye_mcp.intake.imported import GateFailed

    try:
        declared = rules.load(job)
    except report.InvalidJob as error:
        typer.echo(show.report(error.report), err=True)
        if as_json:
            running.print_json({"invalid": error.report.model_dump(mode="json")})
        raise typer.Exit(error.report.exit_code) from None

    async def run(progress: Callable[[str], None]) -> "Imported":
        return await importing.run(declared, folder, progress)

    try:
        found = running.judged(run, passed_on=(GateFailed,), stopped="nothing was imported")
    except GateFailed as failed:
        typer.echo(str(failed), err=True)
        if as_json:
            running.print_json({"stopped": failed.told()})
        raise typer.Exit(running.EXIT_OTHER_VERDICT) from None
    typer.echo(found.model_dump_json(indent=2) if as_json else str(found))


@app.command()
def approve(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", exists=True, file_okay=False, help="The workload's folder.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: you have read it.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Say, as a person, that a workload computes what was meant.

    Shows its text and asks. Workloads that were made of a description are not scored before; a change of the text takes the
    approval back. Exit code: 0 approved, 1 not.
    """
    from hawkeye_mcp import workloads
    from hawkeye_mcp.intake import approval

    try:
        workload = workloads.find(f"{folder.absolute()}/")
        shown = approval.texts(folder)
    except (workloads.UnknownWorkload, OSError) as error:
        raise typer.BadParameter(str(error), param_hint="FOLDER") from None
    needed, approved = bool(workload.approval), not workload.unapproved
    if needed and not approved:
        for source in sorted(path for path in (folder / "source").glob("*") if path.is_file()):
            typer.echo(f"--- source/{source.name} (what it was made of)\n{_text(source.read_bytes())}", err=as_json)
        if arrays := shown.get(approval.ARRAYS):
            typer.echo(f"--- {approval.ARRAYS}: {len(arrays)} bytes of arrays, not shown", err=as_json)
        for name in approval.TEXTS:
            typer.echo(f"--- {name} (what is judged by)\n{_text(shown[name])}", err=as_json)
        approved = yes or typer.confirm("Does this compute what is meant?", err=True)
        if approved:
            _approve(folder, shown)
    if as_json:
        running.print_json(
            {"folder": str(folder), "needed": needed, "approved": approved, "sha256": approval.hashes(shown)}
        )
    elif not needed:
        typer.echo(f"{folder} needs no approval: its program was held against one that ran.")
    else:
        typer.echo(f"{folder}: {'approved' if approved else 'not approved, so nothing is scored by it'}")
    raise typer.Exit(0 if approved else running.EXIT_OTHER_VERDICT)


def _text(data: bytes) -> str:
    return running.visible(data.decode("utf-8", errors="replace"))


def _approve(folder: Path, shown: dict[str, bytes]) -> None:
    from hawkeye_mcp.intake import approval

    try:
        approval.approve(folder, shown)
    except OSError as error:
        typer.echo(f"The approval could not be written to {folder}: {error.strerror}. Make it writable.", err=True)
        raise typer.Exit(running.EXIT_OTHER_VERDICT) from None

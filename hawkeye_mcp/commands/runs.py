"""`hawkeye runs`: folders that keep everything that was tried on one workload for one chip."""

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawkeye_mcp.commands import options, running

if TYPE_CHECKING:
    from hawkeye_mcp.evaluation import Evaluation
    from hawkeye_mcp.profile import Profile
    from hawkeye_mcp.runs.model import Best, State
    from hawkeye_mcp.runs.store import Run
    from hawkeye_mcp.workloads import Workload

app = typer.Typer(no_args_is_help=True, help="Keep everything that is tried on one workload for one chip.")

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="The run's folder.")]

RunOption = Annotated[
    Path | None,
    typer.Option("--run", metavar="FOLDER", file_okay=False, help="Keep the verdict in this run (hawkeye runs new)."),
]


def find(folder: Path) -> "Run":
    """The run in a folder; one that holds none is wrong usage."""
    from hawkeye_mcp.runs import store

    try:
        return store.find(folder)
    except store.NoRun as error:
        raise typer.BadParameter(str(error), param_hint="FOLDER") from None


def read(folder: Path) -> "State":
    from hawkeye_mcp.runs import store

    run = find(folder)
    try:
        return store.read(run)
    except (store.RunError, OSError) as error:
        typer.echo(f"The run could not be read: {error}", err=True)
        raise typer.Exit(running.EXIT_HARNESS) from None


def of_subject(folder: Path | None, workload: "Workload", tpu: str) -> "Run | None":
    """The run of --run; one of another workload or chip is wrong usage."""
    if folder is None:
        return None
    state = read(folder)
    given = None if workload.shipped else str(workload.folder)
    if (state.workload, state.workload_folder, state.tpu) != (workload.name, given, tpu):
        raise typer.BadParameter(
            f"{state.folder} is a run of {state.workload_folder or state.workload} on {state.tpu}, not of "
            f"{workload.reference} on {tpu}.",
            param_hint="--run",
        )
    return find(folder)


def keep(run: "Run | None", workload: "Workload", kernel: str, outcome: "Evaluation | Profile") -> None:
    """Keep a verdict in the run of --run; one that cannot be kept is said on stderr, and is the user's all the same."""
    if run is None:
        return
    from hawkeye_mcp import pool
    from hawkeye_mcp.evaluation import Evaluation
    from hawkeye_mcp.runs import store
    from hawkeye_mcp.versions import versions

    mark = pool.fingerprint(workload)
    if outcome.versions != versions():  # another host's judge said it
        mark = f"{mark} {outcome.versions.model_dump_json()}"
    try:
        if isinstance(outcome, Evaluation):
            store.record_evaluation(run, kernel, outcome, mark)
        else:
            store.record_profile(run, kernel, outcome, mark)
    except (store.RunError, OSError) as error:
        typer.echo(f"The verdict was not kept in {run.folder}: {error}", err=True)


@app.command("new")
def new_run(
    folder: FolderArgument,
    workload: options.WorkloadOption,
    tpu: options.TpuOption,
) -> None:
    """Begin a run in a new or empty folder.

    Then `hawkeye-mcp --run FOLDER` and `hawkeye evaluate --run FOLDER` keep every verdict in it.
    """
    from hawkeye_mcp import workloads
    from hawkeye_mcp.runs import store

    try:
        state = store.create(folder, workloads.find(workload), tpu)
    except store.RunError as error:
        raise typer.BadParameter(str(error), param_hint="FOLDER") from None
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}", param_hint="FOLDER") from None
    typer.echo(f"{state.folder}: run {state.id} of {state.workload} on {state.tpu}")
    here = shlex.quote(str(folder))
    typer.echo(
        f"Next: hawkeye-mcp --run {here}, or hawkeye evaluate --run {here} --workload {shlex.quote(workload)} --kernel FILE"
    )


@app.command("show")
def show_run(folder: FolderArgument, as_json: options.JsonOption = False) -> None:
    """Show how a run stands; state.json is mended if it does not say what the events say."""
    from hawkeye_mcp.display import one_line, us

    state = read(folder)
    if as_json:
        typer.echo(state.model_dump_json(indent=2))
        return
    typer.echo(f"Run {state.id} of {state.workload} on {state.tpu}, begun {state.created}")
    for source, best in (("predicted", state.best_predicted), ("measured", state.best_measured)):
        typer.echo(f"Best {source}: {_best(best)}")
    statuses = Counter(result.status for result in state.evaluations)
    counted = ", ".join(f"{number} {status}" for status, number in statuses.most_common())
    typer.echo(
        f"Evaluations: {len(state.evaluations)}{f' ({counted})' if counted else ''}; profiles: {len(state.profiles)}"
    )
    for result in state.evaluations:
        bound = ">= " if result.lower_bound else ""
        time = f"{bound}{us(result.candidate_us)} us {result.source}" if result.candidate_us else ""
        typer.echo(f"  {result.id}  {result.status:<13} {time:<24} {'improved' if result.improved else ''}".rstrip())
    for idea in state.ideas:
        typer.echo(f"{idea.id}: {idea.status}: {one_line(idea.claim)}")
    if state.damaged_lines:
        typer.echo(f"Lines of events.jsonl that are cut off or damaged, and count for nothing: {state.damaged_lines}")


def _best(best: "Best | None") -> str:
    from hawkeye_mcp.display import us

    if best is None:
        return "none"
    bound = ">= " if best.lower_bound else ""
    speedup = f", speedup {best.speedup:.4g}" if best.speedup is not None else ""
    return f"{bound}{us(best.candidate_us)} us{speedup} ({best.kernel_path})"


@app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Holds runs' folders.")],
    as_json: options.JsonOption = False,
) -> None:
    """List the runs in a folder."""
    from hawkeye_mcp.runs import store

    found = [state.summary() for state in store.listed(folder)]
    if as_json:
        running.print_json(found)
        return
    if not found:
        typer.echo(
            f"There are no runs in {folder}. Begin one: hawkeye runs new FOLDER --workload NAME --tpu CHIP", err=True
        )
        return
    from rich.table import Table

    from hawkeye_mcp.display import us

    table = Table(box=None, pad_edge=False)
    for name in ("folder", "workload", "tpu", "evaluations", "correct", "predicted us", "measured us"):
        table.add_column(name, justify="left" if name in ("folder", "workload", "tpu") else "right")
    for run in found:
        times = (us(run[key]) if run[key] is not None else "-" for key in ("best_predicted_us", "best_measured_us"))
        table.add_row(
            Path(run["folder"]).name, run["workload"], run["tpu"], str(run["evaluations"]), str(run["correct"]), *times
        )
    running.console().print(table)


@app.command("advice")
def advise(folder: FolderArgument, as_json: options.JsonOption = False) -> None:
    """Say whether more work on a run is likely to pay, and on what figures that rests."""
    from hawkeye_mcp.display import one_line
    from hawkeye_mcp.runs.advice import stop_advice

    found = stop_advice(read(folder))
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
        return
    typer.echo(f"Advice: {found.advice}")
    for reason in found.reasons:
        typer.echo(f"- {reason}")
    for idea in found.untested:
        typer.echo(f"  {idea.id}: {one_line(idea.claim).rstrip('.')}. Refuted by: {one_line(idea.falsifiable_as)}")

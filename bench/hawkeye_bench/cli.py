"""`hawkeye-bench`: runs an agent on workloads under conditions and shows what came of it; `report` and `power` beside
it.
"""

import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from hawkeye_bench import analysis_commands, driver, preregistration, report, runs
from hawkeye_bench.agents import Agent
from hawkeye_bench.agents.builtin import BUILTIN_MODEL, BuiltinOptimiser
from hawkeye_bench.agents.minimal import MinimalAgent
from hawkeye_bench.analysis import choices_for
from hawkeye_bench.preregistration import NotRegistered
from hawkeye_bench.runs import Plan, PlanDiffers, Run
from hawkeye_mcp import workloads as workload_store
from hawkeye_mcp.candidate.isolation import isolation
from hawkeye_mcp.chips import DEFAULT_TPU, TPUS
from hawkeye_mcp.conditions import CONDITIONS, HELP
from hawkeye_mcp.pool import judge_code
from hawkeye_mcp.versions import versions

AGENTS = ("minimal",)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(analysis_commands.report)
app.command()(analysis_commands.power)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    agent: Annotated[str, typer.Option(help=f"Who writes the kernels: {', '.join(AGENTS)}.")] = "minimal",
    condition: Annotated[
        list[str] | None,
        typer.Option(help=f"{HELP} Repeatable.", show_default="none"),
    ] = None,
    workloads: Annotated[str, typer.Option(help="Names or paths of folders, separated by commas; default: all.")] = "",
    tpu: Annotated[str, typer.Option(help=f"Chip to optimise for: {', '.join(TPUS)}.")] = DEFAULT_TPU,
    model: Annotated[
        str,
        typer.Option(help="Model name at --base-url, or `builtin`: a fixed procedure, not a language model."),
    ] = "builtin",
    base_url: Annotated[str, typer.Option(help="An OpenAI-compatible endpoint, e.g. http://host/v1.")] = "",
    api_key_env: Annotated[
        str,
        typer.Option(help="Name of the environment variable that holds the key; none is sent by default."),
    ] = "",
    reps: Annotated[int, typer.Option(min=1, help="Repeats of each workload and condition.")] = 1,
    max_turns: Annotated[int, typer.Option(min=1, help="Model calls per run.")] = 60,
    max_evaluations: Annotated[int, typer.Option(min=0, help="Evaluations per run; 0: no limit.")] = 12,
    max_minutes: Annotated[float, typer.Option(min=0.1, help="Wall time of the agent per run.")] = 60.0,
    preregister: Annotated[
        bool,
        typer.Option("--preregister", help="Freeze plan and analysis in --out before the first run, with their hash."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the runs; the same folder again goes on where it stopped.", file_okay=False),
    ] = None,
) -> None:
    """Run an agent on real workloads, with and without the taxonomy or under its controls, and compare the kernels.

    Every kernel that counts is judged again from scratch. Ctrl-C loses only the run in progress.
    """
    if context.invoked_subcommand:
        return
    names = [name.strip() for name in workloads.split(",") if name.strip()] or workload_store.names()
    conditions = list(dict.fromkeys(condition or ["none"]))
    _check("--agent", [agent], AGENTS)
    _check("--condition", conditions, CONDITIONS)
    _check("--tpu", [tpu], TPUS)
    names = _found(names)
    chosen = _agent(model, base_url, api_key_env)
    if preregister and len(conditions) < 2:
        raise typer.BadParameter(
            "a plan that is registered compares at least two conditions; add --condition taxonomy, for example.",
            param_hint="--preregister",
        )
    # The resolved path keeps the workspace the same whatever the working directory of the server is.
    folder = (out or Path("runs") / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")).resolve()
    plan = Plan(
        agent=agent,
        model=model,
        base_url=base_url,
        tpu=tpu,
        max_turns=max_turns,
        max_evaluations=max_evaluations,
        max_minutes=max_minutes,
        workloads=names,
        conditions=conditions,
        reps=reps,
        versions=versions(),
        judge=judge_code()[:12],
        cells=runs.cells_hash(),
    )
    try:
        if preregister:
            typer.echo(_register(folder, plan))
        whole = runs.keep_plan(folder, plan)
    except NotRegistered as error:
        raise typer.BadParameter(str(error), param_hint="--preregister") from None
    except PlanDiffers as error:
        raise typer.BadParameter(str(error), param_hint="--out") from None
    except OSError as error:
        raise typer.BadParameter(f"cannot write {folder}: {error.strerror}", param_hint="--out") from None
    raise typer.Exit(_run(plan, whole, chosen, folder))


def _register(folder: Path, plan: Plan) -> str:
    registration = preregistration.preregister(folder, plan, choices_for(plan.conditions))
    return (
        f"Preregistered in {folder / 'preregistered.json'}: sha256 {registration.sha256}. Publish the hash before the "
        "runs (a commit, a mail): only that shows that the plan came first."
    )


def _agent(model: str, base_url: str, api_key_env: str) -> Agent:
    if model == "builtin":
        if base_url or api_key_env:
            raise typer.BadParameter(f"{BUILTIN_MODEL} takes no --base-url or --api-key-env; name a --model.")
        return BuiltinOptimiser()
    if not base_url.startswith(("http://", "https://")):
        raise typer.BadParameter(
            f"--model {model} needs --base-url http(s)://...; without an endpoint use --model builtin.",
            param_hint="--base-url",
        )
    if api_key_env and not os.environ.get(api_key_env):
        raise typer.BadParameter(
            f"the environment variable {api_key_env} is not set; set it, or leave the option out.",
            param_hint="--api-key-env",
        )
    return MinimalAgent(model, base_url, api_key_env)


def _check(option: str, values: list[str], legal: tuple[str, ...] | list[str]) -> None:
    """Exit 2 with the legal values if one is not among them."""
    for value in values:
        if value not in legal:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(legal)}.", param_hint=option)


def _found(workloads: list[str]) -> list[str]:
    """What the workloads are found by; exit 2 if one is not there, or if two have one name."""
    try:
        found = list(dict.fromkeys(workload_store.find(name).reference for name in workloads))
    except workload_store.UnknownWorkload as error:
        raise typer.BadParameter(str(error), param_hint="--workloads") from None
    if len({runs.name_of(workload) for workload in found}) < len(found):
        raise typer.BadParameter("two folders have the same name: rename one.", param_hint="--workloads")
    return found


def _run(plan: Plan, whole: Plan, agent: Agent, folder: Path) -> int:
    """Do what is left of the plan, show it, and return the exit code: 1 if a run is still to be repeated.

    whole: the plan of everything in the folder, of which a summary is kept there.
    """
    console = Console(soft_wrap=not sys.stdout.isatty())
    done, to_do = driver.pending(plan, folder)
    console.print(f"Agent {agent.name}, model {agent.model}, TPU {plan.tpu}. Keeping everything in {folder}")
    if warning := report.weak_isolation(isolation()):
        console.print(warning)
    if done:
        console.print(f"{len(done)} runs are finished already; {len(to_do)} to do.")
    outcomes: list[Run] = []
    interrupted = False
    try:
        _with_progress(plan, agent, folder, outcomes, console, len(to_do))
    except KeyboardInterrupt:
        interrupted = True
    finished, missing = driver.pending(plan, folder)
    broken = [run for run in outcomes if run.status == "broken"]
    console.print(report.show(_ordered(plan, finished + broken)))
    report.keep(folder, _ordered(whole, driver.pending(whole, folder)[0] + broken))
    console.print(f"Everything is in {folder}")
    if missing:
        again = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        hint = "" if "--out" in again else f" --out {shlex.quote(str(folder))}"
        console.print(f"{len(missing)} runs are still to do. To go on: {again}{hint}")
    return 130 if interrupted else int(bool(missing))


def _with_progress(plan: Plan, agent: Agent, folder: Path, outcomes: list[Run], console: Console, total: int) -> None:
    """Run the plan with a live display on a terminal, else with a line for each step."""

    def finish(run: Run) -> None:
        outcomes.append(run)
        console.print(report.line(run))

    if not console.is_terminal:

        def say(text: str) -> None:
            console.print(f"  {text}")

        anyio.run(driver.run_all, plan, agent, folder, say, finish)
        return
    columns = (
        SpinnerColumn(),
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", total=total)

        def show(text: str) -> None:
            bar.update(task, description=text)

        def advance(run: Run) -> None:
            finish(run)
            bar.advance(task)

        anyio.run(driver.run_all, plan, agent, folder, show, advance)


def _ordered(plan: Plan, found: list[Run]) -> list[Run]:
    """By workload, then repeat, then condition, each in the order of the command line."""
    names = [runs.name_of(workload) for workload in plan.workloads]

    def position(run: Run) -> tuple[int, int, int]:
        return names.index(run.workload), run.repeat, plan.conditions.index(run.condition)

    return sorted(found, key=position)


if __name__ == "__main__":
    app()

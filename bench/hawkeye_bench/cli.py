"""`hawkeye-bench`: runs an agent on workloads under conditions and shows what came of it; `report` and `power` beside
it.
"""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

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

from hawkeye_bench import analysis_commands, hosts, journal, preregistration, report, runs, schedule, status
from hawkeye_bench.agents import Agent
from hawkeye_bench.agents.choose import AGENTS, NEVER_TELL_DOLLARS, AgentSpec, Misfit, make
from hawkeye_bench.analysis import choices_for
from hawkeye_bench.budget import MOST_MINUTES, MOST_USD, Budget
from hawkeye_bench.executors import local, ray
from hawkeye_bench.exports.command import export
from hawkeye_bench.order import RunKey, pending
from hawkeye_bench.preregistration import NotRegistered
from hawkeye_bench.runs import Plan, PlanDiffers, Run, Unreadable
from hawkeye_mcp import workloads as workload_store
from hawkeye_mcp.candidate.isolation import isolation
from hawkeye_mcp.chips import DEFAULT_TPU, TPUS
from hawkeye_mcp.conditions import CONDITIONS, HELP
from hawkeye_mcp.pool import judge_code
from hawkeye_mcp.versions import versions

EXECUTORS = ("local", "ray")
_BUDGET = {name: field.default for name, field in Budget.model_fields.items()}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(analysis_commands.report)
app.command()(analysis_commands.power)
app.command()(export)
app.command()(status.status)


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
        typer.Option(help="Model name as the endpoint or client knows it; `builtin`: a fixed procedure, no model."),
    ] = "",
    base_url: Annotated[
        str, typer.Option(help="The model's endpoint, e.g. http://host/v1; clients of others know their own.")
    ] = "",
    api_key_env: Annotated[
        str,
        typer.Option(help="Name of the environment variable that holds the key; none is sent by default."),
    ] = "",
    program: Annotated[
        str, typer.Option(help="The client's program (claude, codex), or OpenHands' Python; default: from PATH.")
    ] = "",
    command: Annotated[str, typer.Option(help="For --agent command: the program and its arguments, a template.")] = "",
    pass_env: Annotated[
        list[str] | None, typer.Option(help="For --agent command: a variable that it may see. Repeatable.")
    ] = None,
    kernels: Annotated[str, typer.Option(help="For --agent replay: a folder of recorded kernels, by workload.")] = "",
    reps: Annotated[
        int, typer.Option(min=1, max=runs.MOST_REPEATS, help="Repeats of each workload and condition.")
    ] = 1,
    max_productive_turns: Annotated[
        int, typer.Option(min=1, help="Edits, evaluations and cells read, together, per run.")
    ] = _BUDGET["productive_turns"],
    max_turns: Annotated[int, typer.Option(min=1, help="Model calls per run.")] = _BUDGET["turns"],
    max_evaluations: Annotated[int, typer.Option(min=0, help="Evaluations per run; 0: no limit of their own.")] = 0,
    max_minutes: Annotated[
        float, typer.Option(min=0.1, max=MOST_MINUTES, help="Wall time of the agent per run.")
    ] = _BUDGET["minutes"],
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Prompt and completion tokens per run.")] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(min=0.0001, max=MOST_USD, help="Dollars per run, as the client says.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the order of the conditions, drawn for each workload and repeat.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Runs at once; 0: as many as cores and memory allow.")] = 0,
    executor: Annotated[
        str, typer.Option(help=f"Where runs are done: {', '.join(EXECUTORS)} (a cluster that is up; extra `ray`).")
    ] = "local",
    address: Annotated[str, typer.Option(help="For --executor ray: HOST:PORT of its head, or `auto`.")] = "",
    host: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]...|all",
            help="Registered hosts that judge every kernel instead of this machine, each time the least busy (hawkeye "
            "hosts); agents work here.",
        ),
    ] = None,
    run_cpus: Annotated[int, typer.Option(min=1, help="For --executor ray: CPUs of each run.")] = ray.CPUS,
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

    Every kernel that counts is judged again from scratch, in a process of its own. The same command again goes on where
    this one stopped, however it stopped.
    """
    if context.invoked_subcommand:
        return
    names = [name.strip() for name in workloads.split(",") if name.strip()]
    conditions = list(dict.fromkeys(condition or ["none"]))
    _check("--agent", [agent], AGENTS)
    _check("--condition", conditions, CONDITIONS)
    _check("--tpu", [tpu], TPUS)
    _check("--executor", [executor], EXECUTORS)
    _check_place(executor, address, run_cpus, host)
    if workloads and not names:
        raise typer.BadParameter("names none; leave it out for all of them.", param_hint="--workloads")
    if max_cost_usd is not None and agent in NEVER_TELL_DOLLARS:
        raise typer.BadParameter(
            f"--agent {agent} never tells what a run costs, so this would limit nothing; use --max-tokens.",
            param_hint="--max-cost-usd",
        )
    names = _found(names or workload_store.names())
    spec, chosen = _agent(
        agent=agent,
        model=model,
        base_url=base_url,
        api_key_env=api_key_env,
        program=program,
        command=command,
        pass_env=tuple(pass_env or ()),
        kernels=kernels,
    )
    if preregister and len(conditions) < 2:
        raise typer.BadParameter(
            "a plan that is registered compares at least two conditions; add --condition taxonomy, for example.",
            param_hint="--preregister",
        )
    # The resolved path keeps the workspace the same whatever the working directory of the server is.
    folder = (out or Path("runs") / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")).resolve()
    plan = Plan(
        agent=agent,
        model=(model or "builtin") if agent == "minimal" else chosen.model,
        base_url=base_url,
        tpu=tpu,
        agent_options=spec.options(),
        budget=Budget(
            productive_turns=max_productive_turns,
            turns=max_turns,
            evaluations=max_evaluations,
            minutes=max_minutes,
            tokens=max_tokens,
            cost_usd=max_cost_usd,
        ),
        seed=seed,
        workloads=names,
        conditions=conditions,
        reps=reps,
        versions=versions(),
        judge=judge_code()[:12],
        cells=runs.cells_hash(),
        hosts=_hosts(host, tpu, names) if host is not None else None,
    )
    with ExitStack() as open_now:
        try:
            open_now.enter_context(journal.held(folder))
            if preregister:
                typer.echo(_register(folder, plan))
            whole = runs.keep_plan(folder, plan)
            pending(whole, folder)  # before anything is run: every record that is there can be read
            do, slots = open_now.enter_context(_executor(plan, spec, folder, address, run_cpus))
        except NotRegistered as error:
            raise typer.BadParameter(str(error), param_hint="--preregister") from None
        except ray.ClusterUnusable as error:
            raise typer.BadParameter(str(error), param_hint="--address") from None
        except (PlanDiffers, Unreadable, journal.FolderInUse) as error:
            raise typer.BadParameter(str(error), param_hint="--out") from None
        except OSError as error:
            raise typer.BadParameter(f"cannot write {folder}: {error.strerror}", param_hint="--out") from None
        raise typer.Exit(_run(plan, whole, chosen, folder, do, workers or slots))


@contextmanager
def _executor(
    plan: Plan, spec: AgentSpec, folder: Path, address: str, run_cpus: int
) -> Iterator[tuple[schedule.Do, int]]:
    """What does one run, and how many it can do at once: on this machine, or on the cluster at an address."""
    if not address:
        # Judging is what takes cores and memory: one run at a time for each host leaves its times undisturbed.
        yield local.doing(plan, spec, folder), len(plan.hosts) if plan.hosts else local.slots()
        return
    with ray.connected(address, plan.tpu, run_cpus) as cluster:
        typer.echo(str(cluster))
        yield ray.doing(cluster, plan, spec, folder), cluster.slots


def _register(folder: Path, plan: Plan) -> str:
    registration = preregistration.preregister(folder, plan, choices_for(plan.conditions))
    return (
        f"Preregistered in {folder / 'preregistered.json'}: sha256 {registration.sha256}. Publish the hash before the "
        "runs (a commit, a mail): only that shows that the plan came first."
    )


def _agent(**given: Any) -> tuple[AgentSpec, Agent]:
    try:
        spec = AgentSpec(**given)
        return spec, make(spec)
    except Misfit as error:
        raise typer.BadParameter(str(error), param_hint=error.option) from None


def _check_place(executor: str, address: str, run_cpus: int, host: str | None) -> None:
    """Exit 2 if what is said of where runs are done and judged does not fit together."""
    if (executor == "ray") != bool(address):
        raise typer.BadParameter(
            "a cluster has an address and this machine has none: give both --executor ray and --address, or neither.",
            param_hint="--address",
        )
    if run_cpus != ray.CPUS and executor != "ray":
        raise typer.BadParameter("only a run on a cluster is given CPUs; leave it out.", param_hint="--run-cpus")
    if host is not None and executor == "ray":
        raise typer.BadParameter(
            "runs on a cluster are judged where they are done: give one of the two.", param_hint="--host"
        )


def _hosts(names: str, tpu: str, workloads: list[str]) -> dict[str, runs.PlannedHost]:
    try:
        found = hosts.look(names, tpu, [workload_store.find(workload) for workload in workloads])
    except hosts.HostsUnusable as error:
        raise typer.BadParameter(str(error), param_hint="--host") from None
    typer.echo(hosts.words(found, tpu))
    return found


def _check(option: str, values: list[str], legal: tuple[str, ...] | list[str]) -> None:
    """Exit 2 with the legal values if one is not among them."""
    for value in values:
        if value not in legal:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(legal)}.", param_hint=option)


def _found(workloads: list[str]) -> list[str]:
    """What the workloads are found by; exit 2 if one is not there, or if two have one name."""
    try:
        found = list(dict.fromkeys(workload_store.find_to_score(name).reference for name in workloads))
    except workload_store.UnknownWorkload as error:
        raise typer.BadParameter(str(error), param_hint="--workloads") from None
    if len({runs.name_of(workload) for workload in found}) < len(found):
        raise typer.BadParameter("two folders have the same name: rename one.", param_hint="--workloads")
    return found


def _run(plan: Plan, whole: Plan, agent: Agent, folder: Path, do: schedule.Do, slots: int) -> int:
    """Do what is left of the plan, show it, and return the exit code: 1 if a run is still to be repeated.

    whole: the plan of everything in the folder, of which a summary is kept there.
    """
    # What agents and endpoints say is shown as it is: brackets and colons in it are no markup.
    console = Console(soft_wrap=not sys.stdout.isatty(), markup=False, emoji=False)
    done, to_do = pending(plan, folder)
    at_once = f", {slots} at once" if slots > 1 else ""
    console.print(f"Agent {agent.name}, model {agent.model}, TPU {plan.tpu}{at_once}. Keeping everything in {folder}")
    if not plan.hosts and (warning := report.weak_isolation(isolation())):
        console.print(warning)
    if done:
        console.print(f"{len(done)} runs are finished already; {len(to_do)} to do.")
    broken: dict[RunKey, Run] = {}
    interrupted = False
    try:
        _with_progress(plan, folder, do, slots, broken, console, len(to_do))
    except KeyboardInterrupt:
        interrupted = True
    finished, missing = pending(plan, folder)
    still = [run for key, run in broken.items() if key in missing]
    console.print(report.show(schedule.ordered(plan, finished + still)))
    report.keep(folder, schedule.ordered(whole, pending(whole, folder)[0] + still))
    console.print(f"Everything is in {folder}")
    if missing:
        again = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        hint = "" if "--out" in again else f" --out {shlex.quote(str(folder))}"
        console.print(f"{len(missing)} runs are still to do. To go on: {again}{hint}")
    return 130 if interrupted else int(bool(missing))


def _with_progress(
    plan: Plan,
    folder: Path,
    do: schedule.Do,
    slots: int,
    broken: dict[RunKey, Run],
    console: Console,
    total: int,
) -> None:
    """Run the plan with a live display on a terminal, else with a line for each step. broken: gets what failed."""

    def finish(key: RunKey, run: Run | None, text: str) -> None:
        if run and run.status == "broken":
            broken[key] = run
        console.print(report.line(run) if run and not text else f"{key}: {text}")

    def carry_out(progress: Callable[[RunKey, str], None], on_run: Callable[[RunKey, Run | None, str], None]) -> None:
        anyio.run(partial(schedule.run_all, plan, folder, do, slots=slots, progress=progress, on_run=on_run))

    if not console.is_terminal:
        carry_out(lambda key, text: console.print(f"  {key}: {text}"), finish)
        return
    columns = (
        SpinnerColumn(),
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", total=total)

        def advance(key: RunKey, run: Run | None, text: str) -> None:
            finish(key, run, text)
            if run and run.status != "broken":
                bar.advance(task)

        carry_out(lambda key, text: bar.update(task, description=f"{key}: {text}"), advance)


if __name__ == "__main__":
    app()

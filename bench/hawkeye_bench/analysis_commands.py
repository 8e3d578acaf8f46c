"""`hawkeye-bench report` and `hawkeye-bench power`: what a folder of runs says, and what a plan could say."""

from pathlib import Path
from typing import Annotated

import typer

from hawkeye_bench import page, results, results_text, runs
from hawkeye_bench.analysis import choices_for
from hawkeye_bench.pairs import COUNTED, FAILURES, Failures
from hawkeye_bench.power import MOST_REPEATS, Assumptions, from_pilot, plan_repeats
from hawkeye_mcp import workloads as workload_store

_DEFAULTS = {name: field.default for name, field in Assumptions.model_fields.items()}


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the runs, as given to --out.")],
    json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """What the finished runs of a folder say: paired effect, success, fast_p, and how sure each figure is.

    Without --json also as a page with every run and kernel in it, DIR/report.html, for any browser.
    """
    found = _read(folder)
    typer.echo(found.model_dump_json(indent=1) if json else results_text.markdown(found), nl=json)
    if not json:
        _write_page(folder, found)


def power(
    workloads: Annotated[
        int | None, typer.Option(min=2, help="How many; those that can tell a wrong kernel by default.")
    ] = None,
    effect: Annotated[float, typer.Option(min=0.01, help="True paired ratio to detect, e.g. 1.1.")] = 1.1,
    pilot: Annotated[
        Path | None, typer.Option(help="Folder of runs to take deviations and success from.", file_okay=False)
    ] = None,
    sd_workloads: Annotated[
        float | None,
        typer.Option(min=0, help=f"SD between workloads of the log ratio; {_DEFAULTS['sd_workloads']} is assumed."),
    ] = None,
    sd_pairs: Annotated[
        float | None,
        typer.Option(min=0, help=f"SD of a pair's log ratio around that; {_DEFAULTS['sd_pairs']} is assumed."),
    ] = None,
    success: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help=f"Share of runs with a correct kernel; {_DEFAULTS['success_control']} is assumed."
        ),
    ] = None,
    failures: Annotated[str, typer.Option(help=f"How others count: {', '.join(FAILURES)}.")] = "baseline",
    target: Annotated[float, typer.Option(min=0.05, max=0.99, help="Power to reach.")] = 0.8,
    most: Annotated[int, typer.Option(min=1, help="Repeats to try at most.")] = MOST_REPEATS,
    simulations: Annotated[int, typer.Option(min=100, help="Synthetic experiments for each figure.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the synthetic experiments.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """How many repeats a plan needs, by the report's own analysis on synthetic experiments; prints its assumptions."""
    count = workloads or sum(not workload_store.load(name).no_power for name in workload_store.names())
    given = _pilot(pilot, count, effect) if pilot else Assumptions(workloads=count, effect=effect)
    stated = {
        "sd_workloads": sd_workloads,
        "sd_pairs": sd_pairs,
        "success_treatment": success,
        "success_control": success,
    }
    stated = {name: value for name, value in stated.items() if value is not None}
    origin = f"{given.origin}; {', '.join(stated)} as stated" if stated else given.origin
    given = given.model_copy(update={**stated, "failures": _rule(failures), "origin": origin})
    found = plan_repeats(given, target=target, simulations=simulations, seed=seed, most=most)
    typer.echo(found.model_dump_json(indent=1) if json else results_text.power_markdown(found), nl=json)


def _write_page(folder: Path, found: results.Results) -> None:
    try:
        typer.echo(f"\nThe page with every run and kernel: {page.write(folder, found)}")
    except OSError as error:
        typer.echo(
            f"The page was not written: {error}. Copy {folder} to where you may write and report that.", err=True
        )
        raise typer.Exit(1) from None


def _read(folder: Path) -> results.Results:
    try:
        return results.read(folder)
    except runs.Unreadable as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from None


def _pilot(folder: Path, workloads: int, effect: float) -> Assumptions:
    try:
        plan = results.plan_of(folder)
        primary = choices_for(plan.conditions)
        return from_pilot(results.finished(folder, plan), primary.treatment, primary.control, workloads, effect)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--pilot") from None


def _rule(name: str) -> Failures:
    for rule in COUNTED:
        if name == rule:
            return rule
    raise typer.BadParameter(f"{name!r} is not one of {', '.join(FAILURES)}.", param_hint="--failures")

"""What predictions rest on: the baselines that are shipped, and how far samples and predictions are off."""

import functools
from functools import partial
from typing import Annotated

import typer

from hawkeye_mcp.commands import options, running


def baselines(
    tpu: Annotated[
        list[str] | None, typer.Option(metavar="CHIP", callback=options.tpus, help="Chip, repeatable; default: all.")
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", callback=options.shipped, help="Workload, repeatable; default: all."),
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
    as_json: options.JsonOption = False,
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
        running.print_json(found) if as_json else display.calibration(found, running.console())
        return
    wanted = [(chip, find(name)) for chip in tpu or () for name in workload or ()]
    if check:
        rows = shipping.rows(wanted, versions())
    else:
        rows = anyio.run(functools.partial(shipping.update, wanted, versions(), profile=profile, say=say))
    if as_json:
        running.print_json({"baselines": [row.model_dump(mode="json") for row in rows]})
    else:
        display.baselines(rows, running.console())
    raise typer.Exit(running.EXIT_OTHER_VERDICT if any(row.state != "current" for row in rows) else 0)


def fidelity(
    kernel: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One of the kernels, repeatable; default: all.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Hold sampled cycles against the compiler's profile of the whole run.

    Takes some minutes. Exit code: 1 if one is off by more than 1 %.
    """
    import anyio

    from hawkeye_mcp import fidelity as check

    try:
        with running.stages() as progress:
            found = anyio.run(check.fidelity, kernel or (), progress)
    except check.UnknownKernel as error:
        raise typer.BadParameter(str(error), param_hint="--kernel") from None
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        check.show(found, running.console())
    raise typer.Exit(0 if found.good else running.EXIT_OTHER_VERDICT)


def accuracy(
    tpu: Annotated[
        list[str] | None,
        typer.Option("--chip", metavar="CHIP", callback=options.tpus, help="Chip, repeatable; default: all."),
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
    as_json: options.JsonOption = False,
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
            running.print_json({chip: vars(model) for chip, model in models.items()})
        else:
            table.show_models(models, running.console())
        return
    found = command.scored(rows, features)
    if write:
        for path in command.write(rows, features, found):
            typer.echo(f"{path}: written", err=True)
    if as_json:
        typer.echo(found.model_dump_json(indent=2, by_alias=True))
    else:
        table.show(found, running.console())

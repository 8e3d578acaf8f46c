"""`hawkeye compare`: a kernel beside the PyTorch module that it stands for."""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.commands import options, remote, running

if TYPE_CHECKING:
    from hawkeye_mcp.hosts.connection import Link
    from hawkeye_mcp.hosts.health import Health
    from hawkeye_mcp.intake.job import Job
    from hawkeye_mcp.intake.original import Beside
    from hawkeye_mcp.profile import Profile
    from hawkeye_mcp.workloads import Workload

Progress = Callable[[str], None]


def compare(
    kernel: options.KernelOption,
    torch: Annotated[
        Path | None,
        typer.Option(
            "--torch",
            metavar="MODEL.py",
            exists=True,
            dir_okay=False,
            help="The module's file: a class, get_inputs() and get_init_inputs().",
        ),
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option("--job", metavar="JOB.json", help="Its job file instead, whose sizes and tolerances then hold."),
    ] = None,
    entry: Annotated[str, typer.Option(metavar="CLASS", help="The module's class in MODEL.py.")] = "Model",
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="FOLDER",
            callback=options.optional_workload,
            help="What `hawkeye job import` made of the module: gives the kernel a time at its full size.",
        ),
    ] = None,
    tpu: options.TpuOption = DEFAULT_TPU,
    host: remote.HostOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run your real PyTorch beside a kernel: do they agree, and how long does each take where it ran?

    Results are compared on the arguments that the module's own file gives. Times stand side by side with their sources;
    a ratio is given only where one device ran both. With --host the kernel's time is had there; your module runs here.

    Exit code: 0 they agree, 1 they do not, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp import state, workloads
    from hawkeye_mcp.intake import original
    from hawkeye_mcp.intake.capture import CaptureFailed

    if torch and not job:
        subject = original.job_of(torch, entry)
    elif job and not torch:
        subject = _job(job)
    else:
        raise typer.BadParameter("give the module's file or its job file, one of the two.", param_hint="--torch")

    imported = workloads.find(workload) if workload else None
    if host and not imported:
        raise typer.BadParameter(
            "a host times the kernel of a workload: give --workload, or leave it out.", param_hint="--host"
        )

    if host and imported and not imported.shipped:
        remote.check_sendable(imported)

    async def judge(progress: Progress) -> "Beside":
        async with AsyncExitStack() as stack:
            profile = None
            if imported:
                at = partial(_there, host) if host else partial(_profiled, stack)
                profile = partial(at, kernel, imported, tpu, progress)
            return await original.beside(kernel, subject, tpu, state.folder(), progress, profile, imported)

    try:
        found = running.judged(judge, passed_on=(CaptureFailed,))
    except CaptureFailed as error:
        typer.echo(f"The module cannot be run: {error.message}\nNext: {error.fix}", err=True)
        raise typer.Exit(running.EXIT_OTHER_VERDICT) from None
    typer.echo(found.model_dump_json(indent=2) if as_json else original.text(found))
    raise typer.Exit(0 if found.status == "agrees" else running.EXIT_OTHER_VERDICT)


def _job(path: Path) -> "Job":
    from hawkeye_mcp.intake import report, rules, show

    try:
        found = rules.load(path)
    except report.InvalidJob as error:
        typer.echo(show.report(error.report), err=True)
        raise typer.Exit(error.report.exit_code) from None
    if found.input.type != "pytorch":
        raise typer.BadParameter(f"{path} is of no PyTorch module.", param_hint="--job")
    return found


async def _profiled(
    stack: AsyncExitStack, kernel: str, workload: "Workload", tpu: str, progress: Progress
) -> "Profile":
    from hawkeye_mcp.judge.evaluate import open_judge

    judge = await stack.enter_async_context(open_judge(warm=tpu))
    return await judge.profile(kernel, workload, tpu, counters=False, progress=progress)


async def _there(hosts: str, kernel: str, workload: "Workload", tpu: str, progress: Progress) -> "Profile":
    """What one of the hosts says of the kernel.

    Raises:
        NoTime: none does; the comparison of the results stands without.
    """
    from hawkeye_mcp.hosts import choosing, registry
    from hawkeye_mcp.hosts.remote import NoVerdict, Order, profile
    from hawkeye_mcp.intake.original import NoTime

    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what befalls a connection is told in one line

    async def look(link: "Link", _: "Health") -> "Profile":
        order = Order(kernel, workload, tpu, lambda stage: progress(f"{link.name}: {stage}"), remote.tell)
        found = await profile(link, order)
        return found.model_copy(update={"judged_on": link.name})

    try:
        return await choosing.on_one_of(registry.find(hosts), look, remote.tell)
    except (choosing.NoHost, NoVerdict) as error:
        raise NoTime(str(error)) from None

"""What commands share that judge on a host with --host instead of here."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hawkeye_mcp.commands import running

if TYPE_CHECKING:
    from hawkeye_mcp.evaluation import Evaluation
    from hawkeye_mcp.hosts.connection import Link
    from hawkeye_mcp.hosts.health import Health
    from hawkeye_mcp.hosts.remote import Order
    from hawkeye_mcp.profile import Profile
    from hawkeye_mcp.sanitizer.model import Sanitized
    from hawkeye_mcp.workloads import Workload

Result = TypeVar("Result", "Evaluation", "Profile", "Sanitized")


def _known(names: str | None) -> str | None:
    from hawkeye_mcp.hosts import registry

    try:
        if names is not None:
            registry.find(names)
    except registry.RegistryError as error:
        raise typer.BadParameter(str(error)) from None
    return names


HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="NAME[,NAME]...|all",
        callback=_known,
        help="Judge on this host, or on the least busy one of several, instead of here (hawkeye hosts).",
    ),
]


def judged(
    hosts: str,
    workload: "Workload",
    tpu: str,
    kernels: list[str],
    one: "Callable[[Link, Order], Awaitable[Result]]",
    *,
    as_json: bool,
) -> list[Result]:
    """What one of the hosts says of each kernel; says on stderr which one it was.

    Ends the process with 3 if no host did it, and with 1 if the work was cancelled or stopped there.
    """
    from hawkeye_mcp.hosts import choosing, registry
    from hawkeye_mcp.hosts.remote import NoVerdict, Order

    if not workload.shipped:
        raise typer.BadParameter(
            f"{workload.folder} is a folder of this machine, and hosts know only the workloads that are shipped. "
            "Judge it here, without --host; or install hawkeye on the host and run the command there.",
            param_hint="--workload",
        )
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what befalls a connection is told below, in one line

    async def judge(progress: Callable[[str], None]) -> list[Result]:
        async def work(link: "Link", health: "Health") -> list[Result]:
            orders = [
                Order(kernel, workload.name, tpu, lambda stage: progress(f"{link.name}: {stage}"), tell)
                for kernel in kernels
            ]
            found = [await one(link, order) for order in orders]
            tell(f"{link.name} ({link.host.address}; {attached(health.tpus)}){_source(found[0])}")
            return found

        progress(f"asking {hosts}")
        return await choosing.on_one_of(registry.find(hosts), work, tell)

    try:
        return running.judged(
            judge,
            passed_on=(choosing.NoHost, NoVerdict),
            stopped="nothing was judged, and the work there was cancelled",
        )
    except choosing.NoHost as error:
        tell(str(error))
        raise typer.Exit(running.EXIT_HARNESS) from None
    except NoVerdict as ended:
        told = {"status": ended.status, "message": ended.message, "next_step": ended.next_step}
        if as_json:
            running.print_json({**told, "workload": workload.name, "tpu": tpu})
        else:
            typer.echo(f"{ended.status}  {workload.name} on {tpu}\n{ended.message}\nNext: {ended.next_step}")
        raise typer.Exit(running.exit_code(ended.status)) from None


def attached(tpus: list[str]) -> str:
    """The chips of a machine, for people."""
    return ", ".join(f"{tpus.count(kind)} x {kind}" for kind in dict.fromkeys(tpus)) or "no TPU"


def tell(line: str) -> None:
    typer.echo(line, err=True)


def _source(found: "Evaluation | Profile | Sanitized") -> str:
    """Where its times are from; "" if it has none."""
    timing = getattr(found, "timing", None)
    if timing is None or timing.source is None:
        return ""
    return f": measured on {timing.measurement.device}" if timing.measurement else f": {timing.source}"

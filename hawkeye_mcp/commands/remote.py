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
Outcome = TypeVar("Outcome")
Progress = Callable[[str], None]


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
    """What one of the hosts says of each kernel; see `on_one`."""
    from hawkeye_mcp.hosts.remote import Order

    async def work(link: "Link", health: "Health", progress: Progress) -> list[Result]:
        found = [await one(link, Order(kernel, workload, tpu, progress, tell)) for kernel in kernels]
        tell(f"{link.name} ({link.host.address}; {attached(health.tpus)}){_source(found[0])}")
        return found

    return on_one(
        hosts, workload, tpu, work, as_json=as_json, stopped="nothing was judged, and the work there was cancelled"
    )


def on_one(
    hosts: str,
    workload: "Workload",
    tpu: str,
    work: "Callable[[Link, Health, Progress], Awaitable[Outcome]]",
    *,
    as_json: bool,
    stopped: str,
    passed_on: tuple[type[Exception], ...] = (),
) -> Outcome:
    """What comes of work on one of the hosts; it says on stderr which one it was.

    passed_on: faults that are the caller's to tell. stopped: what a signal leaves, in words.

    Ends the process with 3 if no host did it, and with 1 if the work was cancelled or stopped there.
    """
    from hawkeye_mcp.hosts import choosing, registry
    from hawkeye_mcp.hosts.remote import NoVerdict

    if not workload.shipped:
        check_sendable(workload)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what befalls a connection is told below, in one line

    async def judge(progress: Progress) -> Outcome:
        async def there(link: "Link", health: "Health") -> Outcome:
            return await work(link, health, lambda stage: progress(f"{link.name}: {stage}"))

        progress(f"asking {hosts}")
        return await choosing.on_one_of(registry.find(hosts), there, tell)

    try:
        return running.judged(judge, passed_on=(choosing.NoHost, NoVerdict, *passed_on), stopped=stopped)
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


def check_sendable(workload: "Workload") -> None:
    """What no host could have is wrong usage, said before one is asked."""
    from hawkeye_mcp.hosts import sending

    try:
        sending.message(workload)
    except sending.NotSendable as error:
        raise typer.BadParameter(str(error), param_hint="--workload") from None


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

"""`hawkeye sanitize`: what is wrong with a kernel that an interpreter calls right."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, cast

import typer

from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.commands import options, remote, running

if TYPE_CHECKING:
    from hawkeye_mcp.sanitizer.model import Check, Sanitized


def _check(name: str | None) -> str | None:
    from hawkeye_mcp.sanitizer.model import CHECKS

    return options.one_of(name, CHECKS) if name is not None else None


def sanitize(
    workload: options.WorkloadOption,
    kernel: options.KernelOption,
    tpu: options.TpuOption = DEFAULT_TPU,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="CHECK",
            callback=_check,
            help="Run this check alone: static, uninitialised, out_of_bounds, dma, semaphores, revisits, parallel, races, "
            "seeds or two_cores.",
        ),
    ] = None,
    host: remote.HostOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Find what a TPU would do wrong with a kernel that an interpreter calls right.

    Runs it at the check size under jax's TPU interpreter, every element watched: memory read before it is written, accesses
    out of bounds, copies and semaphores without their waits, races, parallel axes that are none; and looks at its
    grid at full size. Results are not compared with the reference: `hawkeye evaluate` does that.

    Exit code: 0 silent, 1 findings or it cannot be run, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp.workloads import find

    subject = find(workload)

    async def judge(progress: Callable[[str], None]) -> "Sanitized":
        from hawkeye_mcp.sanitizer.run import sanitize as run

        return await run(kernel, subject, tpu, only=cast("Check | None", only), progress=progress)

    if host and only:
        raise typer.BadParameter("a host runs all checks: leave it out, or run it here.", param_hint="--only")
    if host:
        from hawkeye_mcp.hosts.remote import sanitize as there

        (found,) = remote.judged(host, subject, tpu, [kernel], there, as_json=as_json)
    else:
        found = running.judged(judge, stopped="nothing was found yet")
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        _show(found)
    raise typer.Exit(0 if found.status == "silent" else running.EXIT_OTHER_VERDICT)


def _show(found: "Sanitized") -> None:
    console = running.console()
    console.print(found.message, markup=False)
    for finding in found.findings:
        where = f"line {finding.line}" if finding.line else "no line"
        console.print(f"\n{where}: {finding.kind}: {finding.message}", markup=False)
        console.print(f"  On a TPU: {finding.on_tpu}", markup=False)
        console.print(f"  Mend it: {finding.advice}", markup=False)
    console.print(f"\nChecks that ran: {', '.join(found.checks) or 'none'}.", markup=False)
    for skip in found.not_checked:
        console.print(f"Not checked: {skip.check}: {skip.reason}", markup=False)
    console.print(found.next_step, markup=False)

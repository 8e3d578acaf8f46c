"""`python -m hawkeye_mcp.mosaic_eval`: does what is lowered for the TPU compute what the workload asks?"""

from collections.abc import Callable
from typing import Annotated, cast

import typer

from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.commands import options, running
from hawkeye_mcp.mosaic_eval import run
from hawkeye_mcp.mosaic_eval.result import Bound
from hawkeye_mcp.workloads import Size, find

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command()
def evaluate(
    workload: options.WorkloadOption,
    kernel: options.KernelOption,
    tpu: options.TpuOption = DEFAULT_TPU,
    size: Annotated[
        str, typer.Option("--size", callback=options.size, help="check, or full, which takes minutes.")
    ] = "check",
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=20, help="Fresh draws of the inputs.")] = 1,
    as_json: options.JsonOption = False,
) -> None:
    """Run the Mosaic kernels of a candidate's artifact for the TPU, operation by operation on the CPU, and put the
    workload's gate to the results.

    Exit code: 0 agrees, 1 any other outcome, 2 wrong usage, 3 the harness failed.
    """
    subject = find(workload)

    async def judge(progress: Callable[[str], None]) -> Bound:
        return await run.evaluate(kernel, subject, tpu, size=cast(Size, size), seeds=seeds, progress=progress)

    try:
        found = running.judged(judge, passed_on=(run.NotTraced,), stopped="nothing was found yet")
    except run.NotTraced as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(running.EXIT_OTHER_VERDICT) from None
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        place = f" In {found.where}." if found.where else ""
        typer.echo(f"{found.outcome}: {found.message}{place}")
        typer.echo(f"{found.seeds} draw(s) at {size} size, {found.seconds:.1f} s.")
    raise typer.Exit(0 if found.outcome == "agrees" else running.EXIT_OTHER_VERDICT)


if __name__ == "__main__":
    app()

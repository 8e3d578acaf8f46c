"""`hawkeye verify-port`, `compare-structure` and `reference-facts`: is a port the program that it stands for?"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.commands import options, running

if TYPE_CHECKING:
    from rich.console import Console

    from hawkeye_mcp.intake.facts import ReferenceFacts
    from hawkeye_mcp.intake.job import Job
    from hawkeye_mcp.intake.port_gates import Compared
    from hawkeye_mcp.intake.verify_port import Verified

JobFile = Annotated[
    Path, typer.Argument(metavar="JOB.json", help="The job file; its program is run once, and what it gives is kept.")
]
PortOption = Annotated[
    str | None,
    typer.Option(
        "--port",
        parser=options.read_kernel,
        metavar="FILE",
        help="JAX file that defines workload(...). Default: the job's own.",
    ),
]
Found = TypeVar("Found")
_STOPPED = "nothing was found yet"


def verify_port(job: JobFile, port: PortOption = None, as_json: options.JsonOption = False) -> None:
    """Hold a port's results against those recorded of the job's program.

    Every output of every trial: shape, dtype, NaN and infinities, and |difference| <= atol + rtol * |recorded| as the
    job's `correctness` says. The port is traced in the sandbox; its text never runs elsewhere.

    Exit code: 0 it agrees, 1 it does not or a program cannot be run, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp import state

    declared, source = _subject(job, port)

    async def judge(progress: Callable[[str], None]) -> "Verified":
        from hawkeye_mcp.intake.port_gates import verified

        return await verified(source, declared, state.folder(), progress)

    found = _judged(judge)
    typer.echo(found.model_dump_json(indent=2)) if as_json else _show_values(found, running.console())
    raise typer.Exit(0 if found.passed else running.EXIT_OTHER_VERDICT)


def compare_structure(job: JobFile, port: PortOption = None, as_json: options.JsonOption = False) -> None:
    """Hold a port's operations against those of the job's program: axes, constants, dtypes.

    identical: the same operations on the same operands. equivalent: but for layout, and spelling that changes nothing
    but roundings. divergent: anything else, with the operations at which the two part; "-" is the program's, "+" the port's.

    Exit code: 0 identical or equivalent, 1 divergent or there is no structure to compare with, 2 wrong usage, 3 the harness
    failed.
    """
    from hawkeye_mcp import state

    declared, source = _subject(job, port)

    async def judge(progress: Callable[[str], None]) -> "Compared":
        from hawkeye_mcp.intake.port_gates import compared

        return await compared(source, declared, state.folder(), progress)

    found = _judged(judge)
    typer.echo(found.model_dump_json(indent=2)) if as_json else _show_structure(found, running.console())
    raise typer.Exit(0 if found.passed else running.EXIT_OTHER_VERDICT)


def reference_facts(
    workload: Annotated[
        str,
        typer.Option(
            "--workload", metavar="NAME", callback=options.workload, help="A name, or a folder's path such as ./mine/."
        ),
    ],
    tpu: options.TpuOption = DEFAULT_TPU,
    hlo: Annotated[
        Path | None,
        typer.Option(
            "--hlo", metavar="OUT", callback=options.picture, help="Also write the whole optimised program here."
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Say what a workload's own JAX computes, and what the TPU's compiler makes of it.

    Operations, reductions, contractions and constants of its jaxpr; fusions, layouts, copies, custom calls and HBM bytes of
    the program that libtpu compiles for the chip at full size, never of another compiler's.

    Exit code: 0, 1 the compiler refuses the program, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp.workloads import find

    subject = find(workload)

    async def judge(progress: Callable[[str], None]) -> "ReferenceFacts":
        from hawkeye_mcp.intake.facts import facts_of

        return await facts_of(subject, tpu, progress)

    found = running.judged(judge, stopped=_STOPPED)
    if hlo and found.hlo_text:
        _write(hlo, found.hlo_text)
    typer.echo(found.model_dump_json(indent=2)) if as_json else _show_facts(found, running.console())
    raise typer.Exit(0 if found.hlo else running.EXIT_OTHER_VERDICT)


def _write(file: Path, text: str) -> None:
    from hawkeye_mcp.state import write_atomically

    try:
        write_atomically(file, text)
    except OSError as error:
        typer.echo(f"The program could not be written to {file}: {error.strerror}. Give --hlo another file.", err=True)
        raise typer.Exit(running.EXIT_HARNESS) from None


def _subject(job: Path, port: str | None) -> "tuple[Job, str]":
    """The job, and the text of the port."""
    from hawkeye_mcp.intake import report, rules, show

    try:
        declared = rules.load(job) if port is None else rules.load_program(job)
    except report.InvalidJob as error:
        typer.echo(show.report(error.report), err=True)
        raise typer.Exit(error.report.exit_code) from None
    if port is None and declared.conversion.port:
        port = options.read_kernel(declared.conversion.port)
    if port is None:
        raise typer.BadParameter("the job names no port (conversion.port): name its file here.", param_hint="--port")
    return declared, port


def _judged(judge: Callable[[Callable[[str], None]], Awaitable[Found]]) -> Found:
    from hawkeye_mcp.intake.capture import CaptureFailed
    from hawkeye_mcp.intake.captures import NothingToRecord

    try:
        return running.judged(judge, passed_on=(CaptureFailed, NothingToRecord), stopped=_STOPPED)
    except CaptureFailed as error:
        if error.output.strip():
            typer.echo(f"The end of what the program printed:\n{error.output.strip()[-2000:]}\n", err=True)
        typer.echo(f"The job's own program could not be recorded: {error.message}\n{error.fix}", err=True)
    except NothingToRecord as error:
        typer.echo(str(error), err=True)
    raise typer.Exit(running.EXIT_OTHER_VERDICT)


def _show_values(found: "Verified", console: "Console") -> None:
    console.print(f"{found.status}: {found.message}", markup=False)
    for text in [*found.problems[1:], *found.notes]:
        console.print(f"  {text}", markup=False)
    for one in found.outputs:
        worst = "" if one.max_abs_error is None else f", largest |difference| {one.max_abs_error:.3g}"
        console.print(
            f"  output {one.index} {one.dtype}{one.shape}: {one.failing} of {one.elements} elements wrong{worst}",
            markup=False,
        )
    console.print(found.next_step, markup=False)


def _show_structure(found: "Compared", console: "Console") -> None:
    console.print(f"{found.status}: {found.message}", markup=False)
    for number, one in enumerate(found.compared):
        at = " and ".join(one.sizes)
        if number:  # one text is seldom wrong in two ways
            console.print(f"At {at} size: {one.comparison.verdict}; --json says where.", markup=False)
            continue
        console.print(f"\nAt {at} size: {one.comparison.verdict}", markup=False)
        for line in one.comparison.differences:
            console.print(f"  {line}", markup=False, soft_wrap=True)
        for kind, counts in one.comparison.counted.items():
            for sign, lines in (("-", counts.reference), ("+", counts.candidate)):
                for line in lines:
                    console.print(f"  {kind}: {sign} {line}", markup=False, soft_wrap=True)
    console.print(f"\n{found.next_step}", markup=False)


def _show_facts(found: "ReferenceFacts", console: "Console") -> None:
    program = found.program
    console.print(f"{found.workload}: {', '.join(program.inputs)} -> {', '.join(program.outputs)}", markup=False)
    counted = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in program.operations.items())
    console.print(f"operations: {counted}", markup=False)
    for kind in ("reductions", "contractions", "casts", "constants", "loops"):
        if lines := getattr(program, kind):
            console.print(f"{kind}:", *(f"  {line}" for line in lines), sep="\n", markup=False, soft_wrap=True)
    console.print(f"jaxpr: {found.jaxpr_characters} characters, about {found.jaxpr_tokens} tokens", markup=False)
    console.print(f"\n{found.hlo_source}:", markup=False)
    if found.hlo is None:
        console.print(found.hlo_problem, markup=False)
        return
    _show_hlo(found, console)


def _show_hlo(found: "ReferenceFacts", console: "Console") -> None:
    hlo = found.hlo
    assert hlo
    for one in hlo.operations:
        does = f" ({', '.join(one.does)})" if one.does else ""
        cycles = f", {one.xla_cycles} cycles by XLA's estimate" if one.xla_cycles else ""
        times = "" if one.times == 1 else f", {one.times or 'an unknown number of'} times"
        console.print(
            f"  {one.kind} {one.name}{does}: {one.hbm_bytes} HBM bytes{cycles}{times} -> {one.result}",
            markup=False, soft_wrap=True,
        )  # fmt: skip
    if hlo.operation_count > len(hlo.operations):
        console.print(f"  ... and {hlo.operation_count - len(hlo.operations)} more", markup=False)
    for name, value in (("custom calls", hlo.custom_calls), ("copies", hlo.copies)):
        if value:
            shown = [f"{key} x{count}" for key, count in value.items()] if isinstance(value, dict) else value
            console.print(f"  {name}: {', '.join(shown)}", markup=False, soft_wrap=True)
    console.print(f"  HBM bytes: {hlo.hbm_bytes} at least; temporary memory: {found.temp_bytes}", markup=False)

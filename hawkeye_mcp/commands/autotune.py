"""`hawkeye autotune`: search over named integer constants of a kernel file."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.commands import options, remote, running

if TYPE_CHECKING:
    from hawkeye_mcp.autotune.model import Autotuned, Strategy
    from hawkeye_mcp.autotune.request import Request
    from hawkeye_mcp.autotune.space import Space
    from hawkeye_mcp.hosts.connection import Link
    from hawkeye_mcp.hosts.health import Health

Progress = Callable[[str], None]
_STRATEGIES = ("grid", "random", "halving", "tpe")


def _strategy(name: str | None) -> str | None:
    return None if name is None else options.one_of(name, _STRATEGIES)


def autotune(
    workload: options.WorkloadOption,
    kernel: options.KernelOption,
    space: Annotated[
        Path | None,
        typer.Option(
            "--space",
            metavar="SPACE.json",
            help='{"parameters": {"BLOCK_M": [128, 256]}, "constraints": ["BLOCK_M * BLOCK_K <= 65536"]}',
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=V,V,...", help="Values of one constant; repeatable, instead of --space."),
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option("--constraint", metavar="EXPR", help="A condition over the names; repeatable, with --param."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            callback=_strategy,
            metavar="NAME",
            help="grid: all points. random: some. halving: some, all estimated, and those predicted that are among the best "
            "third of the estimates so far. tpe: some, chosen by the times of the others. Default: halving; on a host, which makes "
            "no estimates, grid.",
        ),
    ] = None,
    points: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Points to look at; default: all of a grid, else up to 64.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0.0, help="Take up no new point after so long; the best is judged.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Of the order of points.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Points at a time; default: one for every two cores.")
    ] = None,
    tpu: options.TpuOption = DEFAULT_TPU,
    host: remote.HostOption = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            "--run-dir", metavar="DIR", file_okay=False, help="Where the search is kept; default: in the state folder."
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            "--png", metavar="OUT", callback=options.picture, help="Also draw a heat map: a PNG file to write."
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Find better values for named integers of a kernel.

    The names are module-level lines such as BLOCK_M = 128 of the kernel file. Each point is that file with other numbers,
    compiled by the TPU compiler and predicted; the best is then judged in full on fresh seeds, and so is the file as it
    is, which is never changed. What the compiler refuses is left out and shown. Stopped, it keeps what it knows: the same
    command goes on from there. DIR holds points.jsonl, result.json and best_kernel.py.

    Exit code: 0 a correct winner, 1 none, 2 wrong usage, 3 the harness failed.
    """
    from hawkeye_mcp.autotune.request import Request
    from hawkeye_mcp.workloads import find

    if host and strategy == "halving":
        raise typer.BadParameter("a host makes no estimates: choose grid, random or tpe.", param_hint="--strategy")
    chosen = cast("Strategy", strategy or ("grid" if host else "halving"))
    request = Request(kernel, find(workload), tpu, _space(space, param, constraint), chosen, points, seed, seconds)
    _check(request)
    folder = (run_dir or _default_folder(request)).resolve()
    jobs = jobs or max(1, len(os.sched_getaffinity(0)) // 2)
    with _told():
        found = _there(host, request, folder, jobs, as_json) if host else _here(request, folder, jobs)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        from hawkeye_mcp.autotune import text

        text.autotuned(found, running.console())
    if png:
        from hawkeye_mcp.autotune import heat_map

        running.save(png, heat_map.png(found))
    raise typer.Exit(0 if found.best else running.EXIT_OTHER_VERDICT)


def _space(file: Path | None, param: list[str] | None, constraint: list[str] | None) -> "Space":
    from hawkeye_mcp.autotune.space import BadSpace, checked, parse

    if bool(file) == bool(param):
        raise typer.BadParameter("give either --space or --param, at least once.", param_hint="--space")
    if file and constraint:
        raise typer.BadParameter("the file of --space holds the constraints.", param_hint="--constraint")
    try:
        if file:
            return parse(file.read_text(encoding="utf-8-sig"))
        given = [_values(text) for text in param or ()]
        if len(parameters := dict(given)) < len(given):
            raise typer.BadParameter("it names a constant twice: write all its values at once.", param_hint="--param")
        return checked({"parameters": parameters, "constraints": constraint or []})
    except BadSpace as error:
        raise typer.BadParameter(str(error), param_hint="--space" if file else "--param") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise typer.BadParameter(f"{file} cannot be read: {why}.", param_hint="--space") from None


def _values(text: str) -> tuple[str, list[int]]:
    name, _, values = text.partition("=")
    try:
        return name.strip(), [int(value) for value in values.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: write a name and whole numbers, such as BLOCK_M=128,256.", param_hint="--param"
        ) from None


def _check(request: "Request") -> None:
    """Whatever is wrong with the request is wrong usage, said before anything starts."""
    from hawkeye_mcp.autotune.parameters import NoParameter
    from hawkeye_mcp.autotune.space import BadSpace

    try:
        request.planned()
    except NoParameter as error:
        raise typer.BadParameter(str(error), param_hint="--kernel") from None
    except BadSpace as error:
        raise typer.BadParameter(str(error)) from None


def _default_folder(request: "Request") -> Path:
    """One for each kernel text, workload and chip, so that the same command finds what it left."""
    from hawkeye_mcp import state
    from hawkeye_mcp.kernels import sha256

    name = f"{request.workload.name}-{request.tpu}-{sha256(request.source)[:12]}"
    return state.folder() / "autotune" / name


@contextmanager
def _told() -> Iterator[None]:
    """A folder that cannot be had ends the process."""
    from hawkeye_mcp.autotune.store import Busy, Unusable

    try:
        yield
    except Busy as error:
        raise typer.BadParameter(str(error), param_hint="--run-dir") from None
    except Unusable as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(running.EXIT_HARNESS) from None


def _saying(progress: Progress) -> Progress:
    def say(text: str) -> None:
        progress(text)
        typer.echo(text, err=True)

    return say


def _here(request: "Request", folder: Path, jobs: int) -> "Autotuned":
    from hawkeye_mcp.autotune.search import search
    from hawkeye_mcp.autotune.store import Busy, Unusable
    from hawkeye_mcp.pool import fingerprint

    async def judge(progress: Progress) -> "Autotuned":
        from hawkeye_mcp.evaluation import Evaluation
        from hawkeye_mcp.judge.evaluate import open_judge

        async with open_judge(warm=request.tpu) as opened:

            async def evaluate(source: str) -> Evaluation:
                return await opened.evaluate(source, request.workload, request.tpu, progress=progress)

            known = fingerprint(request.workload)
            return await search(request, opened, evaluate, folder, known, jobs=jobs, progress=_saying(progress))

    return running.judged(judge, passed_on=(Busy, Unusable), stopped=running.KEPT)


def _there(host: str, request: "Request", folder: Path, jobs: int, as_json: bool) -> "Autotuned":
    """The search runs here, and one host looks at every point and judges what is judged."""
    from hawkeye_mcp.autotune.search import search
    from hawkeye_mcp.autotune.store import Busy, Unusable
    from hawkeye_mcp.hosts.errors import HostFailed
    from hawkeye_mcp.hosts.judge import HostJudge
    from hawkeye_mcp.judge.verdict import leaves
    from hawkeye_mcp.pool import fingerprint

    async def work(link: "Link", health: "Health", progress: Progress) -> "Autotuned":
        judge = HostJudge(link, remote.tell)
        # What was found by another host, or another judge on it, is looked at again.
        there = [link.host.address, health.versions.model_dump_json(), health.judge, fingerprint(request.workload)]
        known = hashlib.sha256("\0".join(there).encode()).hexdigest()
        evaluate = partial(judge.evaluate, workload=request.workload, tpu=request.tpu)
        try:
            found = await search(request, judge, evaluate, folder, known, jobs=jobs, progress=_saying(progress))
        except ExceptionGroup as group:
            raise next((e for e in leaves(group) if isinstance(e, HostFailed)), group) from None
        remote.tell(f"{link.name} ({link.host.address}; {remote.attached(health.tpus)}) looked at them")
        return found

    return remote.on_one(
        host, request.workload, request.tpu, work, as_json=as_json, stopped=running.KEPT, passed_on=(Busy, Unusable)
    )

"""Options and arguments that commands share, checked before anything heavy starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hawkeye_mcp import clients, conditions, kernels
from hawkeye_mcp.chips import TPUS

PARTS = ("all", "guide", "naive", "optimized", "config")
SIZES = ("check", "full")


def tpu(value: str) -> str:
    return one_of(value, TPUS)


def tpus(values: list[str] | None) -> list[str]:
    return list(dict.fromkeys(tpu(value) for value in values or TPUS))


def workload(name: str) -> str:
    from hawkeye_mcp import workloads

    try:
        return workloads.find(name).reference
    except workloads.UnknownWorkload as error:
        raise typer.BadParameter(str(error)) from None


def workload_to_score(name: str) -> str:
    from hawkeye_mcp import workloads

    try:
        return workloads.find_to_score(name).reference
    except workloads.UnknownWorkload as error:
        raise typer.BadParameter(str(error)) from None


def optional_workload(name: str | None) -> str | None:
    return None if name is None else workload(name)


def workloads(names: list[str] | None) -> list[str]:
    from hawkeye_mcp import workloads

    return list(dict.fromkeys(workload(name) for name in names or workloads.names()))


def shipped(names: list[str] | None) -> list[str]:
    found = workloads(names)
    if own := [name for name in found if "/" in name]:
        raise typer.BadParameter(f"{own[0]} is not shipped: its baseline is predicted when it is first needed.")
    return found


def client(name: str) -> str:
    return one_of(name, clients.CLIENTS)


def condition(name: str) -> str:
    return one_of(name, conditions.CONDITIONS)


def part(name: str) -> str:
    return one_of(name, PARTS)


def size(name: str) -> str:
    return one_of(name, SIZES)


def picture(file: Path | None) -> Path | None:
    if file and (file.is_dir() or not file.parent.is_dir()):
        raise typer.BadParameter(f"{file} cannot be written: it must name a file in a folder that exists.")
    return file


def one_of(value: str, legal: Sequence[str] | dict[str, clients.Client]) -> str:
    if value not in legal:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(legal)}.")
    return value


def read_kernel(name: str) -> str:
    """The text of a kernel file.

    Raises:
        typer.BadParameter: missing, unreadable, too large or not UTF-8.
    """
    try:
        return kernels.read(Path(name))
    except kernels.UnreadableKernel as error:
        raise typer.BadParameter(f"{name} {error}") from None


WorkloadOption = Annotated[
    str,
    typer.Option(
        "--workload",
        metavar="NAME",
        callback=workload_to_score,
        help="What to compute: a name of `hawkeye workloads list`, or the path of a folder, such as ./mine/.",
    ),
]
KernelOption = Annotated[
    str,
    typer.Option("--kernel", parser=read_kernel, metavar="FILE", help="Python file that defines workload(...)."),
]
TpuOption = Annotated[str, typer.Option("--tpu", metavar="CHIP", callback=tpu, help=f"Chip: {', '.join(TPUS)}.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]

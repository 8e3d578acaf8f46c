"""Whether the files that a job names are there, and are what it says they are. They are read, never run."""

from pathlib import Path

from hawkeye_mcp import kernels
from hawkeye_mcp.intake import python_source
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.parsing import NotPython
from hawkeye_mcp.intake.python_source import PythonSource
from hawkeye_mcp.intake.report import MissingPath, Problem


def missing(paths: dict[str, str], folder: Path) -> tuple[list[MissingPath], list[Problem]]:
    """Of the files that fields name: which are not there, and which are there and no files that can be read."""
    absent, unusable = [], []
    for field, name in paths.items():
        path = (folder / name).absolute()
        try:
            if not path.exists():
                absent.append(MissingPath(field=field, path=str(path)))
            elif not path.is_file():
                unusable.append(Problem(field=field, message=f"{path} is no regular file.", fix="Name a source file."))
            else:
                kernels.read(path)
        except kernels.UnreadableKernel as error:
            unusable.append(Problem(field=field, message=f"{path} {error}", fix="Name a source file that can be read."))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            unusable.append(
                Problem(field=field, message=f"{name[:80]!r} is no path: {why}.", fix="Name a source file.")
            )
    return absent, unusable


def problems(job: Job) -> list[Problem]:
    """What a job says of its Python files that they do not define. Files that are missing or unreadable are passed over."""
    kind = job.input.type
    found: list[Problem] = []
    if kind in ("jax", "pytorch") and job.input.path:
        found += _of_source(job, job.input.path)
    made_from = "conversion.port" if kind != "specification" else "input.specification.baseline"
    named = job.conversion.port if kind != "specification" else job.made_from
    if named and (text := _text(named)) is not None:
        found += _defines(made_from, named, text, {"workload": "the JAX function that is judged"})
        found = found or _said_twice(job, named, text)
    return found


def _said_twice(job: Job, path: str, text: str) -> list[Problem]:
    """Constants of the specification that the JAX file also gives a value: which of the two holds cannot be told."""
    constants = job.input.specification.constants if job.input.specification else {}
    return [
        Problem(
            field=f"input.specification.constants.{name}",
            message=f"{path} also gives {name} a value.",
            fix="Remove it from constants, or from the file.",
        )
        for name in constants
        if name in python_source.read(text).names
    ]


def _of_source(job: Job, path: str) -> list[Problem]:
    text = _text(path)
    if text is None:
        return []
    wanted = {job.input.entry: "input.entry_point", job.input.inputs_fn: "input.inputs_fn"}
    found = _defines("input.path", path, text, wanted)
    if found:
        return found
    source = python_source.read(text)
    for size, constants in job.sizes.items():
        found += [
            Problem(
                field=f"sizes.{size}.{name}",
                message=f"{path} assigns no number to {name} at its top level.",
                fix=f"Name one that it assigns: {', '.join(source.constants) or 'it assigns none'}.",
            )
            for name in constants
            if name not in source.constants
        ]
    return list({problem.message: problem for problem in found}.values())


def _defines(field: str, path: str, text: str, wanted: dict[str, str]) -> list[Problem]:
    """wanted: names that the file must define, with what says so."""
    try:
        source = python_source.read(text)
    except NotPython as error:
        return [Problem(field=field, message=f"{path} is no Python: {error}.", fix="Mend the file, or name another.")]
    return [
        Problem(
            field=why if why.startswith("input.") else field,
            message=f"{path} does not define {name}{'' if why.startswith('input.') else f', {why}'}.",
            fix=f"Define it, or name what is meant. The file defines {_known(source)}.",
        )
        for name, why in wanted.items()
        if not source.defines(name)
    ]


def _known(source: PythonSource) -> str:
    names = [*source.classes, *source.functions]
    return ", ".join(names[:20]) or "no class and no function"


def _text(path: str) -> str | None:
    try:
        return kernels.read(Path(path))
    except (kernels.UnreadableKernel, ValueError):
        return None

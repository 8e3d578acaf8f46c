"""The files of an imported workload: `workload.py`, `workload.toml`, and what they were made from. Imports no jax.

`workload.py` is put together from checked texts (`emitted`) and from numbers; no line of a person's or an agent's own text
is in it. Arrays that the program was given rather than computed are in `workload.npz`.
"""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp.intake import declaration, emitted, one_program, precise
from hawkeye_mcp.intake.capture import ArrayCapture, Capture, Kept
from hawkeye_mcp.intake.declaration import Declaration, Declared
from hawkeye_mcp.intake.inputs_source import SIZES, Argument, NotWritten, create_inputs, is_kept, two_are_kept
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.workloads import Size, Tolerance

_COUNTED = "products and elementwise operations of the traced program"
_HEADER = '''\
"""Written by `hawkeye job import` from a traced program; agents see all of it but create_inputs and oracle."""

'''


@dataclass(frozen=True)
class Program:
    """A program at one size: its emitted source, and the arrays of its own that it takes after its arguments.

    Of a narrow floating-point type an array is here as unsigned integers; dtypes says what it is.
    """

    text: str
    constants: Mapping[str, NDArray[Any]]
    dtypes: Mapping[str, str]


def captured(capture: Capture, goldens: Path) -> dict[Size, Program]:
    """The programs that a capture holds.

    Raises:
        NotWritten: it holds none, or its arrays cannot be read.
    """
    found: dict[Size, Program] = {}
    with _arrays(goldens) as arrays:
        for size in SIZES:
            of = capture.sizes[size]
            if of.program is None:
                raise NotWritten("The capture holds no program.", "Set conversion.method to `port` and write one.")
            held = {name: arrays[key] for name, key in of.constants.items()}
            found[size] = Program(of.program, held, of.constant_dtypes)
    return found


def _arrays(goldens: Path) -> Any:
    return np.load(goldens, allow_pickle=False)


def arguments(capture: Capture, programs: Mapping[Size, Program], goldens: Path) -> list[Argument]:
    """Those of the capture, then the arrays of the programs' own."""
    found = []
    with _arrays(goldens) as arrays:
        for full, check in zip(capture.sizes["full"].arrays, capture.sizes["check"].arrays, strict=True):
            both: dict[Size, ArrayCapture] = {"full": full, "check": check}
            kept = {size: arrays[of.draw.key] for size, of in both.items() if isinstance(of.draw, Kept)}
            if kept and len(kept) < len(both):
                raise NotWritten(
                    f"{full.name} is kept as recorded at one size and drawn at the other.",
                    "Make the program give it alike at both sizes.",
                )
            draws = {size: None if isinstance(of.draw, Kept) else of.draw for size, of in both.items()}
            shapes = {size: of.shape for size, of in both.items()}
            found.append(Argument(full.name, full.role, shapes, full.dtype, draws, kept))
    for name, value in programs["full"].constants.items():
        other = programs["check"].constants.get(name)
        if other is None or other.ndim != value.ndim:
            break
        shapes = {"full": value.shape, "check": other.shape}
        of = programs["full"].dtypes[name]
        found.append(Argument(name, "constant", shapes, of, dict.fromkeys(SIZES), {"full": value, "check": other}))
    if len(found) != len(capture.sizes["full"].arrays) + len(programs["full"].constants) or (
        programs["full"].constants.keys() != programs["check"].constants.keys()
    ):
        raise NotWritten(
            "The program holds other arrays of its own at one size than at the other.",
            "Make them arguments, or compute them from shapes.",
        )
    return found


def python(given: Sequence[Argument], programs: Mapping[Size, Program], constants: dict[Size, dict[str, int]]) -> str:
    """The text of `workload.py`.

    Raises:
        NotWritten: the programs are not what emit writes, or cannot be told apart.
    """
    dtypes = [argument.dtype for argument in given]
    shapes = {size: [argument.shapes[size] for argument in given] for size in SIZES}
    try:
        texts: dict[Size, str] = {}
        oracles: dict[Size, str] = {}
        for size in SIZES:
            names = emitted.check(programs[size].text)
            if len(names) != len(given):
                raise emitted.NotEmitted(
                    f"The emitted program takes {len(names)} arguments and must take {len(given)}."
                )
            texts[size] = programs[size].text
            oracles[size] = precise.widened(texts[size], dtypes)
        workload = one_program.merged(texts, shapes, constants)
        oracle = one_program.merged(oracles, shapes, constants)
    except emitted.NotEmitted as error:
        raise NotWritten(f"{error}", "Nothing was written: what traces a program must not be touched by it.") from None
    except precise.NotWidened as error:
        raise NotWritten(f"The oracle cannot be made in float32: {error}.", "Nothing was written.") from None
    except one_program.NotOne as error:
        raise NotWritten(
            f"The two sizes cannot be one workload: {error}.", "Change lengths alone in `sizes`."
        ) from None
    draws = create_inputs(given, constants)
    return head(kept=is_kept(given)) + "\n\n".join([draws, workload, oracle])


def head(*, kept: bool) -> str:
    """What `workload.py` begins with. kept: whether it reads arrays from beside it."""
    imports = ["import jax"] + (["import numpy as np"] if kept else [])
    imports += ["from jax import lax", "from jax import numpy as jnp"]
    first = ["from pathlib import Path", ""] if kept else []
    return _HEADER + "\n".join([*first, *imports]) + "\n\n\n"


def constants(job: Job) -> dict[Size, dict[str, int]]:
    """The job's constants that may be lengths."""
    return {
        size: {name: value for name, value in job.sizes[size].items() if type(value) is int and value > 0}
        for size in SIZES
    }


def declared(
    job: Job, capture: Capture, given: Sequence[Argument], flops: float | None, tolerance: Tolerance
) -> Declaration:
    """What `workload.toml` will say."""
    inputs = [Declared(a.name, a.shapes["full"], a.shapes["check"], a.dtype, _what(a)) for a in given]
    both = list(zip(capture.sizes["full"].outputs, capture.sizes["check"].outputs, strict=True))
    outputs = [
        Declared("out" if len(both) == 1 else f"out_{number}", full.shape, check.shape, full.dtype)
        for number, (full, check) in enumerate(both)
    ]
    taken = {a.name for a in given}
    outputs = [Declared(o.name + "_" * (o.name in taken), o.full, o.check, o.dtype) for o in outputs]
    source = Path(job.input.path).name if job.input.path else "a specification"
    made = {"torchax": "by torchax", "golden": "from a port", "jax": "from JAX"}[capture.route]
    what = _COUNTED if flops else "unknown: how often a loop runs is not"
    return Declaration(
        summary=job.description.strip().split("\n")[0] or f"{job.name}, as {source} computes it.",
        source=f"{source} (sha256 {capture.source_sha256}), imported {made}; it is in source/ beside this file",
        changed=" ".join(capture.notes),
        inputs=inputs,
        outputs=outputs,
        constants=constants(job),
        flops=flops or 0,
        flops_what=what,
        tolerance=tolerance,
        approval=job.needs_approval,
    )


def with_flops(declared_: Declaration, flops: float) -> Declaration:
    """The same with operations that were counted in the written program."""
    return replace(declared_, flops=flops, flops_what=_COUNTED)


def _what(argument: Argument) -> str:
    parts = (
        []
        if argument.role == "input"
        else [{"constant": "an array of the program's own"}.get(argument.role, f"a {argument.role}")]
    )
    if argument.kept and argument.role != "constant":
        parts.append("always the values that were recorded")
    if argument.kept and "int" in argument.dtype and argument.kept["full"].size:
        parts.append(f"each in [{argument.kept['full'].min()}, {argument.kept['full'].max()}]")
    return f"({', '.join(parts)})" if parts else ""


def toml(declared_: Declaration) -> str:
    """The text of `workload.toml`."""
    total = sum(math.prod(array.full) * itemsize(array.dtype) for array in (*declared_.inputs, *declared_.outputs))
    return declaration.text(declared_, total)


def itemsize(dtype: str) -> int:
    """Bytes of an element."""
    import ml_dtypes

    return int(np.dtype(getattr(ml_dtypes, dtype, dtype)).itemsize)


def write_arrays(given: Sequence[Argument], path: Path) -> None:
    """`workload.npz`, if anything is kept."""
    arrays: dict[str, NDArray[Any]] = {}
    for argument in given:
        if two_are_kept([argument]):
            arrays |= {f"{size}/{argument.name}": argument.kept[size] for size in SIZES}
        elif argument.kept:
            arrays[argument.name] = argument.kept["full"]
    if arrays:
        np.savez(path, **arrays)  # type: ignore[arg-type]


def write_sources(job: Job, into: Path) -> None:
    """The files that the program was made from, for people, and the job file with their places here.

    Raises:
        OSError: one cannot be read.
    """
    places: dict[str, str] = {}
    (into / "source").mkdir()
    for field, path in job.paths().items():
        if field.startswith("references"):
            continue
        name = Path(path).name
        while (into / "source" / name).exists():
            name = f"{field.split('.')[-1]}_{name}"
        shutil.copyfile(path, into / "source" / name)
        places[field] = f"source/{name}"
    told = job.model_dump(mode="json", by_alias=True, exclude_none=True)
    for field, place in places.items():
        *parents, last = field.split(".")
        table = told
        for parent in parents:
            table = table[parent]
        table[last] = place
    (into / "job.json").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

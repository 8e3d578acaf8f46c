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
from hawkeye_mcp.intake.capture import ArrayCapture, Capture, Draw, Kept, Normal, Uniform
from hawkeye_mcp.intake.declaration import Declaration, Declared
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.workloads import Size, Tolerance

SIZES: tuple[Size, ...] = ("full", "check")
ARRAYS = "workload.npz"  # pool.fingerprint covers workload.*
_COUNTED = "products and elementwise operations of the traced program"
_HEADER = '''\
"""Written by `hawkeye job import` from a traced program; agents see all of it but create_inputs and oracle."""

'''


class NotWritten(Exception):
    """No workload can be made of the program; message: why. fix: what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"{message} {fix}")
        self.message, self.fix = message, fix


@dataclass(frozen=True)
class Program:
    """A program at one size: its emitted source, and the arrays of its own that it takes after its arguments.

    Of a narrow floating-point type an array is here as unsigned integers; dtypes says what it is.
    """

    text: str
    constants: Mapping[str, NDArray[Any]]
    dtypes: Mapping[str, str]


@dataclass(frozen=True)
class Argument:
    """An argument at both sizes. kept: where `workload.npz` has its values, by size; empty for what is drawn."""

    name: str
    role: str
    shapes: Mapping[Size, tuple[int, ...]]
    dtype: str
    draws: Mapping[Size, Draw | None]
    kept: Mapping[Size, NDArray[Any]]


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
    draws = _create_inputs(given, constants)
    imports = ["import jax"] + (["import numpy as np"] if _kept(given) else [])
    imports += ["from jax import lax", "from jax import numpy as jnp"]
    first = ["from pathlib import Path", ""] if _kept(given) else []
    return _HEADER + "\n".join([*first, *imports]) + "\n\n\n" + "\n\n".join([draws, workload, oracle])


def _kept(given: Sequence[Argument]) -> bool:
    return any(argument.kept for argument in given)


def _create_inputs(given: Sequence[Argument], constants: dict[Size, dict[str, int]]) -> str:
    """The function that draws inputs: fresh values, or those that are kept."""
    sizes, shapes = _dimensions(given, constants)
    drawn = [argument for argument in given if not argument.kept]
    lines = ["def create_inputs(key, size):"]
    if drawn:
        lines.append(f"    keys = jax.random.split(key, {len(drawn)})")
    if _kept(given):
        lines.append(f'    kept = np.load(Path(__file__).with_name("{ARRAYS}"))')
    if _two_kept(given) or any(a.draws["full"] != a.draws["check"] for a in drawn):
        name, length = next(iter(sizes["full"].items()), ("", 0))
        if not name:
            raise NotWritten(
                "At the two sizes other values are drawn or kept, and no length of an argument tells which size it is.",
                "Change a length in `sizes`.",
            )
        lines.append(f'    full = size["{name}"] == {length}')
    lines.append("    return (")
    for argument in given:
        if argument.kept:
            where = f'"{argument.name}"'
            if _two_kept([argument]):
                where = f'"full/{argument.name}" if full else "check/{argument.name}"'
            value = f"jnp.asarray(kept[{where}])"
            if precise.is_narrow(argument.dtype):
                value = f"lax.bitcast_convert_type({value}, jnp.{argument.dtype})"
        else:
            value = _drawn(argument, drawn.index(argument), shapes[argument.name])
        lines.append(f"        {value},  # {argument.name}")
    return "\n".join([*lines, "    )"]) + "\n"


def _two_kept(given: Sequence[Argument]) -> bool:
    """Whether an array that is kept is another at the two sizes."""
    return any(a.kept and not np.array_equal(a.kept["full"], a.kept["check"]) for a in given)


def _drawn(argument: Argument, index: int, shape: Sequence[int | str]) -> str:
    lengths = [f'size["{length}"]' if isinstance(length, str) else str(length) for length in shape]
    said = f"({lengths[0]},)" if len(lengths) == 1 else f"({', '.join(lengths)})"
    value = _distribution(f"keys[{index}], {said}", argument.draws["full"], argument.draws["check"])
    return value if argument.dtype == precise.WIDE else f"({value}).astype(jnp.{argument.dtype})"


def _distribution(given: str, full: Draw | None, check: Draw | None) -> str:
    """An expression; where the two sizes differ in a number, `full` in it tells which it is."""
    if isinstance(full, Normal) and isinstance(check, Normal):
        scaled = f"jax.random.normal({given})"
        if (full.std, check.std) != (1, 1):
            scaled += f" * {_either(full.std, check.std)}"
        return scaled + (f" + {_either(full.mean, check.mean)}" if full.mean or check.mean else "")
    if isinstance(full, Uniform) and isinstance(check, Uniform):
        low, high = _either(full.low, check.low), _either(full.high, check.high)
        return f"jax.random.uniform({given}, minval={low}, maxval={high})"
    assert full and check
    return f"({_distribution(given, full, full)} if full else {_distribution(given, check, check)})"


def _either(full: float, check: float) -> str:
    return repr(full) if full == check else f"({full!r} if full else {check!r})"


def _dimensions(
    given: Sequence[Argument], constants: dict[Size, dict[str, int]]
) -> tuple[dict[Size, dict[str, int]], dict[str, list[int | str]]]:
    arrays = [Declared(a.name, a.shapes["full"], a.shapes["check"], a.dtype) for a in given]
    return declaration.dimensions(_declaration(arrays, (), constants))


def _declaration(
    inputs: Sequence[Declared], outputs: Sequence[Declared], constants: dict[Size, dict[str, int]]
) -> Declaration:
    nothing = Tolerance(metric="E", limit=1, reason="")
    return Declaration("", "", "", inputs, outputs, constants, 0, "", nothing)


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
    inputs = [
        Declared(a.name, a.shapes["full"], a.shapes["check"], a.dtype, _what(a, capture.sizes["full"])) for a in given
    ]
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


def _what(argument: Argument, _: Any) -> str:
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
        if _two_kept([argument]):
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

"""From what the sandbox says of a file that stands for a program to a JAX source that is recorded like a person's own.

Nobody's text is in it: programs are checked texts of `emit`, names are those of the job's tensors, and all else is written
here. At either size it holds the program twice: as it is, and with every float a float64, for results in 64 bits.
"""

import ast
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from hawkeye_mcp import state
from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.intake import precise, signature, specification, stand_in
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.imported import Gate
from hawkeye_mcp.intake.inside.record import Record
from hawkeye_mcp.intake.job import Job, Specification
from hawkeye_mcp.intake.stand_in import AtSize, StandIn
from hawkeye_mcp.intake.stand_in_reply import Array
from hawkeye_mcp.workloads import Size

SOURCE, ARRAYS = "recorded.py", "given.npz"
_AT = "_AT_SIZE"  # which of the two programs, replaced as lengths are
_NO_LIMIT_BYTES = 1 << 62  # `stand_in` bounds what there is
_SIZES: tuple[Size, ...] = ("check", "full")

_PROGRAM = '''\
"""Written from what was traced in a sandbox."""

from pathlib import Path as _Path

import jax
import jax.numpy as jnp
import numpy as _np
from jax import lax

{at} = 0
{lengths}
_arrays = _np.load(_Path(__file__).with_name("{arrays}"), allow_pickle=False)


def _array(key, dtype):
    return _arrays[key].view(jnp.dtype(dtype))


{functions}
_PROGRAMS = [
    {programs},
]


def _run(given):
    program, exact, own, declared = _PROGRAMS[{at}]
    wide = jnp.result_type(float) == jnp.float64
    if wide and not callable(exact):
        raise ValueError(exact)
    found = (exact if wide else program)(*given, *[jnp.asarray(_array(*each)) for each in own])
    found = found if isinstance(found, tuple) else (found,)
    results = [(each.shape, each.dtype.name) for each in found]
    if not wide and results != declared:
        raise ValueError(f"its results are declared as {{declared}} and come out as {{results}}")
    return found if len(found) > 1 else found[0]


def workload({arguments}):
    return _run(({arguments},))
'''
_GIVEN = """
def get_inputs(seed):
    if {at}:
        return [{full}]
    return [{check}]
"""


async def of(job: Job, brought: Job, folder: Path, progress: Callable[[str], None]) -> tuple[Job, list[Gate]]:
    """The job whose source is recorded, and what was passed on the way: a file that stands for a program goes through the
    sandbox first. What has a program, or a formula, is as it was brought.

    job: as asked for. brought: with the source of `specification`. folder: a new one.

    Raises:
        PortRefused: the file is at fault. SandboxFailed. specification.UnusableSource.
    """
    if not job.needs_approval or not job.made_from:
        return brought, []
    progress("trace the file in the sandbox")
    found = await stand_in.taken(job, Path(str(brought.input.path)).read_text(encoding="utf-8"))
    passed = f"traced in the sandbox ({isolation.isolation()}), twice alike"
    return write(job, brought, found, folder), [Gate(name="baseline", message=passed)]


def of_file(capture: Capture, brought: Job, folder: Path) -> Capture:
    """A capture that names the text of the file it came from; written into its folder too."""
    sha256 = hashlib.sha256(Path(str(brought.input.path)).read_bytes()).hexdigest()
    capture = capture.model_copy(update={"source_sha256": sha256})
    state.write_atomically(folder / "capture.json", capture.model_dump_json(indent=2) + "\n")
    return capture


def write(job: Job, brought: Job, found: StandIn, folder: Path) -> Job:
    """The job with a source of it in `folder`, which is new.

    job: as asked for. brought: with the source of `specification`, which stays where it is.
    """
    declared = job.input.specification
    assert declared
    folder.mkdir()
    arrays = Record(_NO_LIMIT_BYTES)
    different = found.sizes["full"] is not found.sizes["check"]
    functions, programs = list[str](), list[str]()
    for number, size in enumerate(_SIZES if different else _SIZES[:1]):
        of = found.sizes[size]
        own = [(arrays.add(f"{size}/own/{n}", array), array.dtype.name) for n, array in enumerate(of.own)]
        exact = _exact(declared, of, number)
        functions += [_renamed(of.program, f"_program_{number}"), *([exact[0]] if exact[0] else [])]
        results = [(of.shapes[t.name], t.dtype) for t in declared.tensors if t.role == "output"]
        programs.append(f"(_program_{number}, {exact[1]}, {own!r}, {results!r})")
    lengths = {
        size: {**found.sizes[size].lengths, _AT: number if different else 0} for number, size in enumerate(_SIZES)
    }
    text = _PROGRAM.format(
        at=_AT,
        lengths="".join(f"{name} = {value}\n" for name, value in found.sizes["full"].lengths.items()),
        arrays=ARRAYS,
        functions="\n\n".join(functions),
        programs=",\n    ".join(programs),
        arguments=", ".join(signature.arguments(declared)),
    )
    text += _given(declared, found, arrays) if found.inputs is not None else specification.inputs(declared)
    arrays.save(folder / ARRAYS)
    state.write_atomically(folder / SOURCE, text)
    change = {"path": str(folder / SOURCE), "entry_point": "workload", "inputs_fn": "get_inputs"}
    return brought.model_copy(update={"input": brought.input.model_copy(update=change), "sizes": lengths})


def _renamed(text: str, name: str) -> str:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    function.name = name
    return ast.unparse(function) + "\n"


def _exact(declared: Specification, of: AtSize, number: int) -> tuple[str, str]:
    """The program with 64 bits, and its name; or nothing, and why not, as Python text."""
    tensors = {tensor.name: tensor.dtype for tensor in declared.tensors}
    dtypes = [tensors[name] for name in signature.arguments(declared)] + [array.dtype.name for array in of.own]
    name = f"_exact_{number}"
    try:
        return precise.widened(of.program, dtypes, name, "float64"), name
    except precise.NotWidened as error:
        return "", repr(str(error))


def _given(declared: Specification, found: StandIn, arrays: Record) -> str:
    """The function that gives the file's inputs. What is drawn at full size is there as zeros, which nobody looks at."""
    assert found.inputs is not None
    dtypes = {tensor.name: tensor.dtype for tensor in declared.tensors}
    names = signature.arguments(declared)
    for seed, given in found.inputs.items():
        _add(arrays, f"given/{seed}", given)
    for place, array in found.kept.items():
        arrays.add(f"full/{place}", array)
    shapes = found.sizes["full"].shapes
    full = [
        f'_array("full/{place}", "{dtypes[name]}")'
        if place in found.kept
        else f'jnp.zeros({shapes[name]}, "{dtypes[name]}")'
        for place, name in enumerate(names)
    ]
    check = [f'_array(f"given/{{seed}}/{place}", "{dtypes[name]}")' for place, name in enumerate(names)]
    return _GIVEN.format(at=_AT, full=", ".join(full), check=", ".join(check))


def _add(arrays: Record, key: str, given: Sequence[Array]) -> None:
    for place, array in enumerate(given):
        arrays.add(f"{key}/{place}", array)

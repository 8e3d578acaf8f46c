"""Checks of many workloads, each in a worker process of its own; what is finished is kept. Imports no jax."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import platformdirs
from pydantic import ValidationError

from hawkeye_mcp import state
from hawkeye_mcp.judge import baseline, correctness
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerPool, WorkerTimeout, WorkerUnavailable
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check.report import Checked, Fit, Mutants
from hawkeye_mcp.workloads import Size, Workload

# What a result depends on: at full size no mutants are made and no power is computed.
_CHECKING: dict[Size, tuple[str, ...]] = {"full": ("audit", "declaration", "report")}
_CHECKING["check"] = (*_CHECKING["full"], "mutants", "power", "program")
MEMORY_BYTES = 12_000_000_000  # of one check's process: a machine with 16 GB can check every workload
LIMIT_S = 1800.0  # of one workload; minutes on two idle cores at full size, seconds at the check size
_AT_ONCE: dict[Size, int] = {"check": 2, "full": 1}  # a workload at full size may take half of a machine's memory
FULL_SIZE_CHIPS = ("v5e", "v6e")  # the least memory, and twice that


async def check(
    workloads: Sequence[Workload], size: Size, *, fresh: bool, done: Callable[[Checked], None]
) -> list[Checked]:
    """Check workloads, two at a time, and keep each result; the results in the order of the workloads.

    fresh: do not take results that were kept from the same code.
    """
    found: dict[str, Checked] = {}
    limit = anyio.CapacityLimiter(_AT_ONCE[size])

    async def one(workload: Workload) -> None:
        async with limit:
            path = _path(workload, size)  # before: what changes meanwhile is not what was checked
            kept = None if fresh else _read(path)
            result = kept or await _check(workload, size)
            if not kept and not result.broken:
                state.write_atomically(path, result.model_dump_json(indent=1) + "\n")
            found[workload.name] = result
            done(result)

    async with anyio.create_task_group() as tasks:
        for workload in workloads:
            tasks.start_soon(one, workload)
    return [found[workload.name] for workload in workloads]


def known(workload: Workload, size: Size) -> Checked | None:
    """The kept result of exactly this workload, checked by exactly this code."""
    return _read(_path(workload, size))


def _read(path: Path) -> Checked | None:
    with suppress(FileNotFoundError, ValidationError):
        return Checked.model_validate_json(path.read_bytes())
    return None


def _path(workload: Workload, size: Size) -> Path:
    digest = hashlib.sha256(f"{json.dumps(versions().model_dump(), sort_keys=True)} {MEMORY_BYTES}".encode())
    judging = Path(correctness.__file__)
    sources = [Path(__file__).with_name(f"{name}.py") for name in _CHECKING[size]]
    sources += [judging, judging.with_name("drawing.py")]
    for path in (*sources, *sorted(workload.folder.glob("workload.*"))):
        digest.update(path.read_bytes())
    root = Path(os.environ.get("HAWKEYE_CACHE") or platformdirs.user_cache_dir("hawkeye-mcp"))
    return root / "checks" / f"{workload.name}-{size}-{digest.hexdigest()[:16]}.json"


async def _check(workload: Workload, size: Size) -> Checked:
    try:
        found = Checked.model_validate(await _run(workload, size))
    except (WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable) as error:
        said = f"{error}"[:500]
        if not out_of_memory(error):
            return _unknown(workload, size, problem=f"the check did not finish: {said}; {_advice(error)}")
        needed = f"it needs more than the {MEMORY_BYTES / 1e9:g} GB of memory that a check may take ({said})"
        if size == "check":
            return _unknown(workload, size, problem=f"{needed}; choose smaller dimensions for the check size")
        found = _unknown(workload, size, note=f"nothing was run at full size: {needed}")
    if size == "check":
        return found
    try:
        fits = [await _fit(workload, tpu) for tpu in FULL_SIZE_CHIPS]
    except (WorkerDied, WorkerTimeout, WorkerUnavailable) as error:
        return _unknown(workload, size, problem=f"the compilation for a chip did not finish: {error}; check it again")
    problems = found.problems + [problem for fit in fits if (problem := undeclared(workload, fit))]
    return found.model_copy(update={"fits": fits, "problems": problems, "ok": not problems})


async def _run(workload: Workload, size: Size) -> dict[str, object]:
    """The check in a process of its own."""
    worker = await Worker.start("verifier")
    request = {"workload": workload.reference, "size": size, "memory_bytes": MEMORY_BYTES}
    try:
        return await worker.call("check_workload", request, LIMIT_S)
    finally:
        await worker.close()


# What is said where an allocation fails. IsConcrete: XLA's CPU client uses a buffer without asking whether there is one.
# YNNPACK: its scratch memory was refused (17p_Triangle_Multiplication at full size; with 15.9 GB it takes 12.4 and passes).
_OUT_OF_MEMORY = (
    "MemoryError", "RESOURCE_EXHAUSTED", "Out of memory", "bad_alloc", "Cannot allocate memory", "buffer_.IsConcrete()",
    "YNNPACK operation failed",
)  # fmt: skip


def out_of_memory(error: Exception) -> bool:
    """Did an allocation fail, in Python, in XLA, or with an abort? What kills a process from outside leaves no words."""
    return isinstance(error, WorkerDied | WorkerError) and any(word in str(error) for word in _OUT_OF_MEMORY)


def _advice(error: Exception) -> str:
    advice = {
        WorkerDied: "nothing says that its memory was short; code -9 is a kill from outside, as by the kernel where the "
        "machine's own memory runs out: check it again with more of it free",
        WorkerTimeout: "choose smaller dimensions",
        WorkerUnavailable: "`hawkeye doctor` says what this installation lacks",
    }
    return advice.get(type(error), "mend the workload's code")


def _unknown(workload: Workload, size: Size, *, problem: str = "", note: str = "") -> Checked:
    """Nothing was found out; problem: why the check did not come to an end, note: why it was left out."""
    return Checked(
        name=workload.name,
        ok=not problem,
        broken=bool(problem),
        size=size,
        gate=workload.tolerance.gate,
        seeds=[],
        power=None,
        honest=[],
        mutants=Mutants(caught=[], survived=[], allowed=[], equivalent=[]),
        seconds=None,
        notes=[note] if note else [],
        problems=[problem] if problem else [],
    )


async def _fit(workload: Workload, tpu: str) -> Fit:
    """Compile the baseline at full size for one chip with the real compiler, which refuses what HBM cannot hold.

    Raises WorkerDied, WorkerTimeout or WorkerUnavailable where the compiler says nothing.
    """
    compilers = WorkerPool("compiler")
    try:
        await baseline.compiled(workload, tpu, {}, compilers)
    except WorkerError as error:
        return Fit(tpu=tpu, fits=False, words=f"{error}"[:500])
    finally:
        await compilers.close()
    return Fit(tpu=tpu, fits=True)


def undeclared(workload: Workload, fit: Fit) -> str:
    """What is wrong between what the compiler says and what workload.toml does, or nothing."""
    declared = fit.tpu in workload.does_not_fit
    if fit.fits and declared:
        return f"[does_not_fit] names {fit.tpu}, and it compiles for it: remove the entry"
    if not fit.fits and not declared:
        return f"it does not compile for {fit.tpu} at full size: {fit.words}; say so in [does_not_fit]"
    return ""

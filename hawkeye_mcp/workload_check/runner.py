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
from hawkeye_mcp.judge import correctness
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check.report import Checked, Fit, Mutants
from hawkeye_mcp.workloads import Size, Workload

_CHECKING = ("audit", "declaration", "mutants", "power", "program", "report")  # what a result depends on
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
        return Checked.model_validate_json(path.read_text(encoding="utf-8"))
    return None


def _path(workload: Workload, size: Size) -> Path:
    digest = hashlib.sha256(json.dumps(versions().model_dump(), sort_keys=True).encode())
    sources = [Path(__file__).with_name(f"{name}.py") for name in _CHECKING] + [Path(correctness.__file__)]
    for path in (*sources, workload.folder / "workload.py", workload.folder / "workload.toml"):
        digest.update(path.read_bytes())
    root = Path(os.environ.get("HAWKEYE_CACHE") or platformdirs.user_cache_dir("hawkeye-mcp"))
    return root / "checks" / f"{workload.name}-{size}-{digest.hexdigest()[:16]}.json"


async def _check(workload: Workload, size: Size) -> Checked:
    try:
        reply = await _call("verifier", "check_workload", workload=workload.reference, size=size)
        found = Checked.model_validate(reply)
    except (WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable) as error:
        if size == "check" or not _out_of_memory(error):
            return _unknown(workload, size, problem=f"the check did not finish: {error}; {_advice(error)}")
        found = _unknown(workload, size, note=f"nothing was run at full size: 12 GB of memory do not suffice ({error})")
    if size == "check":
        return found
    fits = [await _fit(workload, tpu) for tpu in FULL_SIZE_CHIPS]
    problems = found.problems + [problem for fit in fits if (problem := undeclared(workload, fit))]
    return found.model_copy(update={"fits": fits, "problems": problems, "ok": not problems})


async def _call(kind: str, method: str, **params: object) -> dict[str, object]:
    worker = await Worker.start(kind)  # type: ignore[arg-type]
    try:
        return await worker.call(method, params, LIMIT_S)
    finally:
        await worker.close()


def _out_of_memory(error: Exception) -> bool:
    """An allocation that fails raises, or ends the process where it was XLA's own."""
    return isinstance(error, WorkerDied) or any(word in str(error) for word in ("RESOURCE_EXHAUSTED", "MemoryError"))


def _advice(error: Exception) -> str:
    advice = {
        WorkerDied: "it may need more memory than the check allows; try smaller dimensions",
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
        seconds=0,
        notes=[note] if note else [],
        problems=[problem] if problem else [],
    )


async def _fit(workload: Workload, tpu: str) -> Fit:
    """Compile the baseline at full size for one chip with the real compiler, which refuses what HBM cannot hold."""
    try:
        await _call("compiler", "compile_baseline", workload=workload.reference, tpu=tpu, at={})
    except (WorkerDied, WorkerError, WorkerTimeout) as error:
        return Fit(tpu=tpu, fits=False, words=f"{error}"[:500])
    return Fit(tpu=tpu, fits=True)


def undeclared(workload: Workload, fit: Fit) -> str:
    """What is wrong between what the compiler says and what workload.toml does, or nothing."""
    declared = fit.tpu in workload.does_not_fit
    if fit.fits and declared:
        return f"[does_not_fit] names {fit.tpu}, and it compiles for it: remove the entry"
    if not fit.fits and not declared:
        return f"it does not compile for {fit.tpu} at full size: {fit.words}; say so in [does_not_fit]"
    return ""

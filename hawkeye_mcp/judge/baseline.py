"""The denominator: the workload's plain JAX as XLA compiles it for a chip, predicted like a candidate.

A static profile of an XLA program at its full size takes minutes and gigabytes, where it does not abort. So the
program is compiled at full size for its operations and their HBM bytes, and profiled at two smaller values of one
dimension along which its cost is linear (the workload's `[baseline]`); each operation's cycles go straight through
the two. Where that cannot be done the operation counts with its HBM bytes alone: XLA's own estimates are far too
high on bandwidth-bound operations, and a baseline that is too slow would flatter every candidate. The whole
never takes less than the chip needs for the workload's FLOPs and bytes. Each operation names its method; a baseline in
which any of these floors stands for a time is a lower bound, and so is every speedup over it.

Predictions are kept by workload, chip and versions: shipped in workloads/baselines/<chip>.json, computed ones in the
user's cache.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import anyio
import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hawkeye_mcp import content, state
from hawkeye_mcp.evaluation import OpTime, Versions
from hawkeye_mcp.judge.reason import lasting, reason, some
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.profiler.timing import Cost, floor_us, op_time, total_us
from hawkeye_mcp.workloads import Workload

PROFILE_LIMIT_S = 400.0
COMPILE_LIMIT_S = 180.0


class Baseline(BaseModel):
    """Predicted time of one workload's XLA baseline on one chip; `fingerprint` covers what it was computed from.

    lower_bound: a floor stands for a time that could not be profiled. passing: time or memory ran out on this machine,
    so that another might find more; never kept in a file.
    """

    model_config = ConfigDict(extra="forbid")

    workload: str
    tpu: str
    us: float
    lower_bound: bool = False
    passing: bool = Field(False, exclude=True)
    method: str
    ops: list[OpTime]
    notes: list[str] = []
    versions: Versions
    fingerprint: str


def fingerprint(workload: Workload, tpu: str, versions: Versions) -> str:
    """Changes when the workload's code, its full size, its baseline points or the compiler change."""
    parts = [
        workload.code(),
        json.dumps(workload.sizes["full"], sort_keys=True),
        workload.baseline.model_dump_json(exclude={"reason"}),
        tpu,
        f"{versions.jax} {versions.jaxlib} {versions.libtpu}",
        "5",  # the method below
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def shipped_path(tpu: str) -> Path:
    return content.folder("workloads") / "baselines" / f"{tpu}.json"


def _cache_path(workload: str, tpu: str, mark: str) -> Path:
    root = Path(os.environ.get("HAWKEYE_CACHE") or platformdirs.user_cache_dir("hawkeye-mcp"))
    return root / "baselines" / f"{workload}-{tpu}-{mark}.json"


def known(workload: Workload, tpu: str, versions: Versions) -> Baseline | None:
    """A baseline that was computed before from exactly this."""
    mark = fingerprint(workload, tpu, versions)
    shipped = _read(shipped_path(tpu))
    entries = [shipped.get(workload.name) if isinstance(shipped, dict) else None]
    for entry in (*entries, _read(_cache_path(workload.name, tpu, mark))):
        with contextlib.suppress(ValidationError):  # as good as none, like one that cannot be read at all
            if (found := Baseline.model_validate(entry)).fingerprint == mark:
                return found
    return None


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None  # a half-written or foreign file is as good as none


def write_json(path: Path, value: Any) -> None:
    """Atomic: a reader sees the old file or the new one."""
    state.write_atomically(path, json.dumps(value, indent=1) + "\n")


async def compute(workload: Workload, tpu: str, versions: Versions, compilers: WorkerPool) -> Baseline:
    """Predict a baseline and keep it in the cache unless it is a passing one. Takes seconds to minutes.

    Raises:
        WorkerError, WorkerDied, WorkerTimeout: the full program does not compile for this chip.
    """
    full = await compilers.call("compile_baseline", COMPILE_LIMIT_S, workload=workload.reference, tpu=tpu, at={})
    short: list[list[dict[str, Any]]] = []
    notes = []
    passing = False
    for value in workload.baseline.at:
        try:
            short.append(await _profiled(workload, tpu, {workload.baseline.axis: value}))
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            notes.append(f"no static profile at {workload.baseline.axis}={value}: {reason(error)}")
            passing = not lasting(error)
            break
    costs, method, lower_bound = _combine(workload, full["ops"], short, notes)
    peaks = full["peaks"]
    ops = [
        time
        for cost in costs
        if (time := op_time(cost, clock_hz=peaks["clock_hz"], hbm_bytes_per_s=peaks["hbm_bytes_per_s"]))
        and (time.us or time.hbm_floor_us)
    ]
    us = total_us(ops)
    least_us, ceiling = floor_us(
        workload.flops,
        workload.least_bytes,
        flops_per_s=peaks["bf16_flops_per_s"],
        hbm_bytes_per_s=peaks["hbm_bytes_per_s"],
    )
    if least_us > us:
        notes.append(f"raised from {us:g} us to the {least_us:g} us that {ceiling} take")
        us, lower_bound = least_us, True
        method = "flop_floor" if "FLOPs" in ceiling else "hbm_floor"
    found = Baseline(
        workload=workload.name,
        tpu=tpu,
        us=us,
        lower_bound=lower_bound,
        passing=passing,
        method=method,
        ops=ops,
        notes=notes,
        versions=versions,
        fingerprint=fingerprint(workload, tpu, versions),
    )
    if not found.passing:
        write_json(_cache_path(workload.name, tpu, found.fingerprint), found.model_dump(mode="json"))
    return found


async def _profiled(workload: Workload, tpu: str, at: dict[str, int]) -> list[dict[str, Any]]:
    # a process of its own: the profile of an XLA program may abort it or leave it with gigabytes
    worker = await Worker.start("profiler")
    try:
        reply = await worker.call(
            "compile_baseline", {"workload": workload.reference, "tpu": tpu, "at": at}, PROFILE_LIMIT_S
        )
    finally:
        await worker.close()
    ops: list[dict[str, Any]] = reply["ops"]
    return ops


def _costed(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Operations whose schedule matters: the ones for which XLA chose a tiling, and Mosaic kernels."""
    return [op for op in ops if op["mosaic"] or op["xla_cycles"] or op["profile_cycles"]]


def _combine(
    workload: Workload, full: list[dict[str, Any]], short: list[list[dict[str, Any]]], notes: list[str]
) -> tuple[list[Cost], str, bool]:
    """Costs of the full program's operations, with cycles through the two profiled sizes where they match.

    With them the methods of the operations that matter, and whether any stands for less than its time.
    """
    target = workload.sizes["full"][workload.baseline.axis]
    low, high = workload.baseline.at
    kinds = [[op["opcode"] for op in _costed(ops)] for ops in (full, *short)]
    cycles: dict[str, float] = {}
    if len(short) == 2 and kinds[0] == kinds[1] == kinds[2]:
        for op, a, b in zip(_costed(full), _costed(short[0]), _costed(short[1]), strict=True):
            if a["profile_cycles"] is not None and b["profile_cycles"] is not None:
                slope = (b["profile_cycles"] - a["profile_cycles"]) / (high - low)
                cycles[op["name"]] = b["profile_cycles"] + slope * (target - high)
    elif len(short) == 2:
        notes.append("the program has other operations at the profiled sizes than at its full one")
    costs = []
    methods = set()
    floors, endless = [], []
    for op in full:
        if op["name"] in cycles:
            value, method = cycles[op["name"]], "static_profile_extrapolated"
        else:
            value, method = None, "hbm_floor"
        matters = op in _costed(full)
        if matters:
            methods.add(method)
        if method == "hbm_floor" and (matters or not (op["small"] or op["ahead"])):
            floors.append(op["name"])
        if not op["calls"]:
            endless.append(op["name"])
        kind = "mosaic" if op["mosaic"] else "xla"
        costs.append(Cost(op["name"], kind, value, method, op["hbm_bytes"], max(op["calls"], 1), hidden=op["ahead"]))
    if floors:
        notes.append(f"no static profile of {some(floors)}: counted with HBM bytes alone, a speedup is understated")
    if endless:
        notes.append(f"{some(endless)}: run an unknown number of times, counted once")
    return costs, "+".join(sorted(methods)) or "hbm_floor", bool(floors or endless)


class Baselines:
    """Baselines on demand: known ones at once, each other one computed once however many ask.

    Passing ones are remembered here, so that they cost their minutes once, and computed again by the next process.
    """

    def __init__(self, compilers: WorkerPool, versions: Versions) -> None:
        self._compilers, self._versions = compilers, versions
        self._locks: dict[tuple[str, str], anyio.Lock] = {}
        self._passing: dict[str, Baseline] = {}

    async def get(self, workload: Workload, tpu: str) -> Baseline:
        async with self._locks.setdefault((workload.name, tpu), anyio.Lock()):
            if found := known(workload, tpu, self._versions):
                return found
            mark = fingerprint(workload, tpu, self._versions)
            if mark not in self._passing:
                found = await compute(workload, tpu, self._versions, self._compilers)
                if not found.passing:
                    return found
                self._passing[mark] = found
            return self._passing[mark]

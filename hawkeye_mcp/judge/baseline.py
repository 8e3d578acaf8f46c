"""The denominator: the workload's plain JAX as XLA compiles it for a chip, costed operation by operation.

The program is compiled at full size, which takes seconds, and each operation is costed by the first of these that there
is; it names its method.

- static_profile_extrapolated: libtpu's static profile at two smaller values of one dimension along which the cost is
  linear (the workload's `[baseline]`), straight through to the full size. Takes minutes and is done on demand only.
- static_profile_sampled: of a Mosaic kernel that XLA made itself, short grids like those of a candidate's kernel.
- xla_estimate: XLA's own estimate of a matrix product that the matrix units bind, less the partial sums.
- roofline_calibrated: the matrix units at their peak, or what the profile takes for each vector register on operations
  of the same sort, whichever is longer.
- hbm_floor: HBM bytes alone, where nothing else is known.

Every operation takes at least its HBM bytes, and the whole at least what the chip needs for the workload's FLOPs and
bytes. A baseline in which one of these floors stands for a time that matters is a lower bound, and so is every speedup
over it.

Costs are kept by workload, chip and versions: shipped in workloads/baselines/<chip>.json, computed ones in the user's
cache. Times follow from them when they are read.
"""

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hawkeye_mcp import content, state
from hawkeye_mcp.evaluation import OpTime, Versions
from hawkeye_mcp.judge.reason import lasting, reason, some
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.profiler import calibration, dumped, xla_cost
from hawkeye_mcp.profiler.flops import Product
from hawkeye_mcp.profiler.timing import Cost, floor_us, op_time, rounded, total_us
from hawkeye_mcp.workloads import Workload

COMPILE_LIMIT_S = 300.0
PROFILE_LIMIT_S = 300.0
POINT_LIMIT_S = 120.0
MATTERS = 0.01  # share of the whole below which an operation's method is not worth a word
# A whole that comes out this little below the hardware's floor is rounded up to it and no worse known for that.
ROUNDING = 0.95
# of jaxlib's reader, on programs that libtpu compiles
UNREADABLE = "hlo_instruction.cc"

Method = Literal[
    "static_profile_extrapolated", "static_profile_sampled", "xla_estimate", "roofline_calibrated", "hbm_floor"
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class OpCost(_Model):
    """One operation of the compiled program. calls: 0 if unknown. ahead: hidden behind others. doubtful: HBM bytes say
    little about its time. minor: it costs next to nothing."""

    name: str
    kind: Literal["mosaic", "xla"]
    method: Method
    cycles: float | None = None
    hbm_bytes: int = 0
    calls: int = 1
    ahead: bool = False
    doubtful: bool = False
    minor: bool = False


class Entry(_Model):
    """What is kept of one workload on one chip; `fingerprint` covers what it was computed from.

    refused: the compiler's words, if it does not compile the program for this chip. profiled: whether the profile was
    tried. passing: time or memory ran out on this machine, so that another might find more; never kept in a file.
    """

    workload: str
    tpu: str
    refused: str | None = None
    costs: list[OpCost] = []
    peaks: dict[str, float] = {}
    profiled: bool = False
    passing: bool = Field(False, exclude=True)
    notes: list[str] = []
    versions: Versions
    fingerprint: str

    def kept(self) -> dict[str, Any]:
        """As it stands in a file."""
        return self.model_dump(mode="json", exclude_defaults=True)


class Share(_Model):
    """Of the whole time, how much rests on one method."""

    method: str
    share: float


class Baseline(_Model):
    """Predicted time of one workload's XLA baseline on one chip.

    lower_bound: a floor stands for a time that matters. shares: largest first.
    """

    workload: str
    tpu: str
    us: float
    lower_bound: bool = False
    method: str
    shares: list[Share] = []
    ops: list[OpTime]
    notes: list[str] = []
    versions: Versions
    fingerprint: str


def fingerprint(workload: Workload, tpu: str, versions: Versions) -> str:
    """Changes when the workload's code, its full size, its baseline points, the compiler or the method change; of one that
    is not shipped also with the shapes of its inputs, since arrays that it keeps have some that its code does not say.
    """
    parts = [
        workload.code(),
        json.dumps(workload.sizes["full"], sort_keys=True),
        workload.baseline.model_dump_json(exclude={"reason"}) if workload.baseline else "",
        tpu,
        f"{versions.jax} {versions.jaxlib} {versions.libtpu}",
        repr(_calibration(tpu)),
        "7",  # the method below
    ]
    if not workload.shipped:
        parts.append(json.dumps(workload.shapes(workload.inputs, "full")))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def _calibration(tpu: str) -> calibration.Calibration:
    return calibration.calibration(tpu, calibration.rows())


def shipped_path(tpu: str) -> Path:
    return content.folder("workloads") / "baselines" / f"{tpu}.json"


def _cache_path(workload: str, tpu: str, mark: str) -> Path:
    root = Path(os.environ.get("HAWKEYE_CACHE") or platformdirs.user_cache_dir("hawkeye-mcp"))
    return root / "baselines" / f"{workload}-{tpu}-{mark}.json"


def known(workload: Workload, tpu: str, versions: Versions) -> Entry | None:
    """What was computed before from exactly this; with a profile rather than without."""
    return next(iter(sorted(_kept(workload, tpu, versions), key=lambda entry: not entry.profiled)), None)


def shipped(workload: Workload, tpu: str, versions: Versions) -> Entry | None:
    """The same, but only what is shipped."""
    entries = _read(shipped_path(tpu))
    return _valid(entries.get(workload.name) if isinstance(entries, dict) else None, workload, tpu, versions)


def _kept(workload: Workload, tpu: str, versions: Versions) -> list[Entry]:
    cached = _read(_cache_path(workload.name, tpu, fingerprint(workload, tpu, versions)))
    found = [shipped(workload, tpu, versions), _valid(cached, workload, tpu, versions)]
    return [entry for entry in found if entry]


def _valid(entry: Any, workload: Workload, tpu: str, versions: Versions) -> Entry | None:
    with contextlib.suppress(ValidationError):  # as good as none, like one that cannot be read at all
        found = Entry.model_validate(entry)
        of = (found.workload, found.tpu, found.fingerprint)
        if of == (workload.name, tpu, fingerprint(workload, tpu, versions)):
            return found
    return None


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, RecursionError, ValueError):
        return None  # a half-written or foreign file is as good as none


def write_json(path: Path, value: Any) -> None:
    """Atomic: a reader sees the old file or the new one."""
    state.write_atomically(path, json.dumps(value, indent=1) + "\n")


async def compute(
    workload: Workload, tpu: str, versions: Versions, compilers: WorkerPool, *, profile: bool = False
) -> Entry:
    """Cost a baseline and keep it in the cache unless it is a passing one. Seconds; with a profile minutes.

    Raises:
        WorkerDied, WorkerTimeout: the compiler ended or took too long.
    """
    entry = Entry(
        workload=workload.name,
        tpu=tpu,
        profiled=profile,
        versions=versions,
        fingerprint=fingerprint(workload, tpu, versions),
    )
    try:
        full = await compiled(workload, tpu, {}, compilers)
    except WorkerError as error:
        entry.refused = reason(error)
        entry.passing = not lasting(error)
    else:
        await _cost(entry, workload, full, compilers)
    if not entry.passing:
        write_json(_cache_path(workload.name, tpu, entry.fingerprint), entry.kept())
    return entry


async def compiled(workload: Workload, tpu: str, at: dict[str, int], compilers: WorkerPool) -> dict[str, Any]:
    """The operations of the program with some dimensions replaced, and the chip's peaks.

    Raises:
        WorkerError, WorkerDied, WorkerTimeout
    """
    request = {"workload": workload.reference, "tpu": tpu, "at": at}
    try:
        return await compilers.call("compile_baseline", COMPILE_LIMIT_S, **request)
    except WorkerError as error:
        if UNREADABLE not in str(error):
            raise
    worker = await Worker.start("compiler")
    try:
        return await worker.call("compile_baseline", request | {"dump": True}, COMPILE_LIMIT_S)
    finally:
        await worker.close()


async def _cost(entry: Entry, workload: Workload, full: dict[str, Any], compilers: WorkerPool) -> None:
    """Fill in the costs of a program that compiles."""
    entry.peaks = {key: full["peaks"][key] for key in ("clock_hz", "hbm_bytes_per_s", "bf16_flops_per_s")}
    profiled: dict[str, float] = {}
    if entry.profiled:
        profiled = await _extrapolated(entry, workload, full["ops"], compilers)
    for op in full["ops"]:
        cost = cost_of(op, entry.tpu, entry.peaks)
        if op["name"] in profiled:
            cost.cycles, cost.method = profiled[op["name"]], "static_profile_extrapolated"
        elif op["mosaic"]:
            await _sample(entry, op, cost, compilers)
        if cost.cycles or cost.hbm_bytes:
            cost.cycles = None if cost.cycles is None else rounded(cost.cycles)
            entry.costs.append(cost)


def cost_of(op: dict[str, Any], tpu: str, peaks: dict[str, float]) -> OpCost:
    """Of one operation, without a profile."""
    chip = xla_cost.Chip(
        peaks["bf16_flops_per_s"] / peaks["clock_hz"],
        xla_cost.mxu_side(tpu),
    )
    cycles: float | None = None
    method = "hbm_floor"
    if not (op["skips"] or op["mosaic"] or op["ahead"]):
        cycles, method = xla_cost.cycles(
            sort=op["sort"],
            xla_cycles=op["xla_cycles"],
            elements=op["elements"],
            partial=op["partial"],
            products=[Product(**product) for product in op["products"]],
            chip=chip,
            calibration=_calibration(tpu),
        )
    return OpCost(
        name=op["name"],
        kind="mosaic" if op["mosaic"] else "xla",
        method=method,
        cycles=cycles,
        hbm_bytes=op["hbm_bytes"],
        calls=op["calls"],
        ahead=op["ahead"],
        doubtful=op["skips"] or op["mosaic"] or op["sort"] == "irregular",
        minor=op["small"],
    )


async def profiled(
    method: str, request: dict[str, Any], limit_s: float
) -> tuple[dict[str, int], WorkerDied | WorkerError | WorkerTimeout | None]:
    """Cycles by operation of what a request compiles, and what ended it early: those before that are there too.

    In a process of its own: the profile of an XLA program may abort it or leave it with gigabytes.
    """
    worker = await Worker.start("profiler")
    failed = None
    try:
        await worker.call(method, request, limit_s)
    except (WorkerDied, WorkerError, WorkerTimeout) as error:
        failed = error
    finally:
        found = dumped.estimates(worker.folder)
        await worker.close()
    return found, failed


async def _sample(entry: Entry, op: dict[str, Any], cost: OpCost, compilers: WorkerPool) -> None:
    """Profile a Mosaic kernel that XLA made, alone, with short grids."""
    call = {"call": op["call"], "tpu": entry.tpu}
    try:
        plan = await compilers.call("plan_xla_kernel", COMPILE_LIMIT_S, **call)
    except (WorkerDied, WorkerError, WorkerTimeout) as error:
        entry.notes.append(f"{op['name']} cannot be compiled alone: {reason(error)}")
        return
    if plan["lower_bound"]:
        entry.notes += plan["notes"]
        return
    cycles = 0.0
    for point, weight in zip(plan["points"], plan["weights"], strict=True):
        found, failed = await profiled("profile_xla_kernel", call | {"point": point}, POINT_LIMIT_S)
        if len(found) != 1:
            why = f": {reason(failed)}" if failed else ""
            entry.notes.append(f"no static profile of {op['name']} with grid {point}{why}")
            entry.passing |= bool(failed and not lasting(failed))
            return
        cycles += weight * next(iter(found.values()))
    cost.cycles, cost.method, cost.doubtful = cycles, "static_profile_sampled", False
    if plan["window_bytes"] is not None:
        cost.hbm_bytes = sum(plan["window_bytes"])


async def _extrapolated(
    entry: Entry, workload: Workload, full: list[dict[str, Any]], compilers: WorkerPool
) -> dict[str, float]:
    """Cycles by operation of the full program, through its profiles at two smaller sizes where these have it."""
    if workload.baseline is None:
        entry.notes.append("not profiled: the workload declares no dimension along which its cost is linear")
        return {}
    axis, sizes = workload.baseline.axis, workload.baseline.at
    programs, profiles = [], []
    for value in sizes:
        at = {axis: value}
        try:
            programs.append((await compiled(workload, entry.tpu, at, compilers))["ops"])
        except (WorkerDied, WorkerError, WorkerTimeout) as error:
            entry.notes.append(f"does not compile at {axis}={value}: {reason(error)}")
            return {}
        request = {"workload": workload.reference, "tpu": entry.tpu, "at": at}
        found, failed = await profiled("compile_baseline", request, PROFILE_LIMIT_S)
        profiles.append(found)
        if failed:
            entry.notes.append(f"the profile at {axis}={value} ended early: {reason(failed)}")
            entry.passing |= not lasting(failed)
    kinds = [[op["opcode"] for op in _costed(ops)] for ops in (full, *programs)]
    if not kinds[0] == kinds[1] == kinds[2]:
        entry.notes.append("the program has other operations at the profiled sizes than at its full one")
        return {}
    target, (low, high) = workload.sizes["full"][axis], sizes
    cycles = {}
    for op, a, b in zip(*map(_costed, (full, *programs)), strict=True):
        if a["name"] in profiles[0] and b["name"] in profiles[1]:
            first, second = profiles[0][a["name"]], profiles[1][b["name"]]
            cycles[op["name"]] = second + (second - first) / (high - low) * (target - high)
    return cycles


def _costed(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Operations whose schedule matters: the ones for which XLA chose a tiling, and Mosaic kernels."""
    return [op for op in ops if op["mosaic"] or op["xla_cycles"]]


def timed(entry: Entry, workload: Workload) -> Baseline:
    """The time that follows from an entry's costs.

    Raises:
        WorkerError: the compiler refused the program.
    """
    if entry.refused is not None:
        raise WorkerError("JaxRuntimeError", entry.refused, "")
    pairs = []
    for cost in entry.costs:
        known_of = Cost(
            cost.name, cost.kind, cost.cycles, cost.method, cost.hbm_bytes, max(cost.calls, 1), hidden=cost.ahead
        )
        time = op_time(known_of, clock_hz=entry.peaks["clock_hz"], hbm_bytes_per_s=entry.peaks["hbm_bytes_per_s"])
        if time:
            pairs.append((cost, time))
    ops = [time for _, time in pairs]
    us = total_us(ops)
    notes = list(entry.notes)
    floors = [
        cost.name
        for cost, time in pairs
        if cost.method == "hbm_floor" and not (cost.ahead or cost.minor) and (cost.doubtful or time.us >= MATTERS * us)
    ]
    if floors:
        notes.append(f"{some(floors)}: counted with HBM bytes alone, a speedup is understated")
    endless = [cost.name for cost in entry.costs if not cost.calls and not cost.minor]
    if endless:
        notes.append(f"{some(endless)}: run an unknown number of times, counted once")
    shares = _shares(ops, us)
    method = "+".join(share.method for share in shares if share.share >= MATTERS) or "hbm_floor"
    lower_bound = bool(floors or endless)
    least_us, ceiling = floor_us(
        workload.flops,
        workload.least_bytes,
        flops_per_s=entry.peaks["bf16_flops_per_s"],
        hbm_bytes_per_s=entry.peaks["hbm_bytes_per_s"],
    )
    if least_us > us:
        notes.append(f"raised from {us:g} us to the {least_us:g} us that {ceiling} take")
        if us < ROUNDING * least_us:
            lower_bound, method = True, "flop_floor" if "FLOPs" in ceiling else "hbm_floor"
            shares = [Share(method=method, share=1.0)]
        us = least_us
    return Baseline(
        workload=entry.workload,
        tpu=entry.tpu,
        us=us,
        lower_bound=lower_bound,
        method=method,
        shares=shares,
        ops=ops,
        notes=notes,
        versions=entry.versions,
        fingerprint=entry.fingerprint,
    )


def _shares(ops: Sequence[OpTime], us: float) -> list[Share]:
    """Of each method, largest first. Where all the HBM traffic takes longer than the operations, it has the rest."""
    spent: dict[str, float] = {}
    for op in ops:
        spent[op.method] = spent.get(op.method, 0.0) + op.us
    spent["hbm_floor"] = spent.get("hbm_floor", 0.0) + us - sum(spent.values())
    found = [Share(method=method, share=round(value / us, 4)) for method, value in spent.items() if us]
    return sorted((share for share in found if share.share > 0), key=lambda share: -share.share)


class Baselines:
    """Baselines on demand: known ones at once, each other one computed once however many ask.

    Passing ones are remembered here, so that they cost their minutes once, and computed again by the next process.
    """

    def __init__(self, compilers: WorkerPool, versions: Versions) -> None:
        self._compilers, self._versions = compilers, versions
        self._locks: dict[tuple[str, str], anyio.Lock] = {}
        self._passing: dict[str, Entry] = {}

    async def get(self, workload: Workload, tpu: str) -> Baseline:
        """Raises WorkerError, WorkerDied, WorkerTimeout: there is none."""
        async with self._locks.setdefault((workload.name, tpu), anyio.Lock()):
            found = known(workload, tpu, self._versions)
            mark = fingerprint(workload, tpu, self._versions)
            found = found or self._passing.get(mark)
            if not found:
                found = await compute(workload, tpu, self._versions, self._compilers)
                if found.passing:
                    self._passing[mark] = found
            return timed(found, workload)

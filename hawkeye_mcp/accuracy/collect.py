"""From measured rows to what predictions of them are made of: one worker, one row after another, each kept as it comes.

A row takes seconds to a minute; what has been found is in the user's cache, by versions, and is never found again.
"""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import platformdirs

from hawkeye_mcp import state
from hawkeye_mcp.accuracy import shipped
from hawkeye_mcp.accuracy.rows import EXTRA, Row, tokamax_version
from hawkeye_mcp.accuracy.shipped import METHOD, Features
from hawkeye_mcp.judge.reason import reason
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable
from hawkeye_mcp.versions import versions

LIMITS_S = {"accuracy_prepare": 120.0, "accuracy_point": 150.0, "accuracy_surroundings": 150.0}
FAULTS = (WorkerDied, WorkerError, WorkerTimeout)
DATA_DEPENDENT = (
    "data_dependent: XLA's grouped matmul does what the group sizes ask for, of which its estimate knows nothing"
)


def folder() -> Path:
    root = Path(os.environ.get("HAWKEYE_CACHE") or platformdirs.user_cache_dir("hawkeye-mcp"))
    v = versions()
    return root / "accuracy" / f"jax{v.jax}-libtpu{v.libtpu}-tokamax{tokamax_version()}-{METHOD}"


def known(row: Row, *, fresh: bool = False) -> Features | None:
    """What is known of a row without asking any worker; fresh: not from what is in the package."""
    if row.kernel == "ragged_dot" and row.implementation == "xla":
        return {"reason": DATA_DEPENDENT}
    if not fresh and (kept := shipped.load().features.get(row.id)):
        return kept
    if row.file != "measured.csv" and tokamax_version() is None:
        return {"reason": f"it was not predicted yet, which needs the kernels of tokamax: pip install {EXTRA}"}
    path = folder() / f"{row.id}.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


async def collect(
    rows: Iterable[Row], progress: Callable[[str], None], *, fresh: bool = False, known_only: bool = False
) -> dict[str, Features]:
    """Features of every row by its id; of one that could not be covered {"reason": why}.

    fresh: none from the package. known_only: nothing that is not known already.
    """
    wanted = list(rows)
    found = {row.id: features for row in wanted if (features := known(row, fresh=fresh)) is not None}
    missing = [] if known_only else [row for row in wanted if row.id not in found]
    points = _Points(folder() / "points.jsonl")
    workers = _Workers()
    try:
        for number, row in enumerate(missing, start=1):
            progress(f"[{number}/{len(missing)}] {row.id}")
            found[row.id] = await _row(row, workers, points)
            state.write_atomically(folder() / f"{row.id}.json", json.dumps(found[row.id]) + "\n")
    finally:
        await workers.close()
    return found


async def _row(row: Row, workers: "_Workers", points: "_Points") -> Features:
    try:
        prepared = await workers.call("profiler", "accuracy_prepare", row=asdict(row))
    except FAULTS as error:
        return {"reason": f"its program cannot be built or followed: {reason(error)}"}
    artifact = {"artifact_b64": prepared["artifact_b64"], "tpu": row.chip}
    features: Features = {"kernels": prepared["kernels"]}
    for number, kernel in enumerate(prepared["kernels"]):
        for job in kernel["jobs"]:
            job["cycles"] = []
            for grid, key in zip(job["points"], job["keys"], strict=True):
                if key not in points.cycles:
                    call = {"kernel": number, "branches": kernel["branches"], "taken": job["taken"], "grid": grid}
                    try:
                        points.keep(key, await _cycles(workers, artifact | call))
                    except FAULTS as error:
                        return features | {"reason": f"no static profile: {reason(error)}"}
                job["cycles"].append(points.cycles[key])
    try:
        features |= await workers.call("compiler", "accuracy_surroundings", **artifact)
    except FAULTS as error:
        return features | {"reason": f"its program does not compile: {reason(error)}"}
    return features


async def _cycles(workers: "_Workers", params: dict[str, Any]) -> int | None:
    try:
        reply = await workers.call("profiler", "accuracy_point", **params, without_masks=False)
    except WorkerDied as error:
        if "type_check" not in str(error):
            raise
        reply = await workers.call("profiler", "accuracy_point", **params, without_masks=True)
    cycles: int | None = reply["cycles"]
    return cycles


class _Workers:
    """One worker of each kind, started again when it has ended."""

    def __init__(self) -> None:
        self._running: dict[str, Worker] = {}

    async def call(self, kind: Any, method: str, **params: Any) -> dict[str, Any]:
        worker = self._running.get(kind)
        if worker is None or not worker.alive:
            worker = self._running[kind] = await Worker.start(kind)
        try:
            return await worker.call(method, params, LIMITS_S[method])
        except (WorkerDied, WorkerTimeout, WorkerUnavailable):
            del self._running[kind]
            await worker.close()
            raise

    async def close(self) -> None:
        for worker in self._running.values():
            await worker.close()


class _Points:
    """Cycles of profiled grids by what determines them; several rows share many."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.cycles: dict[str, int | None] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self.cycles[entry["key"]] = entry["cycles"]

    def keep(self, key: str, cycles: int | None) -> None:
        self.cycles[key] = cycles
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"key": key, "cycles": cycles}) + "\n")

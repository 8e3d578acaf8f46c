"""Every evaluation ever made, in one SQLite file that several server processes may share.

Rows are only ever added. A correct kernel is in the pool because its evaluation is; nothing else puts it
there.
"""

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from hawkeye_mcp import content
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.kernels import sha256
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workloads import Workload

Source = Literal["predicted", "measured"]

_BUSY_TIMEOUT_S = 20.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS evaluations (
    id TEXT PRIMARY KEY,
    created TEXT NOT NULL,
    kernel_sha256 TEXT NOT NULL,
    kernel TEXT NOT NULL,
    workload TEXT NOT NULL,
    tpu TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    status TEXT NOT NULL,
    timing_source TEXT,
    speedup REAL,
    candidate_us REAL,
    lower_bound INTEGER NOT NULL,
    evaluation TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_kernel ON evaluations (kernel_sha256, workload, tpu);
CREATE INDEX IF NOT EXISTS by_workload ON evaluations (workload, tpu, status);
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON evaluations
BEGIN SELECT RAISE(ABORT, 'evaluations are append-only'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON evaluations
BEGIN SELECT RAISE(ABORT, 'evaluations are append-only'); END;
"""


class Record(BaseModel):
    """One evaluation and the kernel text it judged."""

    kernel: str
    evaluation: Evaluation


def fingerprint(workload: Workload) -> str:
    """What a verdict depends on besides the kernel: the versions, the judge's code with the figures it was fitted to,
    the workload's files and its shipped baselines.
    """
    parts: dict[str, str] = versions().model_dump() | {"judge": judge_code()}
    for tpu in TPUS:
        path = content.folder("workloads") / "baselines" / f"{tpu}.json"
        parts[path.name] = hashlib.sha256(json.dumps(_entry(path, workload.name)).encode()).hexdigest()
    for path in sorted(workload.folder.glob("workload.*")):
        parts[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _entry(path: Path, name: str) -> object:
    """Of a file of shipped baselines; one that is missing or damaged is as good as none, here as for the judge."""
    try:
        return json.loads(path.read_bytes()).get(name)
    except (OSError, ValueError, RecursionError, AttributeError):
        return None


@cache
def judge_code() -> str:
    """Hash of the code that judges and of its figures, so that a changed judge never answers with its predecessor's
    verdicts.
    """
    package, digest = Path(__file__).parent, hashlib.sha256()
    for folder in ("candidate", "judge", "mosaic_eval", "profiler", "sanitizer"):
        for path in sorted((package / folder).rglob("*")):
            if path.suffix in (".py", ".json"):
                digest.update(path.read_bytes())
    return digest.hexdigest()


class Pool:
    """The store. Each call opens its own connection, so threads and processes need no coordination here."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        with self._connect() as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.executescript(_SCHEMA)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S)
        db.text_factory = _text
        try:
            # FULL: a verdict that a client has seen survives a crash of the machine too.
            db.execute("PRAGMA synchronous=FULL")
            with db:
                yield db
        finally:
            db.close()

    def add(self, kernel: str, evaluation: Evaluation, fingerprint: str) -> None:
        """Record one evaluation of `kernel` in one transaction."""
        timing = evaluation.timing
        row = (
            evaluation.id,
            evaluation.created,
            sha256(kernel),
            kernel,
            evaluation.workload,
            evaluation.tpu,
            fingerprint,
            evaluation.status,
            timing.source if timing else None,
            timing.speedup if timing else None,
            timing.candidate_us if timing else None,
            int(timing.lower_bound) if timing else 0,
            evaluation.model_dump_json(),
        )
        with self._connect() as db:
            db.execute(f"INSERT INTO evaluations VALUES ({', '.join('?' * len(row))})", row)

    def cached(
        self, kernel_sha256: str, workload: str, tpu: str, fingerprint: str, hosts: Collection[str | None] = (None,)
    ) -> Evaluation | None:
        """The latest verdict on the same kernel text under the same fingerprint, of one of the hosts; None is this
        machine. Another may have a TPU that this one lacks, and then measures what was predicted here.

        harness_error and timeout are never reused: they say something of the machine, not of the kernel.
        """
        with self._connect() as db:
            rows = db.execute(
                "SELECT evaluation FROM evaluations WHERE kernel_sha256 = ? AND workload = ? AND tpu = ? "
                "AND fingerprint = ? AND status NOT IN ('harness_error', 'timeout') ORDER BY rowid DESC",
                (kernel_sha256, workload, tpu, fingerprint),
            ).fetchall()
        found = (_evaluation(row[0]) for row in rows)
        return next((one for one in found if one and one.judged_on in hosts), None)

    def best(self, workload: str, tpu: str, source: Source, limit: int, fingerprint: str) -> list[Evaluation]:
        """Correct kernels with times of one source, best first, each kernel once with its latest verdict.

        Only verdicts under one fingerprint: what another judge or compiler said ranks beside none of them. Kernels
        whose time is only a lower bound come after those whose time is known. What ranks is the low end of a
        speedup's interval, where there is one: a surer figure goes before a larger one that may be an error.
        """
        with self._connect() as db:
            rows = db.execute(
                "SELECT evaluation FROM evaluations WHERE rowid IN (SELECT MAX(rowid) FROM evaluations"
                "  WHERE workload = ? AND tpu = ? AND fingerprint = ? AND status NOT IN ('harness_error', 'timeout')"
                "  GROUP BY kernel_sha256)"
                " AND status = 'correct' AND timing_source = ?"
                " ORDER BY lower_bound,"
                "  COALESCE(CASE WHEN json_valid(evaluation)"
                "    THEN json_extract(evaluation, '$.timing.speedup_interval[0]') END, speedup) DESC NULLS LAST,"
                "  speedup DESC, candidate_us, rowid LIMIT ?",
                (workload, tpu, fingerprint, source, limit),
            ).fetchall()
        return [found for row in rows if (found := _evaluation(row[0]))]

    def read(self, evaluation_id: str) -> Record | None:
        with self._connect() as db:
            row = db.execute("SELECT kernel, evaluation FROM evaluations WHERE id = ?", (evaluation_id,)).fetchone()
        found = _evaluation(row[1]) if row else None
        return Record(kernel=row[0], evaluation=found) if found else None


def _text(data: bytes) -> str:
    """What is no UTF-8 is damaged; it must not keep its row's reader from finding that out."""
    return data.decode("utf-8", "replace")


def _evaluation(text: str) -> Evaluation | None:
    """A row's evaluation; one that is damaged is as good as none."""
    try:
        return Evaluation.model_validate_json(text)
    except ValidationError:
        return None

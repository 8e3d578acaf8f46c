"""The append-only record of what clients asked and what they got: one JSON object per line.

It lies outside the agent's workspace and is the bench's only source of truth. Lines are flushed to disk one
by one, so it is complete up to the moment the server dies. Kernel texts are kept once, beside the log, under
their sha256.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from hawkeye_mcp import kernels
from hawkeye_mcp.state import discard_partial, write_atomically

KERNELS = "kernels"  # the folder beside a log that holds the kernel texts

# Fields that are text or null in every line that has them, of this log, of a transcript and of a journal.
_TEXTS = ("time", "event", "kind", "status", "outcome", "tool", "workload", "tpu", "kernel_sha256", "source", "job_id")

_current: ContextVar[dict[str, Any] | None] = ContextVar("hawkeye_call", default=None)


def note(**facts: Any) -> None:
    """Add facts to the closing line of the tool call that is being served, if one is."""
    notes = _current.get()
    if notes is not None:
        notes.update(facts)


class CallLog:
    """One log file, opened for appending; several processes may append to the same file.

    Raises:
        OSError: the file cannot be created or written.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.kernels = path.parent / KERNELS
        self._lock = threading.Lock()
        discard_partial(self.kernels)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, event: str, **facts: Any) -> None:
        """Append one line and wait until it is on disk.

        Raises:
            OSError: it cannot be written whole, for lack of space, say; the next one is kept apart from its part.
        """
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, "event": event, **facts}, ensure_ascii=False, default=str) + "\n"
        data = line.encode("utf-8", errors="replace")
        with self._lock:
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                data = b"\n" + data  # a crash or a full disk cut the last line
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)

    def keep_kernel(self, kernel: str) -> str:
        """Store the text once; returns its sha256."""
        name = kernels.sha256(kernel)
        target = self.kernels / f"{name}.py"
        if not target.exists():
            write_atomically(target, kernels.encoded(kernel))
        return name

    @contextmanager
    def collecting(self) -> Iterator[dict[str, Any]]:
        """While open, `note` adds to the dict it yields."""
        notes: dict[str, Any] = {}
        token = _current.set(notes)
        try:
            yield notes
        finally:
            _current.reset(token)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


def objects(lines: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of lines; what is none, such as a line cut off by a crash, is left out, and so is one whose
    time is no time or whose names are no text: no program of ours wrote it.
    """
    for line in lines.split(b"\n"):
        with suppress(ValueError, RecursionError):
            if isinstance(found := json.loads(line), dict) and _is_ours(found):
                yield found


def _is_ours(line: dict[str, Any]) -> bool:
    """Raises ValueError if its time is none."""
    if any(not isinstance(line[name], str) for name in _TEXTS if line.get(name) is not None):
        return False
    return "time" not in line or datetime.fromisoformat(line["time"] or "").tzinfo is not None


def read(path: Path) -> list[dict[str, Any]]:
    """All lines of a log; a line cut off by a crash is left out."""
    return list(objects(path.read_bytes()))


def is_verdict(line: dict[str, Any]) -> bool:
    """Whether a line tells what an evaluation, new or cached, found."""
    return line.get("event") == "verdict" and line.get("kind") == "evaluate"


class CellRead(BaseModel):
    """One cell of the taxonomy, or one part of it, that a client was given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    row: str
    part: str


def cells_read(lines: Iterable[dict[str, Any]]) -> list[CellRead]:
    """Every reading of a cell that was answered, by the tool or as a resource, in order; lists of cells are none."""
    found = []
    for line in lines:
        if line.get("outcome") == "ok" and "cell_read" in line:
            with suppress(ValidationError):  # no line of this program
                found.append(CellRead.model_validate(line["cell_read"]))
    return found

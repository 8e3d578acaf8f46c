"""What became of each run when: OUT/journal.jsonl, appended to by the one bench that holds the folder."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from hawkeye_bench.order import RunKey
from hawkeye_mcp import calllog

Event = Literal["opened", "started", "ended", "retry", "closed"]


class FolderInUse(ValueError):
    """Another bench works in the folder."""


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold the folder, so that no run is done twice at the same time; the lock goes with the process.

    Raises:
        FolderInUse: another process holds it.
        OSError: the folder cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(
                f"another hawkeye-bench works in {out}: wait until it has ended, or use another --out. "
                f"`hawkeye-bench status {out}` shows how far it is."
            ) from None
        yield


def is_held(out: Path) -> bool:
    """Whether a bench works in the folder now."""
    try:
        with (out / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def write(out: Path, event: Event, key: RunKey | None = None, **facts: Any) -> None:
    """Append one line and wait until it is on disk."""
    of = {"workload": key.workload, "condition": key.condition, "repeat": key.repeat} if key else {}
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **of, **facts}
    with (out / "journal.jsonl").open("ab") as stream:
        # A crash may have cut the last line: an empty one in between does no harm.
        start = b"\n" if stream.tell() else b""
        stream.write(start + json.dumps(line, default=str).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def read(out: Path) -> list[dict[str, Any]]:
    """All lines in order; one that a crash cut off is left out."""
    path = out / "journal.jsonl"
    return calllog.read(path) if path.exists() else []

"""What a server holds: memory, processes, open files and files on disk, read from /proc."""

from contextlib import suppress
from pathlib import Path

import anyio
from pydantic import BaseModel, Field

_SETTLE_TRIES = 20
_SETTLE_PAUSE_S = 1.0


class Footprint(BaseModel):
    """A server and all its descendants at rest."""

    after: int = Field(description="Evaluations made so far.")
    rss_bytes: int = Field(description="Sum over the tree; shared pages count more than once.")
    processes: int
    descriptors: int
    files: dict[str, int] = Field(description="Files below each named folder.")


def tree(root: int) -> list[int]:
    """The process and all its descendants, as they are now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        # A process may end while it is being looked at.
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything; the parent is the second field after it.
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def rss_bytes(pid: int) -> int:
    """Resident memory of one process; 0 when it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def descriptors(pid: int) -> int:
    with suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


async def footprint(pid: int, after: int, folders: dict[str, Path]) -> Footprint:
    """Look when the tree has come to rest: the same processes twice in a row, or after 20 s anyway."""
    pids = tree(pid)
    for _ in range(_SETTLE_TRIES):
        await anyio.sleep(_SETTLE_PAUSE_S)
        before, pids = pids, tree(pid)
        if sorted(before) == sorted(pids):
            break
    return Footprint(
        after=after,
        rss_bytes=sum(map(rss_bytes, pids)),
        processes=len(pids),
        descriptors=sum(map(descriptors, pids)),
        files={name: sum(path.is_file() for path in folder.rglob("*")) for name, folder in folders.items()},
    )

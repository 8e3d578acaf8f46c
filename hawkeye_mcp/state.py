"""The files that this package keeps on a machine: where they lie, and how one is written whole or not at all."""

import os
import threading
from pathlib import Path

from platformdirs import user_state_path


def folder() -> Path:
    """Where the server keeps its pool and call logs unless told otherwise."""
    return user_state_path("hawkeye-mcp")


def write_atomically(path: Path, data: str | bytes) -> None:
    """Write a file, text as UTF-8: whole or not at all, also if the machine stops in between; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    with partial.open("wb") as stream:
        stream.write(data.encode("utf-8") if isinstance(data, str) else data)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)

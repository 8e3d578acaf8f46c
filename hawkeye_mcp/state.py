"""The files that this package keeps on a machine: where they lie, and how one is written whole or not at all."""

import os
import platform
import threading
from pathlib import Path

from platformdirs import user_state_path


def folder() -> Path:
    """Where the server keeps its pool and call logs unless told otherwise."""
    return user_state_path("hawkeye-mcp")


def write_atomically(path: Path, data: str | bytes, *, mode: int = 0o666) -> None:
    """Write a file, text as UTF-8: whole or not at all, also if the machine stops in between; makes its folder.

    mode: who may read and write it, less the umask; 0o600 for what holds secrets.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    discard_partial(path.parent)
    partial = path.with_name(f".{path.name}.{_host()}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as stream:
            stream.write(data.encode("utf-8") if isinstance(data, str) else data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except BaseException:  # a full disk, say
        partial.unlink(missing_ok=True)
        raise


def discard_partial(folder: Path) -> None:
    """Remove what `write_atomically` had begun in a folder when its process was killed, on this machine."""
    for partial in folder.glob(f".*.{_host()}.*.*.part"):
        writer = partial.name.split(".")[-3]
        if writer.isdigit() and not (Path("/proc") / writer).exists():
            partial.unlink(missing_ok=True)


def _host() -> str:
    """The machine's name as a part of a file's name that no pattern takes for more than itself."""
    return "".join(letter if letter.isalnum() else "-" for letter in platform.node())

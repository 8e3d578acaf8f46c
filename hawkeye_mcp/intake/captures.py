"""What was recorded of programs, kept in the state folder: once for each text, sizes, seed and versions."""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from hawkeye_mcp.intake.capture import Capture, capture
from hawkeye_mcp.intake.job import Job

MOST_KEPT = 8  # each may have a quarter of a gigabyte
_MOST_FILES = 500


class NothingToRecord(ValueError):
    """The job names no program that runs, so there is nothing to hold a port against."""


async def captured(job: Job, state: Path, progress: Callable[[str], None]) -> tuple[Capture, Path]:
    """What is recorded of a job's program, and the folder of `capture.json` and `goldens.npz`; recorded now if it is not.

    job: with absolute paths. state: the state folder.

    Raises:
        NothingToRecord, CaptureFailed.
    """
    if job.input.type not in ("pytorch", "jax") or not job.input.path:
        raise NothingToRecord(
            f"input.type is {job.input.type}: there is no program of PyTorch or JAX that could be run, so nothing can be held "
            "against it. Give the job a PyTorch module or a JAX function."
        )
    folder = state / "captures" / _key(job)
    source = Path(job.input.path)
    if (found := _read(folder)) and _as_imported(found, source.parent):
        return found, folder
    _discard_left(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    mine = f".{folder.name}.{platform.node()}.{os.getpid()}."  # and one for each of this process: the gates run side by side
    partial = Path(tempfile.mkdtemp(prefix=mine, suffix=".part", dir=folder.parent))
    try:
        await capture(job, partial, progress)
        shutil.rmtree(folder, ignore_errors=True)  # one that does not read
        with contextlib.suppress(OSError):  # another process was faster, with the same
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    found = _read(folder)
    if found is None:
        raise OSError(f"what was recorded cannot be read back from {folder}")
    _forget_old(folder.parent)
    return found, folder


def _read(folder: Path) -> Capture | None:
    try:
        found = Capture.model_validate_json((folder / "capture.json").read_text(encoding="utf-8"))
        os.utime(folder)
    except (OSError, ValidationError):
        return None
    return found if (folder / "goldens.npz").is_file() else None


def _as_imported(found: Capture, folder: Path) -> bool:
    """Whether what the program imported, which may lie anywhere, is as it was."""
    try:
        return all(
            hashlib.sha256((folder / file).read_bytes()).hexdigest() == was for file, was in found.imported.items()
        )
    except OSError:
        return False


def _key(job: Job) -> str:
    """Changes with whatever the record depends on, but for what the program imports from elsewhere: see `_as_imported`."""
    parts = job.model_dump(mode="json", include={"input", "sizes"}) | {
        "port": job.conversion.method == "port",
        "seed": job.correctness.seed,
        "trials": job.correctness.trials,
        "versions": [_version(name) for name in ("hawkeye-mcp", "jax", "torch", "torchax")],
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    assert job.input.path
    source = Path(job.input.path)
    for file in [source, *sorted(source.parent.glob("*.py"))[:_MOST_FILES]]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _discard_left(folder: Path) -> None:
    """Remove what processes of this machine had begun and were killed over."""
    for partial in folder.glob(f".*.{platform.node()}.*.part"):
        writer = partial.name.split(".")[-3]
        if writer.isdigit() and not (Path("/proc") / writer).exists():
            shutil.rmtree(partial, ignore_errors=True)


def _forget_old(folder: Path) -> None:
    kept = sorted(folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in kept[MOST_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)

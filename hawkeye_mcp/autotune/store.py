"""What a search has looked at so far: lines of JSON that are only ever added to, so that a killed search goes on."""

import fcntl
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from hawkeye_mcp.autotune.model import Looked
from hawkeye_mcp.calllog import objects
from hawkeye_mcp.evaluation import Model

POINTS = "points.jsonl"


class Busy(RuntimeError):
    """Another search is at work in the folder."""


class Unusable(RuntimeError):
    """The file system refuses a file of the folder; what is there stays."""


class _Line(Model):
    """fingerprint: what a verdict depends on besides the text, see pool.fingerprint."""

    workload: str
    tpu: str
    fingerprint: str
    looked: Looked


class Store:
    """Of one workload, chip and state of the judge; lines of others are left alone and not read."""

    def __init__(self, folder: Path, workload: str, tpu: str, fingerprint: str) -> None:
        self.folder = folder
        self._path, self._subject = folder / POINTS, (workload, tpu, fingerprint)
        self.texts: set[str] = set()  # hashes of all texts that any search of this folder made
        self.known: dict[str, Looked] = {}
        with using(folder):
            lines = self._path.read_bytes() if self._path.exists() else b""
        for each in objects(lines):
            try:
                line = _Line.model_validate(each)
            except ValidationError:  # of another version
                continue
            if not _has_times(line.looked):
                continue
            self.texts.add(line.looked.kernel_sha256)
            if (line.workload, line.tpu, line.fingerprint) == self._subject:
                self.known[line.looked.kernel_sha256] = line.looked

    def add(self, looked: Looked) -> None:
        """On the disk when it returns. What says more of the machine than of the kernel is not kept."""
        self.texts.add(looked.kernel_sha256)
        if looked.status in ("harness_error", "timeout"):
            return
        self.known[looked.kernel_sha256] = looked
        workload, tpu, fingerprint = self._subject
        line = _Line(workload=workload, tpu=tpu, fingerprint=fingerprint, looked=looked)
        data = line.model_dump_json().encode("utf-8", "replace") + b"\n"
        with using(self.folder):
            _append(self._path, data)


def _has_times(looked: Looked) -> bool:
    """Whether its figures are times, where it has any; else something damaged it."""
    figures = (looked.estimate_us, looked.predicted_us, looked.measured_us, *(looked.interval_us or ()))
    return all(figure is None or 0 <= figure < math.inf for figure in figures)


def looked_at(folder: Path) -> int:
    """How many different texts the searches in the folders of a folder have looked at, of whatever workload."""
    texts = set[str]()
    for path in folder.glob(f"*/{POINTS}"):
        with using(folder):
            found = [line.get("looked") for line in objects(path.read_bytes())]
        texts |= {str(looked.get("kernel_sha256")) for looked in found if isinstance(looked, dict)}
    return len(texts)


def _append(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            data = b"\n" + data  # a crash or a full disk cut the last line
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def using(folder: Path) -> Iterator[None]:
    """Raises Unusable for what the file system refuses."""
    try:
        yield
    except OSError as error:
        raise Unusable(
            f"{error.filename or folder}: {error.strerror}. Make room or choose another folder; what was kept stays."
        ) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder; the kernel lets go of it with the process, however that ends.

    Raises:
        Busy: another search holds it.
        Unusable: there can be no such folder.
    """
    with using(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"Another search is at work in {folder}. Wait for it, or use another folder.") from None
        yield
    finally:
        os.close(handle)

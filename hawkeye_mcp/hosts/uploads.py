"""Workloads that clients sent to this server: looked at, then kept for their owner alone, each under its digest.

`STATE/workloads/OWNER/DIGEST/NAME/` is the workload's folder. It is whole or not there, and never changed.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from hawkeye_mcp import state, workloads
from hawkeye_mcp.hosts import bundle
from hawkeye_mcp.hosts.bundle import Bundle
from hawkeye_mcp.intake import written
from hawkeye_mcp.workloads import Workload

FOLDER = "workloads"
MOST_KEPT = 64  # of one owner
_IN_USE_S = 3600.0  # longer than a judgement takes
_NOBODY = "_"  # the owner where the server asks for no token; no owner can have this name
_PREFIX = ".new-"


class Refused(ValueError):
    """The workload is not taken; the message says why and what to do. status: of the HTTP answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def take(state_folder: Path, owner: str, digest: str, message: bytes) -> Workload:
    """Keep what was sent, if it is what an import writes; taking it again changes nothing.

    Raises:
        Refused: it is not taken, and nothing was written. OSError: this server cannot write.
    """
    if bundle.digest(message) != digest:
        raise Refused(422, "What arrived is not what was sent: its SHA-256 is another. Send it again.")
    try:
        sent = Bundle.model_validate_json(message)
    except ValidationError:
        raise Refused(422, "It is no workload of a form that this server reads. Update the older of the two.") from None
    place = _place(state_folder, owner)
    place.mkdir(parents=True, exist_ok=True)
    with _beside(place) as scratch:
        folder = scratch / sent.name
        for name, data in sent.files.items():
            if len(data) > written.LARGEST_BYTES[name]:
                raise Refused(413, f"{name} has {len(data)} bytes; this server takes {written.LARGEST_BYTES[name]}.")
            state.write_atomically(folder / name, data)
        _check(folder, sent)
        if find(state_folder, owner, digest) is None:
            _make_room(place)
            with contextlib.suppress(OSError):  # another call has just done the same; if not, nothing is found
                scratch.rename(place / digest)
    found = find(state_folder, owner, digest)
    if found is None:
        raise OSError(f"{place / digest} could not be made")
    return found


def find(state_folder: Path, owner: str, digest: str) -> Workload | None:
    """What this owner sent under the digest; None if there is nothing. That it was asked for keeps it from being removed."""
    kept = _place(state_folder, owner) / digest
    try:
        (folder,) = kept.iterdir()
        found = workloads.find(f"{folder}/")
        os.utime(kept)
    except (OSError, ValueError):
        return None
    return found


def _check(folder: Path, sent: Bundle) -> None:
    try:
        belonging = written.check(folder)
        found = workloads.find_to_score(f"{folder}/")
    except workloads.Unapproved as error:
        raise Refused(
            422,
            f"Nothing is scored by {sent.name}: {error.why}. "
            "Approve it where it was imported (hawkeye job approve FOLDER), then send it again.",
        ) from None
    except (written.NotImported, workloads.UnknownWorkload) as error:
        raise Refused(
            422,
            f"A host takes only what `hawkeye job import` writes, since it loads that. {sent.name} is refused: "
            f"{str(error).replace(str(folder), sent.name)} Import it again, or judge by it here, without a host.",
        ) from None
    if more := sorted(set(sent.files) - set(belonging)):
        raise Refused(422, f"{', '.join(more)} is no part of {found.name}: send it without.")


def _place(state_folder: Path, owner: str) -> Path:
    return state_folder / FOLDER / (owner or _NOBODY)


@contextlib.contextmanager
def _beside(place: Path) -> Iterator[Path]:
    """A folder on the same file system, gone at the end unless it was renamed; those of killed servers go too."""
    for left in place.glob(f"{_PREFIX}*-*"):
        writer = left.name.removeprefix(_PREFIX).split("-")[0]
        if writer.isdigit() and not (Path("/proc") / writer).exists():
            shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make_room(place: Path) -> None:
    """Of too many, the one that was not asked for the longest goes; whoever sent it has it, and sends it again."""
    kept = sorted((one.stat().st_mtime, one) for one in place.iterdir() if not one.name.startswith("."))
    for asked_for, one in kept[: max(0, len(kept) + 1 - MOST_KEPT)]:
        if time.time() - asked_for < _IN_USE_S:
            raise Refused(
                507, f"This server keeps {MOST_KEPT} workloads of one owner, and all are in use. Try again in an hour."
            )
        shutil.rmtree(one)

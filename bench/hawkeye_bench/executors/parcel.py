"""A run's folder and its workspace as bytes that another machine sends, and back into OUT: whole or not at all.

What comes back was made beside an agent, so it is unpacked as data: plain files and folders below the run's own, in
bounded size, and of links only the run's own to its workspace.
"""

import io
import os
import re
import secrets
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from hawkeye_bench import runs
from hawkeye_bench.order import RunKey

# Of all files of a run, unpacked: some hundred times what a run of any agent has left so far.
LARGEST_BYTES = 256 * 2**20
ARRIVING = "arriving"
_RUN, _WORKSPACE = "run", "workspace"
_LINK = re.compile(r"\.\./\.\./\.\./workspaces/([0-9a-f]{12})")
_RECORDS = ("judged_again.json", "broken.json", "run.json")
# What may be left out where a parcel would be too large: it is the agent's own, and no record of the run.
_DISPENSABLE = ("workspace", "run/home")


class BadParcel(ValueError):
    """Not what `pack` makes of a run."""


def pack(folder: Path, largest_bytes: int = LARGEST_BYTES) -> tuple[bytes, list[str]]:
    """The run's folder with its workspace, compressed, and what was left out of it: links, what is no plain file, and
    what the agent left beyond the size.

    Raises:
        BadParcel: the records alone are too large.
    """
    workspace = (folder / "workspace").readlink()
    left_out: list[str] = []
    packed = io.BytesIO()
    room = largest_bytes
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as tar:
        link = tarfile.TarInfo(f"{_RUN}/workspace")
        link.type, link.linkname = tarfile.SYMTYPE, str(workspace)
        tar.addfile(link)
        for name, path in sorted(_members(folder), key=lambda member: _is_dispensable(member[0])):
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                left_out.append(f"{name} (no plain file)")
                continue
            info, found = tarfile.TarInfo(name), path.stat()
            info.mode, info.mtime = found.st_mode, int(found.st_mtime)
            if path.is_dir():
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
                continue
            if found.st_size > room:
                if not _is_dispensable(name):
                    raise BadParcel(f"the run's records are larger than {largest_bytes} bytes; {name} is too much")
                left_out.append(f"{name} ({found.st_size} bytes)")
                continue
            info.size = found.st_size
            room -= info.size
            with path.open("rb") as stream:
                tar.addfile(info, stream)
    return packed.getvalue(), left_out


def _members(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name in the parcel and path of everything below the run's folder and its workspace, folders first."""
    for name, top in ((_RUN, folder), (_WORKSPACE, (folder / "workspace").resolve())):
        for root, folders, files in os.walk(top):
            below = PurePosixPath(name, Path(root).relative_to(top))
            found = [Path(root) / entry for entry in (*folders, *files)]
            yield from ((str(below / path.name), path) for path in found if path != folder / "workspace")


def _is_dispensable(name: str) -> bool:
    return any(name == top or name.startswith(f"{top}/") for top in _DISPENSABLE)


def deliver(parcel: bytes, out: Path, key: RunKey, largest_bytes: int = LARGEST_BYTES) -> None:
    """Put a run that was done elsewhere into its place in OUT; until the last step nothing of it is there.

    Raises:
        BadParcel: nothing was delivered.
    """
    arriving = out / ARRIVING / secrets.token_hex(6)
    try:
        workspace = _unpack(parcel, arriving, largest_bytes)
        folder, target = key.folder(out), out / "workspaces" / workspace
        if (folder / "worked.json").exists():
            # The agent's work was here already, and went along: only the last judgement is new.
            for name in _RECORDS:
                if (arriving / _RUN / name).exists():
                    (arriving / _RUN / name).replace(folder / name)
            return
        runs.set_aside(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(exist_ok=True)
        (arriving / _WORKSPACE).rename(target)
        (arriving / _RUN / "workspace").symlink_to(os.path.relpath(target, folder))
        (arriving / _RUN).rename(folder)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def _unpack(parcel: bytes, into: Path, largest_bytes: int) -> str:
    """Write the parcel's `run` and `workspace` below a new folder; returns the workspace's name.

    Raises:
        BadParcel: anything else is in it.
    """
    workspace = ""
    room = largest_bytes
    for name in (_RUN, _WORKSPACE):
        (into / name).mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(parcel), mode="r:gz") as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or path.parts[:1] not in ((_RUN,), (_WORKSPACE,)):
                    raise BadParcel(f"{member.name!r} is not below the run")
                if path.parts[:2] == (_RUN, "workspace"):
                    workspace = _linked(member)
                elif member.isdir():
                    (into / path).mkdir(parents=True, exist_ok=True)
                elif member.isreg() and (stream := tar.extractfile(member)):
                    room -= member.size
                    if room < 0:
                        raise BadParcel(f"it holds more than {largest_bytes} bytes")
                    with (into / path).open("xb") as target:
                        shutil.copyfileobj(stream, target)
                    (into / path).chmod(0o755 if member.mode & 0o100 else 0o644)
                else:
                    raise BadParcel(f"{member.name!r} is no plain file")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BadParcel(f"it cannot be unpacked: {error}") from error
    if not workspace:
        raise BadParcel("it has no workspace")
    return workspace


def _linked(member: tarfile.TarInfo) -> str:
    """The name of the workspace that the run's link leads to."""
    link = _LINK.fullmatch(member.linkname)
    if not member.issym() or not link or member.name != f"{_RUN}/workspace":
        raise BadParcel(f"{member.name!r} is not the link to the run's workspace")
    return link[1]

"""A folder of exported files that can be written again, and never over something that somebody else wrote."""

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hawkeye_mcp.state import write_atomically

# Hidden and without a suffix, so that no reader of CSV or of logs takes it for one of the files.
RECORD = ".hawkeye-export"


class NotOurs(ValueError):
    """A file in the way was not written by an export, or was changed since; the message names it and says what to do."""


class Written(BaseModel):
    """What exports left in a folder: the sha256 of each file, by its name."""

    model_config = ConfigDict(extra="forbid")

    files: dict[str, str]


def write(folder: Path, files: dict[str, str]) -> list[Path]:
    """Write all files, or none if one of them would replace what is not an earlier export's; returns their paths.

    Each file is replaced whole. What an earlier export wrote and this one does not stays.

    Raises:
        NotOurs: naming the first such file.
        OSError: the folder cannot be read or written.
    """
    before = _before(folder)
    after = {name: _sha256(text.encode("utf-8")) for name, text in files.items()}
    for name in files:
        path = folder / name
        # A file that says the same already is left by an export that was cut off before its record.
        if path.exists() and _sha256(path.read_bytes()) not in (before.get(name), after[name]):
            why = "was changed since it was exported" if name in before else "was not written by an export"
            raise NotOurs(f"{path} {why}, so it is not replaced; name another folder, or move that file away.")
    for name, text in files.items():
        write_atomically(folder / name, text)
    write_atomically(folder / RECORD, Written(files=before | after).model_dump_json(indent=1) + "\n")
    return [folder / name for name in files]


def _before(folder: Path) -> dict[str, str]:
    path = folder / RECORD
    try:
        return Written.model_validate_json(path.read_bytes()).files if path.exists() else {}
    except ValidationError:
        raise NotOurs(f"{path} is no record of an export; name another folder, or move that file away.") from None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

"""A person's word that a workload computes what was meant, where nothing else can say so.

A workload whose `workload.toml` says `approval = "required"` is scored by nobody before it is approved. The word is given
for the text that was shown: `approved.json` has the hashes of its files, and any change of one takes it back.
"""

import datetime
import hashlib
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hawkeye_mcp import state

FILE = "approved.json"
TEXTS = ("workload.py", "workload.toml")
ARRAYS = "workload.npz"  # what the program keeps, where it keeps any


class Approval(BaseModel):
    """What `approved.json` holds. when: in UTC, as ISO 8601."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: dict[str, str]
    when: str


def approve(folder: Path, shown: dict[str, bytes]) -> Path:
    """Write down that a person approves of a text; the file that says so.

    shown: the text that the person saw, by file.

    Raises:
        OSError: the folder cannot be written to.
    """
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    path = folder / FILE
    state.write_atomically(path, Approval(sha256=hashes(shown), when=when).model_dump_json(indent=2) + "\n")
    return path


def texts(folder: Path) -> dict[str, bytes]:
    """The files that make up a workload: its text, and arrays that belong to it."""
    names = TEXTS if not (folder / ARRAYS).exists() else (*TEXTS, ARRAYS)
    return {name: (folder / name).read_bytes() for name in names}


def hashes(found: dict[str, bytes]) -> dict[str, str]:
    """SHA-256 of each."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in found.items()}


def missing(folder: Path) -> str | None:
    """Why a workload that needs approval is not approved as it stands; None if it is."""
    try:
        approval = Approval.model_validate(json.loads((folder / FILE).read_text(encoding="utf-8")))
        now = hashes(texts(folder))
    except FileNotFoundError:
        return "no person has approved it"
    except (OSError, ValueError, RecursionError, ValidationError):
        return f"its {FILE} cannot be read"
    changed = [name for name in (*TEXTS, ARRAYS) if approval.sha256.get(name) != now.get(name)]
    return f"{' and '.join(changed)} changed after it was approved" if changed else None

"""An imported workload as one message: the files that a judgement by it needs, and the name that their bytes give it."""

import base64
import hashlib
import json
import re
from typing import Annotated, Literal

from pydantic import Base64Bytes, BaseModel, ConfigDict, StringConstraints

from hawkeye_mcp.intake import written
from hawkeye_mcp.workloads import Workload

PATH = "/workloads/"
LARGEST_BYTES = 96 << 20  # of a message: the largest files, in base64, and room
_NAMED = re.compile(r"sha256:([0-9a-f]{64})")

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=written.LONGEST_NAME)]
FileName = Literal["workload.py", "workload.toml", "workload.npz", "approved.json"]


class Bundle(BaseModel):
    """name: of the workload's folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    files: dict[FileName, Base64Bytes]


def packed(workload: Workload) -> bytes:
    """The message.

    Raises:
        NotImported: the folder holds something that an import never writes.
        OSError: it cannot be read.
    """
    files = {name: (workload.folder / name).read_bytes() for name in written.check(workload.folder)}
    encoded = {name: base64.b64encode(data).decode("ascii") for name, data in files.items()}
    return json.dumps({"files": encoded, "name": workload.name}).encode()


def digest(message: bytes) -> str:
    return hashlib.sha256(message).hexdigest()


def reference(of: str) -> str:
    """What a call says for its workload, once the server has the message of this digest."""
    return f"sha256:{of}"


def digest_in(name: str) -> str | None:
    """The digest in what a call says for its workload; None if it says something else."""
    found = _NAMED.fullmatch(name)
    return found[1] if found else None

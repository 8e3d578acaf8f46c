"""The text of a reference: how large it may be, and what is wrong with one that cannot be read."""

from pathlib import Path
from typing import Literal

LARGEST_BYTES = 1_000_000
SUFFIXES = (".cu", ".cuh", ".cc", ".cpp", ".cxx", ".c", ".h", ".hpp", ".inl", ".py")

Kind = Literal["missing", "unreadable", "too_big", "not_text", "unknown_type", "too_slow", "too_complex", "syntax"]


class ReferenceUnreadable(ValueError):
    """No facts can be had of a file; the message says why and what to do."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read(path: Path) -> str:
    """The text of a reference.

    Raises:
        ReferenceUnreadable: missing, unreadable, too large, not UTF-8, or of no type that is read.
    """
    if path.suffix not in SUFFIXES:
        raise ReferenceUnreadable("unknown_type", f"{path}: not a type that is read. Types: {', '.join(SUFFIXES)}.")
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise ReferenceUnreadable("missing", f"{path}: there is no such file. Check the path.") from None
    except OSError as error:
        raise ReferenceUnreadable("unreadable", f"{path}: cannot be read: {error.strerror}.") from None
    if len(data) > LARGEST_BYTES:
        raise ReferenceUnreadable(
            "too_big", f"{path}: larger than {LARGEST_BYTES} bytes. Cut it down to the kernels and what they use."
        )
    if b"\0" in data:
        raise ReferenceUnreadable("not_text", f"{path}: holds NUL bytes, so it is no source text.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ReferenceUnreadable("not_text", f"{path}: not UTF-8 (byte {error.start}). Save it as UTF-8.") from None

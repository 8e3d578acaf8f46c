"""Kernel texts: how large one may be, how it is read from a file, and the name it goes by."""

import hashlib
from pathlib import Path

LARGEST_BYTES = 1_000_000


class UnreadableKernel(ValueError):
    """The file holds no kernel text; the message says why and what to do, and goes on after the file's name."""


def sha256(text: str) -> str:
    return hashlib.sha256(encoded(text)).hexdigest()


def encoded(text: str) -> bytes:
    """UTF-8 of any text that a client can send, lone surrogates included."""
    return text.encode("utf-8", errors="surrogatepass")


def read(file: Path) -> str:
    """The text of a kernel file.

    Raises:
        UnreadableKernel: missing, unreadable, too large or not UTF-8.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise UnreadableKernel(f"cannot be read: {error.strerror}. Give a Python file.") from None
    if len(data) > LARGEST_BYTES:
        raise UnreadableKernel(
            f"is larger than {LARGEST_BYTES} bytes, the most that a kernel file may have. Shorten it."
        )
    try:
        return data.decode("utf-8-sig")  # a byte order mark is no part of the text, here as for Python
    except UnicodeDecodeError as error:
        raise UnreadableKernel(f"is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None

"""Reads a job file as JSON, and nothing that only looks like one."""

import json
from pathlib import Path
from typing import Any, NoReturn

LARGEST_BYTES = 1_000_000


class UnreadableJob(ValueError):
    """The file holds no job.

    kind: not_found, not_a_file, unreadable, too_large, not_utf8, not_json, too_deep or not_an_object. fix: what to do.
    """

    def __init__(self, kind: str, message: str, fix: str) -> None:
        super().__init__(f"{message} {fix}")
        self.kind, self.message, self.fix = kind, message, fix


def read(path: Path) -> dict[str, Any]:
    """The object that a job file holds.

    Raises:
        UnreadableJob: whatever is there instead.
    """
    data = _bytes(path)
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableJob("not_utf8", f"It is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.") from None
    except UnicodeEncodeError:
        raise UnreadableJob(
            "not_json", "It holds a lone surrogate (\\ud800 to \\udfff), which is no text.", "Remove it."
        ) from None
    except json.JSONDecodeError as error:
        raise UnreadableJob(
            "not_json", f"It is not JSON: {error.msg}, at line {error.lineno}, column {error.colno}.", "Mend it there."
        ) from None
    except RecursionError:
        raise UnreadableJob(
            "too_deep", "Its lists and objects are nested too deeply.", "A job needs four levels."
        ) from None
    except ValueError as error:  # of the two hooks; or an integer of thousands of digits
        raise UnreadableJob("not_json", f"It is not JSON for a job: {error}.", "Mend it there.") from None
    if not isinstance(found, dict):
        raise UnreadableJob(
            "not_an_object",
            f"It holds {_kind(found)}, and a job is one object.",
            'Begin with {"schema": "hawkeye.job/1", ...}; `hawkeye job schema` says the rest.',
        )
    return found


def _bytes(path: Path) -> bytes:
    try:
        if not path.exists():
            raise UnreadableJob("not_found", "There is no such file.", "Name a job file.")
        if not path.is_file():  # reading a pipe or a device might never end
            raise UnreadableJob("not_a_file", "It is no regular file.", "Name a job file.")
        with path.open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise UnreadableJob("unreadable", f"It cannot be read: {error.strerror}.", "Make it readable.") from None
    if len(data) > LARGEST_BYTES:
        raise UnreadableJob(
            "too_large", f"It is larger than {LARGEST_BYTES} bytes.", "Put programs into files and name their paths."
        )
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"{twice!r} is declared twice in one object")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _kind(value: object) -> str:
    names: dict[type, str] = {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")

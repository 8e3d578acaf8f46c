"""A job file as it was declared, also where it is no valid job: so that one check finds all of its faults.

The models' own faults (a missing field, a wrong type) become problems here; `Declared` answers what the fields without
such a fault say, for the rules about several fields.
"""

import difflib
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticUndefined

from hawkeye_mcp.intake import fields
from hawkeye_mcp.intake.report import Problem

Loc = tuple[int | str, ...]
_SHOULD = "Input should be "


class Unknown:
    """Stands for a field with a fault of its own: it equals nothing, and nothing is in it."""

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())


UNKNOWN = Unknown()


class Declared:
    """What fields say, by their names: `declared("input.type")`; defaults where nothing is said, UNKNOWN for faulty ones."""

    def __init__(self, raw: dict[str, Any], faulty: list[Loc]) -> None:
        self._raw, self._faulty = raw, [fields.name(loc) for loc in faulty]

    def __call__(self, field: str) -> Any:
        if any(f"{bad}.".startswith(f"{field}.") or f"{bad}[".startswith(f"{field}[") for bad in self._faulty):
            return UNKNOWN
        if any(field.startswith((f"{bad}.", f"{bad}[")) for bad in self._faulty):
            return UNKNOWN
        value: Any = self._raw
        for part in field.split("."):
            if not isinstance(value, dict) or part not in value:
                default = fields.table()[field].get_default(call_default_factory=True)
                return None if default is PydanticUndefined else default
            value = value[part]
        return value

    def says(self, field: str) -> bool:
        """Whether the file itself says something there, be it the default."""
        value: Any = self._raw
        for part in field.split("."):
            if not isinstance(value, dict) or part not in value:
                return False
            value = value[part]
        return True

    def faulty(self, field: str) -> bool:
        return self(field) is UNKNOWN

    def paths(self) -> dict[str, str]:
        """Field: path, of every file that is named."""
        named = {field: self(field) for field in ("input.path", "conversion.port", "input.specification.baseline")}
        references = self._raw.get("references")
        for i, reference in enumerate(references if isinstance(references, list) else []):
            named[f"references[{i}].path"] = reference.get("path") if isinstance(reference, dict) else None
        return {field: path for field, path in named.items() if isinstance(path, str) and path}


def faults(error: ValidationError, raw: dict[str, Any]) -> dict[Loc, Problem]:
    """What is wrong with single fields, by their places."""
    found: dict[Loc, list[ErrorDetails]] = {}
    for each in error.errors(include_url=False):
        found.setdefault(_place(each, raw), []).append(each)
    return {loc: _problem(loc, details) for loc, details in found.items()}


def _place(error: ErrorDetails, raw: Any) -> Loc:
    """Where in the file it is: pydantic also names the types that it tried, and "[key]"."""
    loc: list[int | str] = []
    for part in error["loc"]:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            if error["type"] != "missing":
                break
        loc.append(part)
    return tuple(loc)


def _problem(loc: Loc, errors: list[ErrorDetails]) -> Problem:
    field, first = fields.name(loc), errors[0]
    about = fields.table().get(fields.pattern(loc))
    description = (about and about.description) or ""
    if first["type"] == "missing":
        return Problem(field=field, message=f"{field} is missing.", fix=f"Add it. {description}".rstrip())
    if first["type"] == "extra_forbidden":
        legal = fields.beside(loc[:-1])
        near = difflib.get_close_matches(str(loc[-1]), legal, n=1)
        fix = f"Did you mean {near[0]!r}? " if near else "Remove it. "
        return Problem(field=field, message=f"There is no field {field}.", fix=f"{fix}There are {', '.join(legal)}.")
    got = "" if isinstance(first["input"], dict | list) else f" (got {_shown(first['input'])})"
    if about is None and loc[:1] == ("sizes",):
        description = fields.table()["sizes"].description or ""
    fix = "Use one of these." if first["type"] == "literal_error" and " or " in first["msg"] else "Correct it."
    return Problem(field=field, message=f"{_wrong(field, errors)}{got}.", fix=f"{fix} {description}".rstrip())


def _wrong(field: str, errors: list[ErrorDetails]) -> str:
    """`x should be this or that`, of all the types that were tried."""
    told = list(dict.fromkeys(each["msg"].removeprefix("Value error, ").rstrip(".") for each in errors))
    wanted = [each.removeprefix(_SHOULD) for each in told if each.startswith(_SHOULD)]
    return f"{field} should be {' or '.join(wanted)}" if wanted else f"{field}: {told[0]}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."

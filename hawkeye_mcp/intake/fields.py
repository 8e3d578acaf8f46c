"""The fields of the job file by name, as its models have them: for messages, for defaults and for the table of them."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hawkeye_mcp.intake.job import Job


@cache
def table() -> dict[str, FieldInfo]:
    """Each field by its name from the top, with [] for "each of": `references[].path`."""
    return dict(_walk(Job, ""))


def _walk(model: type[BaseModel], at: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        here = f"{at}{field.alias or name}"
        yield here, field
        if part := _model_in(field.annotation):
            each = "[]" if get_origin(field.annotation) is tuple or "tuple" in str(field.annotation) else ""
            yield from _walk(part, f"{here}{each}.")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a type is of, or is a list of, or is unless it is null."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def name(loc: tuple[int | str, ...]) -> str:
    """`references[0].path` of ("references", 0, "path")."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


def pattern(loc: tuple[int | str, ...]) -> str:
    """The field of `table` that a place in a job is of."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


def beside(loc: tuple[int | str, ...]) -> list[str]:
    """Names that the object at `loc` may have."""
    at = pattern(loc)
    start = f"{at}." if at else ""
    return [
        found.removeprefix(start) for found in table() if found.startswith(start) and "." not in found[len(start) :]
    ]


def markdown() -> str:
    """All fields as a table."""
    lines = ["| field | values | default | what it is |", "|---|---|---|---|"]
    lines += [
        f"| `{at}` | {_values(field.annotation)} | {_default(field)} | {field.description} |"
        for at, field in table().items()
    ]
    return "\n".join(lines)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel) or default in ((), "", {}):
        return ""
    return "null" if default is None else f"`{str(default).lower() if isinstance(default, bool) else default}`"


_WORDS = {"str": "text", "int": "integer", "float": "number", "bool": "true or false", "NoneType": "null"}


def _values(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if annotation is None or isinstance(annotation, type):
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return "object"
        return _WORDS.get(getattr(annotation, "__name__", "None"), "object")
    parts = [part for part in get_args(annotation) if part is not Ellipsis]
    if get_origin(annotation) is tuple:
        return f"list of {_values(parts[0])}"
    if get_origin(annotation) is dict:
        return "object"
    if hasattr(annotation, "__metadata__"):
        return _values(parts[0])
    return " or ".join(dict.fromkeys(map(_values, parts)))

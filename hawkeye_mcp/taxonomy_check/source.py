"""taxonomy/source/<row>/: what is written by hand of a row, once, and how the cells of every chip follow from it.

A row's folder is an ordinary workload (workload.toml and workload.py: the problem, its inputs, its oracle), beside
templates of the two kernels and the guide, and cell.toml with what is claimed. A template may use the parameters of
cell.toml and the facts of the chip; a workload file may be a template too, with .j2 after its name.
"""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import jinja2
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hawkeye_mcp import content
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.workloads import Workload

FILES = ("naive_kernel.py", "optimized_kernel.py", "guide.md", "config.json")
_WORKLOAD_FILES = ("workload.toml", "workload.py")


class BrokenSource(ValueError):
    """A row's source cannot be read or rendered; the message says which file and why."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Claim(_Table):
    """What the technique does to one figure of the profile, from the naive kernel to the optimized one."""

    name: str
    direction: Literal["down", "up"]
    least_ratio: float = Field(gt=0, description="naive / optimized for down, optimized / naive for up")


class ChipTable(_Table):
    """What differs on one chip."""

    predicted_speedup: tuple[float, float] = Field(description="range of naive time / optimized time, both predicted")
    counters: tuple[Claim, ...] | None = None
    params: dict[str, Any] = {}
    applies: bool = Field(True, description="False: nothing is claimed but that nothing changes")


class Source(_Table):
    """One row's cell.toml; every table in it that is none of these fields is a chip's."""

    title: str
    one_line: str
    second: dict[str, int] = Field(description="a second size at which results are compared, of the check size's names")
    params: dict[str, Any] = {}
    counters: tuple[Claim, ...]
    chips: dict[str, ChipTable]

    @model_validator(mode="before")
    @classmethod
    def _chips_apart(cls, given: dict[str, Any]) -> dict[str, Any]:
        own = {name: value for name, value in given.items() if name in cls.model_fields}
        return own | {"chips": {name: value for name, value in given.items() if name not in own}}


def folder() -> Path:
    return content.folder("taxonomy") / "source"


def rows() -> list[str]:
    """Every row that has a source, in order."""
    return sorted(path.parent.name for path in folder().glob("*/cell.toml"))


def load(row: str) -> Source:
    """Raises BrokenSource."""
    path = folder() / row / "cell.toml"
    try:
        return Source.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise BrokenSource(f"{path} does not say what a cell needs: {wrong}.") from None
    except (OSError, RecursionError, ValueError) as error:
        raise BrokenSource(f"{path} cannot be read: {error}.") from None


def claims(row: str, tpu: str) -> tuple[Claim, ...]:
    """What the row claims on one chip."""
    source, own = load(row), chip(row, tpu)
    if own.counters is not None:
        return own.counters
    return source.counters if own.applies else ()


def chip(row: str, tpu: str) -> ChipTable:
    """The row's table of one chip.

    Raises:
        BrokenSource: it has none.
    """
    try:
        return load(row).chips[tpu]
    except KeyError:
        raise BrokenSource(f"{row}/cell.toml has no table for {tpu}; say what the row does there.") from None


def cell(row: str, facts: Mapping[str, Any], versions: Versions) -> dict[str, str]:
    """The four files of one cell by name.

    facts: of the chip, see facts.py. versions: with which the speedup is predicted.

    Raises:
        BrokenSource: a file is missing, does not render or does not say what it must.
    """
    tpu = facts["name"]
    texts = {name: _rendered(row, f"{name}.j2", facts) for name in FILES if name != "config.json"}
    return texts | {"config.json": _config(row, tpu, facts, versions)}


def problem(row: str, facts: Mapping[str, Any], *, second: bool = False) -> dict[str, str]:
    """The two files of the row's workload on one chip; second: its check size, and its full one, are the second size."""
    texts = {}
    for name in _WORKLOAD_FILES:
        template = folder() / row / f"{name}.j2"
        texts[name] = _rendered(row, template.name, facts) if template.exists() else _read(folder() / row / name)
    if second:
        size = load(row).second
        texts["workload.toml"] = _with_sizes(texts["workload.toml"], size)
        if any(found != size for found in tomllib.loads(texts["workload.toml"])["sizes"].values()):
            raise BrokenSource(f"{row}/workload.toml: write the sizes as lines of [sizes]: full = {{ ... }}.")
    return texts


def _with_sizes(toml: str, size: Mapping[str, int]) -> str:
    shown = "{ " + ", ".join(f"{name} = {value}" for name, value in size.items()) + " }"
    lines, inside = [], False
    for line in toml.splitlines():
        if line.startswith("["):
            inside = line.strip() == "[sizes]"
        if inside and line.split("=")[0].strip() in ("full", "check"):
            line = f"{line.split('=')[0].strip()} = {shown}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _config(row: str, tpu: str, facts: Mapping[str, Any], versions: Versions) -> str:
    """config.json: what the cell claims, for programs."""
    source, declared = load(row), _declared(row, facts)
    own, arrays = chip(row, tpu), declared.inputs + declared.outputs
    sizes = [*declared.sizes.items(), ("second", source.second)]
    config = {
        "title": source.title,
        "one_line": source.one_line,
        "applies": own.applies,
        "shapes": {
            size: {a.name: [dims[d] if isinstance(d, str) else d for d in a.shape] for a in arrays}
            for size, dims in sizes
        },
        "dtypes": {array.name: array.dtype for array in arrays},
        "outputs": [array.name for array in declared.outputs],
        "tolerance": {"metric": declared.tolerance.metric, "limit": declared.tolerance.limit},
        "counters": [claim.model_dump() for claim in claims(row, tpu)],
        "predicted_speedup": {
            "range": list(own.predicted_speedup),
            "source": "predicted",
            "versions": {name: getattr(versions, name) for name in ("jax", "jaxlib", "libtpu")},
        },
    }
    return _json(config) + "\n"


def _declared(row: str, facts: Mapping[str, Any]) -> Workload:
    """The row's workload.toml on one chip."""
    text = problem(row, facts)["workload.toml"]
    try:
        found = Workload(name=row, folder=folder() / row, **tomllib.loads(text))
    except (tomllib.TOMLDecodeError, TypeError, ValidationError) as error:
        raise BrokenSource(f"{row}/workload.toml is not a workload's declaration: {error}.") from None
    if set(load(row).second) != set(found.sizes["check"]):
        raise BrokenSource(
            f"{row}/cell.toml: second has the dimensions {', '.join(load(row).second)} and the check size"
            f" {', '.join(found.sizes['check'])}; name the same."
        )
    return found


def _json(value: Any, depth: int = 0) -> str:
    """JSON that a person reads: lists and tables of plain values on one line."""
    if isinstance(value, dict) and any(isinstance(each, (dict, list)) for each in value.values()) and depth < 3:
        pad = "  " * (depth + 1)
        inner = ",\n".join(f"{pad}{json.dumps(key)}: {_json(each, depth + 1)}" for key, each in value.items())
        return "{\n" + inner + "\n" + "  " * depth + "}"
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        pad = "  " * (depth + 1)
        return "[\n" + ",\n".join(f"{pad}{json.dumps(each)}" for each in value) + "\n" + "  " * depth + "]"
    return json.dumps(value, ensure_ascii=False)


def params(row: str, tpu: str) -> dict[str, Any]:
    """What cell.toml gives its templates on one chip."""
    return {**load(row).params, **chip(row, tpu).params}


def _rendered(row: str, name: str, facts: Mapping[str, Any]) -> str:
    tpu = facts["name"]
    try:
        template = _environment().from_string(_read(folder() / row / name))
        return template.render(tpu=tpu, chip=facts, row=row, **params(row, tpu))
    except jinja2.TemplateError as error:
        line = f" line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise BrokenSource(f"{row}/{name}{line} does not render for {facts['name']}: {error.message}.") from None


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BrokenSource(f"{path} cannot be read: {error.strerror}.") from None

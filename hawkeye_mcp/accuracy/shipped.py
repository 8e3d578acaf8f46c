"""Rows with what their predictions are made of, kept in the package: predicting all of them anew takes hours.

`predicted.jsonl` is written by `hawkeye accuracy --write`. Its first line says by which versions and which method; under
others it is as good as none.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hawkeye_mcp import state
from hawkeye_mcp.accuracy.rows import Row
from hawkeye_mcp.versions import versions

METHOD = "3"  # of finding features; a change makes all be found again
Features = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Shipped:
    """tokamax: the version whose rows these are. rows: with the side of the split on which each fell."""

    tokamax: str | None = None
    rows: tuple[Row, ...] = ()
    features: Mapping[str, Features] = dataclasses.field(default_factory=dict)


def path() -> Path:
    return Path(__file__).with_name("predicted.jsonl")


@functools.cache
def load() -> Shipped:
    """What is in the package, nothing if it is damaged or other versions or another method made it."""
    try:
        return _read()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Shipped()


def _read() -> Shipped:
    head, *lines = path().read_text(encoding="utf-8").splitlines()
    told = json.loads(head)
    if told.pop("tokamax_version", None) is None or told != _made_by():
        return Shipped()
    entries = [json.loads(line) for line in lines]
    return Shipped(
        json.loads(head)["tokamax_version"],
        tuple(Row(**entry["row"]) for entry in entries),
        {entry["row"]["id"]: entry["features"] for entry in entries if entry["features"]},
    )


def write(rows: Iterable[Row], features: Mapping[str, Features], tokamax_version: str) -> Path:
    """Keep these rows; one without features stays, so that it is known what is missing."""
    lines: list[dict[str, Any]] = [_made_by() | {"tokamax_version": tokamax_version}]
    lines += [{"row": dataclasses.asdict(row), "features": features.get(row.id)} for row in rows]
    state.write_atomically(path(), "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    load.cache_clear()
    return path()


def _made_by() -> dict[str, str]:
    now = versions()
    return {"method": METHOD, "jax": now.jax, "jaxlib": now.jaxlib, "libtpu": now.libtpu}

"""Kernel texts that say themselves what they run on: `inputs: float32[256,128] int32[8]<16` in their docstring."""

import base64
import re
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

_INPUT = re.compile(r"(?P<dtype>[a-z]+\d+)\[(?P<shape>[\d,]*)\](?:<(?P<limit>\d+))?")


class NoInputs(ValueError):
    """The text does not say what it runs on."""


@dataclass(frozen=True)
class Case:
    """A kernel text and what it runs on: the full size's signature, and inputs as a sandbox takes them."""

    name: str
    source: str
    full: list[tuple[tuple[int, ...], str]]
    inputs: list[dict[str, Any]]


def case(name: str, source: str) -> Case:
    """Floats are drawn from a normal, integers below the limit that follows the brackets, by a seed of the name.

    Raises:
        NoInputs.
    """
    line = next((line for line in source.splitlines() if line.startswith("inputs:")), "")
    found = list(_INPUT.finditer(line))
    if not found:
        raise NoInputs(f"{name} has no line `inputs: float32[8,128] int32[4]<16`")
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    full, inputs = [], []
    for one in found:
        shape = tuple(int(size) for size in one["shape"].split(",") if size)
        values = (
            generator.integers(0, int(one["limit"] or 2), shape)
            if one["dtype"].startswith(("int", "uint"))
            else generator.standard_normal(shape)
        )
        full.append((shape, one["dtype"]))
        inputs.append({"shape": list(shape), "dtype": one["dtype"], "data": _encoded(values, one["dtype"])})
    return Case(name, source, full, inputs)


def _encoded(values: Any, dtype: str) -> str:
    if dtype == "bfloat16":  # the upper half of a float32; numpy alone does not know it
        data = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    else:
        data = values.astype(dtype).tobytes()
    return base64.b64encode(data).decode()

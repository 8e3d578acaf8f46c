"""Values as Python writes them: numbers of a dtype, dtypes and small arrays, each exactly.

Runs where jax does: in the process of a user's source and in the sandbox of a port.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


class NotEmittable(Exception):
    """A program that cannot be written as plain calls of jax.lax; primitive: the operation or dtype that cannot."""

    def __init__(self, primitive: str, why: str = "") -> None:
        self.primitive = primitive
        super().__init__(
            f"The program uses {primitive!r}, which cannot be written as a plain jax.lax call"
            f"{': ' + why if why else ''}. Write that part with other operations, or give a port of it in plain JAX."
        )


# The dtypes of a workload's arrays; what is left out has no TPU kernel to compare (complex, random keys, 64 bits).
DTYPES = (
    "bool int2 int4 int8 int16 int32 uint2 uint4 uint8 uint16 uint32 bfloat16 float16 float32 float8_e3m4 float8_e4m3 "
    "float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn"
).split()


def dtype(value: Any) -> str:
    """A dtype, such as jnp.float32.

    Raises:
        NotEmittable: it is none of DTYPES.
    """
    name = str(value)
    if name not in DTYPES:
        raise NotEmittable(name, "its dtype is not one that a workload's arrays can have")
    return "jnp.bool_" if name == "bool" else f"jnp.{name}"


def number(value: Any, of: Any) -> str:
    """A scalar of a dtype as a Python number that gives the same scalar when it is cast to that dtype.

    float32 is written with as few digits as do; narrower types with all, so that the same digits in float32 mean the
    same value.
    """
    dtype(of)
    name = str(of)
    if name == "bool":
        return str(bool(value))
    if "int" in name:
        return str(int(value))
    wide = float(value)
    if math.isnan(wide):
        return "jnp.nan"
    if math.isinf(wide):
        return "jnp.inf" if wide > 0 else "-jnp.inf"
    if name == "float32":
        short = float(str(np.float32(value)))
        if np.float32(short) == np.float32(value):
            return repr(short)
    return repr(wide)


def typed(value: Any, of: Any) -> str:
    """A scalar of a dtype as an array of no dimensions."""
    return f"{dtype(of)}({number(value, of)})"


def array(value: NDArray[Any]) -> str:
    """An array with its dtype, element by element."""

    def nested(part: NDArray[Any]) -> str:
        if part.ndim == 0:
            return number(part[()], part.dtype)
        return f"[{', '.join(nested(item) for item in part)}]"

    return f"jnp.array({nested(value)}, {dtype(value.dtype)})"


def ints(values: Any) -> str:
    """A tuple of whole numbers, or of such tuples."""
    if isinstance(values, tuple | list):
        items = [ints(item) for item in values]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return str(int(values))


def described(aval: Any) -> str:
    """dtype[shape], as comments say it."""
    return f"{aval.dtype}{list(aval.shape)}"

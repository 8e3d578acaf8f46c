"""Names of arguments: Python identifiers, each once, that no emitted program uses for something else."""

import keyword
import re
from collections.abc import Iterable

_TAKEN = {"jax", "jnp", "np", "lax", "workload", "oracle", "create_inputs", "key", "size", "float"}


def identifiers(names: Iterable[str]) -> list[str]:
    """`layers.0.weight` becomes `layers_0_weight`; what would be there twice gets a number."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
        if plain[0].isdigit() or keyword.iskeyword(plain) or plain in _TAKEN:
            plain = f"x_{plain}"
        unique, count = plain, 1
        while unique in found:
            count += 1
            unique = f"{plain}_{count}"
        found.append(unique)
    return found

"""What a function that gives inputs gives at a seed.

Runs beside a person's own source, and in the sandbox of a file that stands for a program; imports nothing of this package.
"""

import inspect
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def given(give: Callable[..., Any], seed: int) -> Any:
    """Its result, with every generator that it may draw from set to the seed."""
    generators(seed)
    return give(*argument(give, seed))


def generators(seed: int) -> None:
    """Set every generator that such a file draws from, torch's if it is there."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def argument(give: Callable[..., Any], seed: int) -> list[Any]:
    """What it is called with: a key if it asks for one by that name, a number for any other parameter."""
    import jax

    needed = [
        p for p in inspect.signature(give).parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    if not needed:
        return []
    return [jax.random.key(seed) if needed[0].name in ("key", "rng", "rng_key") else seed]

"""Draws of a workload's inputs on the CPU. Imports jax: workers only."""

from types import ModuleType
from typing import Any

import jax

# Most of a draw's time is that of its compilation, by far, and jax's generators are long programs. Compiled with less
# care it runs as fast, gives the same bits and is there in a third to a half of the time.
QUICKLY = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


def draw(module: ModuleType, dims: dict[str, int]) -> Any:
    """A function of a key that gives the module's inputs at one size."""
    return jax.jit(lambda key: module.create_inputs(key, dims), compiler_options=QUICKLY)

"""Inside a libtpu worker: compile artifacts for a named TPU with the real compiler, on a machine without one."""

import base64
import functools
import os
import re
from pathlib import Path
from typing import Any

import jax
from jax import export
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from hawkeye_mcp.chips import CHIPS


@functools.cache
def device(tpu: str) -> Any:
    """The first device of the smallest topology of a generation; nothing can run on it, all can be compiled for it."""
    return topologies.get_topology_desc(platform="tpu", topology_name=CHIPS[tpu].topology).devices[0]


def compile_exported(exported: export.Exported, tpu: str) -> Any:
    """Raises whatever the compiler says, as jax passes it on."""
    sharding = SingleDeviceSharding(device(tpu))
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding) for aval in exported.in_avals]
    return jax.jit(exported.call).trace(*shapes).lower(lowering_platforms=("tpu",)).compile()

"""Inside a libtpu worker: compile artifacts for a named TPU with the real compiler, on a machine without one."""

import base64
import dataclasses
import functools
import os
from collections.abc import Callable
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


def compile_artifact(artifact_b64: str, tpu: str) -> dict[str, Any]:
    """Compile an artifact as it is: {"ops", "memory"}, or {"compiler": the compiler's words} if it refuses."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import hlo, static_profile

    program = artifact.read(base64.b64decode(artifact_b64))
    device(tpu)  # what fails here is no fault of the artifact
    try:
        compiled = compile_exported(static_profile.numbered(program), tpu)
    except (jax.errors.JaxRuntimeError, ValueError, NotImplementedError, TypeError) as error:
        return {"compiler": f"{error}"}
    memory = compiled.memory_analysis()
    return {
        "ops": [dataclasses.asdict(op) for op in hlo.ops(compiled.as_text())],
        "hbm_temp_bytes": int(memory.temp_size_in_bytes),
        "peaks": static_profile.peaks(tpu),
    }


def plan_kernels(artifact_b64: str, tpu: str) -> dict[str, Any]:
    """The grids to profile of each Mosaic kernel of an artifact; nothing is compiled."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import static_profile

    return {"kernels": static_profile.plan_kernels(artifact.read(base64.b64decode(artifact_b64)), tpu)}


def profile_point(artifact_b64: str, tpu: str, kernel: int, point: list[int]) -> dict[str, Any]:
    """Cycles of one kernel of an artifact with one grid."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import static_profile

    return static_profile.profile_point(artifact.read(base64.b64decode(artifact_b64)), tpu, kernel, point)


def profile_around(artifact_b64: str, tpu: str) -> dict[str, Any]:
    """Cycles of the XLA operations around the kernels of an artifact, at their true shapes."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import static_profile

    return {"ops": static_profile.profile_around(artifact.read(base64.b64decode(artifact_b64)), tpu)}


def compile_baseline(workload: str, tpu: str, at: dict[str, int]) -> dict[str, Any]:
    """Compile a workload's plain JAX at its full size with some dimensions replaced: {"ops", "peaks"}."""
    from hawkeye_mcp import workloads
    from hawkeye_mcp.judge.verify import module_of
    from hawkeye_mcp.profiler import hlo, static_profile

    module = module_of(workload)
    dims = dict(workloads.find(workload).sizes["full"]) | at
    shapes = jax.eval_shape(lambda: module.create_inputs(jax.random.key(0), dims))
    exported = export.export(jax.jit(module.workload), platforms=["tpu"])(*shapes)
    compiled = compile_exported(exported, tpu)
    return {
        "ops": [dataclasses.asdict(op) for op in hlo.ops(compiled.as_text())],
        "peaks": static_profile.peaks(tpu),
    }


def warm(tpu: str) -> dict[str, Any]:
    """Load libtpu and compile something small for one chip."""
    import jax.numpy as jnp

    exported = export.export(jax.jit(lambda x: x + 1), platforms=["tpu"])(jax.ShapeDtypeStruct((8, 128), jnp.float32))
    compile_exported(exported, tpu)
    return {}


def count_point(artifact_b64: str, tpu: str, kernel: int, point: list[int]) -> dict[str, Any]:
    """Cycles of one kernel of an artifact with one grid, and what it does in them; only in a "tracer" worker, which dumps
    executed bundles."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import counting

    program = artifact.read(base64.b64decode(artifact_b64))
    return counting.count_point(program, tpu, kernel, point, Path(os.environ["TMPDIR"]))


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {
    "count_point": count_point,
    "compile": compile_artifact,
    "plan": plan_kernels,
    "profile_point": profile_point,
    "profile_around": profile_around,
    "compile_baseline": compile_baseline,
    "warm": warm,
}

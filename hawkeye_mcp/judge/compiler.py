"""Inside a libtpu worker: compile artifacts for a named TPU with the real compiler, on a machine without one."""

import base64
import dataclasses
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export
from jax._src.pallas.mosaic.error_handling import MosaicError
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from hawkeye_mcp.accuracy.features import HANDLERS as ACCURACY
from hawkeye_mcp.chips import CHIPS

SEED = 0  # of the one draw whose integers steer kernels; public, as that draw is never verified


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
    """Compile an artifact as it is: {"ops", "unread", "hbm_temp_bytes", "peaks"}, or {"compiler": the compiler's words}
    if it refuses. unread: why the compiled program cannot be read and ops is empty, else "".
    """
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import hlo, static_profile

    program = artifact.read(base64.b64decode(artifact_b64))
    device(tpu)  # what fails here is no fault of the artifact
    try:
        compiled = compile_exported(static_profile.numbered(program), tpu)
    except (jax.errors.JaxRuntimeError, MosaicError, ValueError, NotImplementedError, TypeError) as error:
        return {"compiler": f"{error}"}
    memory = compiled.memory_analysis()
    ops: list[hlo.Op] = []
    unread = ""
    try:
        ops = hlo.ops(compiled.as_text())
    except (jax.errors.JaxRuntimeError, hlo.Unreadable) as error:  # the first seen on 7x, of copies by its SparseCore
        unread = f"{error}"[:500]
    return {
        "ops": [dataclasses.asdict(op) for op in ops],
        "unread": unread,
        "hbm_temp_bytes": int(memory.temp_size_in_bytes),
        "peaks": static_profile.peaks(tpu),
    }


def plan_kernels(artifact_b64: str, tpu: str, steering: list[list[Any]] | None = None) -> dict[str, Any]:
    """The grids to profile of each Mosaic kernel of an artifact; nothing is compiled.

    steering: as `draw_steering` replies.
    """
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import static_profile

    known = None
    if steering is not None:
        known = [[None if array is None else np.asarray(array, np.int64) for array in of] for of in steering]
    return {"kernels": static_profile.plan_kernels(artifact.read(base64.b64decode(artifact_b64)), tpu, known)}


def draw_steering(artifact_b64: str, workload: str) -> dict[str, Any]:
    """Of each kernel the integer arrays that it holds in SMEM, for one draw of the workload's inputs at full size.

    Returns:
        "steering": of each kernel one entry for each operand, a nested list or None; "drawn": whether a kernel's depend
        on the inputs; "unknown": of each kernel why some are not known.
    """
    from hawkeye_mcp import artifact, workloads
    from hawkeye_mcp.judge.drawing import QUICKLY
    from hawkeye_mcp.judge.verify import module_of
    from hawkeye_mcp.profiler import mosaic, steering

    program = artifact.read(base64.b64decode(artifact_b64))
    found = steering.cut(program)
    module, dims = module_of(workload), dict(workloads.find(workload).sizes["full"])

    def draw(key: Any) -> list[Any]:
        inputs = module.create_inputs(key, dims)
        return [inputs[at] for at in found.inputs]  # XLA leaves out the others

    arrays = jax.jit(found.exported.call)(*jax.jit(draw, compiler_options=QUICKLY)(jax.random.key(SEED)))
    with program.context:
        calls = mosaic.mosaic_calls(program)
        known: list[list[Any]] = [[None] * len(call.op.operands) for call in calls]
    for (kernel, at), array in zip(found.operands, arrays, strict=True):
        if (kernel, at) not in found.unknown:
            known[kernel][at] = np.asarray(array).tolist()
    return {
        "steering": known,
        "drawn": [any(kernel == number for kernel, _ in found.drawn) for number in range(len(calls))],
        "unknown": [
            [f"operand {at}: {why}" for (kernel, at), why in found.unknown.items() if kernel == number]
            for number in range(len(calls))
        ],
    }


def profile_point(artifact_b64: str, tpu: str, kernel: int, point: list[int], kind: Any = None) -> dict[str, Any]:
    """Cycles of one kernel of an artifact with one grid, all steps of one kind."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import static_profile

    return static_profile.profile_point(artifact.read(base64.b64decode(artifact_b64)), tpu, kernel, point, kind)


def profile_around(artifact_b64: str, tpu: str) -> dict[str, Any]:
    """Cycles of the XLA operations around the kernels of an artifact, at their true shapes."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import static_profile

    return {"ops": static_profile.profile_around(artifact.read(base64.b64decode(artifact_b64)), tpu)}


def compile_baseline(workload: str, tpu: str, at: dict[str, int], dump: bool = False) -> dict[str, Any]:
    """Compile a workload's plain JAX at its full size with some dimensions replaced: {"ops", "peaks"}.

    dump: read the program from a file that libtpu writes; jaxlib cannot read all that libtpu compiles. Only in a
    process that has not loaded libtpu.
    """
    from hawkeye_mcp.profiler import hlo, static_profile

    text, _ = _baseline(workload, tpu, at, dump)
    return {"ops": [dataclasses.asdict(op) for op in hlo.ops(text)], "peaks": static_profile.peaks(tpu)}


def baseline_hlo(workload: str, tpu: str, dump: bool = False) -> dict[str, Any]:
    """The optimised program of a workload's plain JAX at its full size: {"text", "facts" (hlo_facts.HloFacts, or None where
    "unread" says why), "argument_bytes", "output_bytes", "temp_bytes"}; or {"compiler": the compiler's words} if it refuses.

    dump: as for `compile_baseline`.
    """
    from hawkeye_mcp.intake.hlo_facts import hlo_facts
    from hawkeye_mcp.profiler import hlo

    device(tpu)  # what fails here is no fault of the workload
    try:
        text, compiled = _baseline(workload, tpu, {}, dump)
    except (jax.errors.JaxRuntimeError, MosaicError, ValueError, NotImplementedError, TypeError) as error:
        return {"compiler": f"{error}"}
    memory = compiled.memory_analysis()
    facts, unread = None, ""
    try:
        facts = hlo_facts(text).model_dump(mode="json")
    except hlo.Unreadable as error:
        unread = f"{error}"[:500]
    return {
        "text": text,
        "facts": facts,
        "unread": unread,
        "argument_bytes": int(memory.argument_size_in_bytes),
        "output_bytes": int(memory.output_size_in_bytes),
        "temp_bytes": int(memory.temp_size_in_bytes),
    }


def _baseline(workload: str, tpu: str, at: dict[str, int], dump: bool) -> tuple[str, Any]:
    """The optimised program as text, and compiled."""
    from hawkeye_mcp import workloads
    from hawkeye_mcp.judge.verify import module_of

    folder = Path(os.environ["TMPDIR"])
    if dump:
        os.environ["XLA_FLAGS"] = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
    module = module_of(workload)
    dims = dict(workloads.find(workload).sizes["full"]) | at
    shapes = jax.eval_shape(lambda: module.create_inputs(jax.random.key(0), dims))
    exported = export.export(jax.jit(module.workload), platforms=["tpu"])(*shapes)
    compiled = compile_exported(exported, tpu)
    if not dump:
        return compiled.as_text(), compiled
    (path,) = folder.glob("*jit_call*.after_optimizations.txt")
    return path.read_text(encoding="utf-8"), compiled


def plan_xla_kernel(call: dict[str, Any], tpu: str) -> dict[str, Any]:
    """The grids to profile of a Mosaic kernel that XLA made; nothing is compiled."""
    from hawkeye_mcp.profiler import static_profile, xla_kernel

    (plan,) = static_profile.plan_kernels(xla_kernel.program(call), tpu)
    return {name: plan[name] for name in ("points", "weights", "window_bytes", "lower_bound", "notes")}


def profile_xla_kernel(call: dict[str, Any], tpu: str, point: list[int]) -> dict[str, Any]:
    """Compile that kernel alone with one grid; its profile is in the file that libtpu writes."""
    from hawkeye_mcp.profiler import xla_kernel

    compile_exported(xla_kernel.alone(call, point), tpu)
    return {}


def warm(tpu: str) -> dict[str, Any]:
    """Load libtpu and compile something small for one chip."""
    import jax.numpy as jnp

    exported = export.export(jax.jit(lambda x: x + 1), platforms=["tpu"])(jax.ShapeDtypeStruct((8, 128), jnp.float32))
    compile_exported(exported, tpu)
    return {}


def count_point(artifact_b64: str, tpu: str, kernel: int, point: list[int], kind: Any = None) -> dict[str, Any]:
    """Cycles of one kernel of an artifact with one grid, and what it does in them; only in a "walker" or "tracer", which
    dump executed bundles."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.profiler import counting

    program = artifact.read(base64.b64decode(artifact_b64))
    return counting.count_point(program, tpu, kernel, point, Path(os.environ["TMPDIR"]), kind=kind)


def fidelity_names() -> dict[str, Any]:
    """The kernels on which sampling is held against the whole profile."""
    from hawkeye_mcp.profiler.fidelity_kernels import SUBJECTS

    return {"names": list(SUBJECTS)}


def fidelity_subject(name: str) -> dict[str, Any]:
    """One of them as an artifact, and its chip."""
    from hawkeye_mcp.profiler.fidelity_kernels import SUBJECTS

    return {"artifact_b64": base64.b64encode(SUBJECTS[name].artifact()).decode(), "tpu": SUBJECTS[name].tpu}


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {
    "count_point": count_point,
    "compile": compile_artifact,
    "plan": plan_kernels,
    "draw_steering": draw_steering,
    "profile_point": profile_point,
    "profile_around": profile_around,
    "compile_baseline": compile_baseline,
    "baseline_hlo": baseline_hlo,
    "plan_xla_kernel": plan_xla_kernel,
    "profile_xla_kernel": profile_xla_kernel,
    "warm": warm,
    "fidelity_names": fidelity_names,
    "fidelity_subject": fidelity_subject,
    **ACCURACY,
}

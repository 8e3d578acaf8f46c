"""Inside a worker: what a prediction is made of, for one measured row.

`prepare` exports the row's program and says what to profile of it; `point` profiles one grid of one kernel;
`surroundings` compiles the program for what XLA does around its kernels.
"""

import base64
import hashlib
import math
import os
import re
from collections.abc import Callable
from typing import Any

from hawkeye_mcp.accuracy.rows import Row


def prepare(row: dict[str, Any]) -> dict[str, Any]:
    """{"artifact_b64", "kernels"}; of each kernel its plan, the kinds of its steps and the transfers at each step."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.accuracy import kernels
    from hawkeye_mcp.profiler import mosaic, pipeline, transfers, variants

    found = Row(**row)
    exported, known = kernels.program(found.file, found.spec, found.config, found.chip)
    program = artifact.read(exported)
    reply = []
    with program.context:
        calls = mosaic.mosaic_calls(program)
        prefetched = known.prefetched if len(known.prefetched) == len(calls) else [None] * len(calls)
        for call, arrays in zip(calls, prefetched, strict=True):
            steps = pipeline.steps(call, arrays)
            numbers, kinds = variants.branches(call, arrays)
            plan = _plan(call, numbers, found.chip)
            jobs = []
            for at, (taken, count) in enumerate(kinds.most_common()):
                copy = variants.variant(call, numbers, taken)
                grids = _points(plan.points, first=at == 0)
                keys = [_key(copy, grid, found.chip) for grid in grids]
                jobs.append({"taken": list(taken), "count": count, "points": grids, "keys": keys})
            reply.append(
                {
                    "name": call.name,
                    "grid": list(call.grid),
                    "calls": call.calls,
                    "points": [list(point) for point in plan.points],
                    "weights": list(plan.weights),
                    "branches": numbers,
                    "jobs": jobs,
                    "transfers": [list(of) for of in steps.counted()],
                    "first_bytes": int(steps.read_bytes[0]),
                    "last_bytes": int(steps.written_bytes[-1]),
                    "window_bytes": steps.total_bytes,
                    "by_hand_bytes": sum(transfers.transferred_bytes(call)) if call.moves_by_hand else 0,
                }
            )
    return {"artifact_b64": base64.b64encode(exported).decode(), "kernels": reply}


def _plan(call: Any, branches: list[int], chip: str) -> Any:
    """The judge's plan; for a kernel all of whose branches are known for each step, one axis tells what a step costs."""
    from hawkeye_mcp.profiler import sampling, static_profile

    if not branches or any(
        op.operation.name.endswith("scf.if") and number not in branches
        for number, op in enumerate(call.main.regions[0].blocks[0])
    ):
        return static_profile.plan_for(call, chip)[0]
    return sampling.plan(call.grid, depth=1, pace=sampling.Pace.LONG)


def _points(points: tuple[tuple[int, ...], ...], *, first: bool) -> list[list[int]]:
    """The commonest kind of step is profiled at every point of the plan, each other at the longest to tell the difference."""
    if first:
        return [list(point) for point in points]
    return [list(max(points, key=math.prod))] if points else []


def _key(copy: Any, point: list[int], chip: str) -> str:
    """Equal for kernels that cost the same at this point: the text of their bodies, but for lengths that do not matter."""
    text = copy.body.operation.get_asm(binary=False, enable_debug_info=False)
    for n in sorted({int(n) for n in copy.grid}, reverse=True):
        if n > 3:
            text = re.sub(rf"value = {n - 1} : i32", "value = last : i32", text)
    text = re.sub(r"iteration_bounds = array<i64[^>]*>", "", text)
    text = re.sub(r"memref<\d+xi32, #tpu.memory_space<smem>>", "memref<smem>", text)
    parts = (chip, str(point), str(copy.config.get("flag_configs")), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def point(artifact_b64: str, tpu: str, kernel: int, branches: list[int], taken: list[bool], grid: list[int], without_masks: bool) -> dict[str, Any]:  # fmt: skip
    """Cycles of one kind of step of one kernel, alone, over a short grid."""
    from hawkeye_mcp import artifact
    from hawkeye_mcp.judge.compiler import compile_exported
    from hawkeye_mcp.profiler import hlo, mosaic, variants
    from hawkeye_mcp.profiler.cutout import cut_out

    program = artifact.read(base64.b64decode(artifact_b64))
    with program.context:
        call = variants.variant(
            mosaic.mosaic_calls(program)[kernel], branches, tuple(taken), without_masks=without_masks
        )
        compiled = compile_exported(cut_out(call, [grid]), tpu)
        (op,) = (op for op in hlo.ops(compiled.as_text()) if op.mosaic and op.point is not None)
    return {"cycles": op.profile_cycles, "vmem_bytes": op.vmem_bytes}


def surroundings(artifact_b64: str, tpu: str) -> dict[str, Any]:
    """The operations of the compiled program, its kernels emptied so that only what is around them is compiled.

    Copies stay on the TensorCore: jaxlib cannot read a program in which libtpu moved them to the SparseCore.
    """
    os.environ["LIBTPU_INIT_ARGS"] += " --xla_tpu_enable_offloading_copy_to_sparsecore=false"
    from hawkeye_mcp import artifact
    from hawkeye_mcp.judge.compiler import compile_exported
    from hawkeye_mcp.profiler import hlo, mosaic, static_profile, variants

    program = artifact.read(base64.b64decode(artifact_b64))
    with program.context:
        for call in mosaic.mosaic_calls(program):
            variants.empty(call)
    compiled = compile_exported(static_profile.numbered(program), tpu)
    text = compiled.as_text()
    fields = ("name", "opcode", "xla_cycles", "hbm_bytes", "calls", "mosaic", "ahead", "small", "sort", "elements")
    return {
        "ops": [
            {field: getattr(op, field) for field in fields}
            | {"products": [[p.flops, p.depth, p.width] for p in op.products]}
            for op in hlo.ops(text)
        ],
        "peaks": static_profile.peaks(tpu),
    }


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {
    "accuracy_prepare": prepare,
    "accuracy_point": point,
    "accuracy_surroundings": surroundings,
}
